"""What must not outlive us: folders for work in progress and programs that run for us, however this process ends.

Ctrl-C ends the command line at once and without an exception: one that is raised while native modules are imported,
or while they call back into Python, gets lost or crashes. Where we are killed, a guard, which is a shell that waits for
our end, removes the folders.
"""

from __future__ import annotations

import contextlib
import functools
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

INTERRUPTED = 130
_GUARD = 'trap "" INT TERM HUP; read -r end; rm -rf -- "$1"'

_folders: list[Path] = []
_endings: list[Callable[[], object]] = []


@contextlib.contextmanager
def temporary_folder(parent: Path | None = None) -> Iterator[Path]:
    """A new folder (hidden, if in `parent`) that is gone afterwards, whatever happens. OSError if none can be made."""
    name = f"onnxc-{secrets.token_hex(6)}"
    folder = parent / f".{name}" if parent is not None else Path(tempfile.gettempdir(), name)
    _folders.append(folder)  # before it exists, so that it cannot be missed
    guard = None
    try:
        folder.mkdir(mode=0o700)
        guard = _watch(folder)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        _folders.remove(folder)
        if guard is not None:
            guard.kill()
            guard.communicate()


def is_temporary(folder: Path) -> bool:
    """Whether this is a temporary_folder, so that what lies in it goes with it."""
    return folder in _folders


def _watch(folder: Path) -> subprocess.Popen[Any] | None:
    """A process that removes the folder when the pipe to it closes; None where there is no shell."""
    command = ["/bin/sh", "-c", _GUARD, "sh", str(folder.absolute())]
    silent: dict[str, Any] = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with contextlib.suppress(OSError):
        return subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True, **silent)
    return None


@contextlib.contextmanager
def ended_at_ctrl_c(end: Callable[[], object]) -> Iterator[None]:
    """While entered, Ctrl-C on the command line calls `end`."""
    _endings.append(end)
    try:
        yield
    finally:
        _endings.remove(end)


def run_program(
    command: Sequence[str], *, folder: Path | None = None, variables: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Runs a program to its end, which is ours at the latest, and gives what it said."""
    environment = os.environ | variables if variables else None
    pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    # a session of its own, since it may start others: all of them are ended together
    with subprocess.Popen(
        command, cwd=folder, env=environment, text=True, errors="replace", start_new_session=True, **pipes
    ) as program:
        end = functools.partial(os.killpg, program.pid, signal.SIGKILL)
        with ended_at_ctrl_c(end):
            try:
                out, said = program.communicate()
            except BaseException:
                end()
                raise
        return subprocess.CompletedProcess(list(command), program.returncode, out, said)


def leave_at_ctrl_c() -> None:
    """From now on Ctrl-C ends this process with one line and exit code 130, and leaves nothing behind."""
    signal.signal(signal.SIGINT, _leave)


def _leave(number: int, frame: object) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for end in reversed(_endings):
        with contextlib.suppress(Exception):
            end()
    for folder in _folders:
        shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(OSError):
        os.write(sys.stderr.fileno(), b"\nerror: interrupted\n" if sys.stderr.isatty() else b"error: interrupted\n")
    os._exit(INTERRUPTED)
