"""Runs `onnxc` for tests, each command in a process of its own, as a user's are.

They are forks of a process that has imported what commands need, which otherwise takes each 1.3 s of a core; `alone`
starts one as a user does.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

TOP = Path(__file__).parent.parent
LONGEST = 600.0  # seconds: what takes longer hangs
Done = subprocess.CompletedProcess


def alone(arguments: list[str], folder: Path | None = None) -> Done[str]:
    command = [sys.executable, "-m", "onnxc", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=LONGEST)


def forked(arguments: list[str], folder: Path | None = None) -> Done[str]:
    return _server(os.getpid()).run(arguments, folder or Path.cwd())


@functools.cache
def _server(process: int) -> Server:
    """This process's; that of a parent is none of its forks'."""
    return Server()


class Server:
    """The process that is forked; it ends with this one, whose end closes the pipe to it."""

    def __init__(self) -> None:
        path = os.pathsep.join([str(TOP), *filter(None, sys.path)])
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from tests.command_line import serve; serve()"],
            env={**os.environ, "PYTHONPATH": path}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip

    def run(self, arguments: list[str], folder: Path) -> Done[str]:
        assert self.process.stdin is not None and self.process.stdout is not None
        with contextlib.ExitStack() as stack:
            files = [stack.enter_context(tempfile.NamedTemporaryFile()) for _ in range(2)]
            names = [file.name for file in files]
            request = {"arguments": arguments, "folder": str(folder), "environment": dict(os.environ), "files": names}
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
            if not select.select([self.process.stdout], [], [], LONGEST)[0]:
                os.killpg(self.process.pid, signal.SIGKILL)
                raise subprocess.TimeoutExpired(arguments, LONGEST)
            code = int(self.process.stdout.readline())
            out, told = (file.read().decode() for file in files)
        return Done(arguments, code, out, told)


def serve() -> None:
    """Forks for each request, a line of JSON, and answers with the exit code; returns in no process but a fork's."""
    import onnxc.__main__
    import onnxc.advise
    import onnxc.cli
    import onnxc.driver
    import onnxc.tuning.command

    signal.signal(signal.SIGINT, signal.SIG_DFL)
    while line := sys.stdin.buffer.readline():
        child = os.fork()
        if not child:
            become(json.loads(line))
            onnxc.__main__.main()
        os.write(1, b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


def become(request: dict) -> None:
    """Makes this process one that somebody has started so."""
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    for number, name in enumerate((os.devnull, *request["files"])):
        file = os.open(name, os.O_RDWR)
        os.dup2(file, number)
        os.close(file)
    sys.argv = ["onnxc", *request["arguments"]]
