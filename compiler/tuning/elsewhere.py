"""This file has bundles measured by a command: `ssh`, `adb`, an emulator, a batch queue, whatever runs a program there.

The bundle is one program (program.py), `{bundle}` in the command is its path, and what the command prints must be what
the program prints: JSON lines (measure.c). Whatever else may come of a command is told as an error with a hint.
"""

from __future__ import annotations

import functools
import json
import math
import os
import re
import selectors
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import IO, Any, NoReturn

from onnxc.errors import UNREADABLE, OnnxcError
from onnxc.leftovers import ended_at_ctrl_c
from onnxc.runtime.measure import FORMAT, LONGEST
from onnxc.tuning.program import PROGRAM

PLACE = "{bundle}"
PATIENCE = 120.0  # seconds for a connection, beside what measuring may take
SLOWEST = 100_000  # bytes a second on the way there
MOST_OUTPUT = 64 << 20  # bytes
SHOWN = 300  # characters of what a command said

_SSH = "ssh -o BatchMode=yes -o ConnectTimeout=15 -o ServerAliveInterval=15 {where} {script} < {bundle}"
# the login shell may be any, so it only starts sh
_THERE = (
    """sh -c 'f=$(mktemp "${TMPDIR:-/tmp}/onnxc-XXXXXX") && trap "rm -f $f" EXIT && trap "exit 1" HUP INT TERM PIPE """
    """&& cat > "$f" && chmod 700 "$f" && "$f"'"""
)
_HOST = re.compile(r"(?:[\w.][\w.-]*@)?(?:[\w.][\w.-]*|\[[0-9A-Fa-f:.]+\])(?::(?P<port>\d{1,5}))?", re.ASCII)


def ssh_command(name: str) -> str:
    """The command of `ssh:[USER@]HOST[:PORT]`: one connection takes the program there, runs and removes it."""
    address = name.removeprefix("ssh:").removeprefix("//")
    found = _HOST.fullmatch(address)
    if found is None:
        raise OnnxcError(f"'{name}' names no host", hint="ssh:[USER@]HOST[:PORT]", exit_code=UNREADABLE)
    port = found["port"]
    host = address.removesuffix(f":{port}").replace("[", "").replace("]", "")
    return _SSH.format(where=f"-p {port} {host}" if port else host, script=shlex.quote(_THERE), bundle=PLACE)


class CommandRunner:
    """Measures by a shell command; `patience`: seconds that it may take beside measuring and the way there."""

    width = 1
    form = "program"
    here = False

    def __init__(self, command: str, name: str = "", patience: float = PATIENCE) -> None:
        if PLACE not in command:
            hint = f"{PLACE} stands for the program that the command is to run on the device"
            raise OnnxcError(f"the command '{command}' has no {PLACE}", hint=hint, exit_code=UNREADABLE)
        self.command, self.name, self.patience = command, name or command, patience

    def submit(self, folder: Path) -> Future[list[dict[str, Any]]]:
        future: Future[list[dict[str, Any]]] = Future()
        future.set_result(self._ask(folder))
        return future

    def _ask(self, folder: Path) -> list[dict[str, Any]]:
        manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
        program, tasks = folder / PROGRAM, manifest["tasks"]
        longest = sum(min(t["seconds"], LONGEST * len(t["candidates"])) + LONGEST for t in tasks)
        seconds = self.patience + program.stat().st_size / SLOWEST + longest
        status, said, complaint = self._run(program, seconds)
        if status != 0:
            self._fail(status, complaint or said)
        try:
            results = read_lines(said)["results"]
        except ValueError as error:
            said = said.strip() or "nothing"
            hint = f"on the device run {PLACE} itself, and let what it prints come to the command's standard output"
            raise self._error(f"printed no results ({error})", f"it printed: {said:.{SHOWN}}", hint) from error
        if [r["name"] for r in results] != [t["name"] for t in tasks]:
            raise self._error(f"printed {len(results)} of {len(tasks)} results", complaint, "was it ended early?")
        if tasks and all(r.get("error") == "ended by SIGILL" for r in results):
            hint = "--mcpu names what the code is for; see /proc/cpuinfo on the device"
            raise self._error("ran code that its CPU does not have (SIGILL)", None, hint)
        return [_checked(result, task, self) for result, task in zip(results, tasks, strict=True)]

    def _run(self, program: Path, seconds: float) -> tuple[int, str, str]:
        """The command's status and what it said, on standard output and as complaints."""
        line = self.command.replace(PLACE, shlex.quote(str(program.absolute())))
        pipes: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        with subprocess.Popen(["/bin/sh", "-c", line], start_new_session=True, **pipes) as process:
            end = functools.partial(os.killpg, process.pid, signal.SIGKILL)
            with ended_at_ctrl_c(end):
                try:
                    out, complaint = _read([process.stdout, process.stderr], time.monotonic() + seconds)
                    status = process.wait(max(1.0, seconds))
                except (TimeoutError, subprocess.TimeoutExpired):
                    end()
                    hint = "is the device reachable, and does the command end by itself?"
                    raise self._error(f"took more than {seconds:.0f} s", None, hint) from None
                except OverflowError:
                    end()
                    raise self._error(f"printed more than {MOST_OUTPUT >> 20} MB", None, None) from None
                except BaseException:
                    end()
                    raise
        return status, out, complaint

    def _fail(self, status: int, said: str) -> NoReturn:
        hints = {
            126: "it cannot be executed there: is it for another machine (--target), or the folder (TMPDIR) noexec?",
            127: "there is no such program: is it installed, and on PATH?",
            255: f"does `{address} true` work without questions? Ports, keys and names go into ~/.ssh/config"
            if (address := self._ssh())
            else None,
        }
        how = f"exit code {status}" if status >= 0 else f"by {signal.Signals(-status).name}"
        raise self._error(f"ended with {how}" if status >= 0 else f"ended {how}", said.strip(), hints.get(status))

    def _ssh(self) -> str:
        """How ssh reaches the device, without the options and what it does there; empty where the command is no ssh."""
        found = re.match(r"ssh (?:-o \S+ )*((?:-p \d+ )?\S+)", self.command)
        return f"ssh {found[1]}" if found else ""

    def _error(self, message: str, why: str | None, hint: str | None) -> OnnxcError:
        short = why if why is None or len(why) <= SHOWN else "…" + why[-SHOWN:]
        return OnnxcError(
            f"--runner {self.name}: the command {message}", why=short or None, hint=hint, exit_code=UNREADABLE
        )


def _read(pipes: Sequence[IO[bytes] | None], until: float) -> list[str]:
    """What comes from pipes until all are closed. TimeoutError, OverflowError where that is too late or too much."""
    parts: dict[Any, bytearray] = {pipe: bytearray() for pipe in pipes}
    with selectors.DefaultSelector() as selector:
        for pipe in parts:
            selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(max(0.0, until - time.monotonic()))
            if not ready or time.monotonic() > until:
                raise TimeoutError
            for key, _ in ready:
                data = os.read(key.fd, 1 << 16)
                parts[key.fileobj] += data
                if not data:
                    selector.unregister(key.fileobj)
            if sum(map(len, parts.values())) > MOST_OUTPUT:
                raise OverflowError
    return [part.decode("utf-8", "replace") for part in parts.values()]


def read_lines(text: str) -> dict[str, Any]:
    """The results in what a program printed, as measure.py writes them: a head and JSON objects.

    Passed over are lines before the head, and others than JSON objects. ValueError: what is wrong.
    """
    lines: list[dict[str, Any]] = []
    broken = False  # greetings may look like anything
    for line in text.splitlines():
        if not line.lstrip().startswith("{"):
            continue
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            broken = True
            if lines:
                break
        else:
            if lines or "format" in value:
                broken = False
                lines.append(value)
    if broken:
        raise ValueError("a line is cut off, or no JSON")
    if not lines:
        raise ValueError("it has no head")
    head, *results = lines
    if head["format"] != FORMAT:
        raise ValueError(f"they are of format {head['format']!r:.20}, {FORMAT} is read")
    if not all(isinstance(result.get("name"), str) for result in results):
        raise ValueError("a result has no name")
    return {**head, "results": results}


def _checked(result: dict[str, Any], task: Mapping[str, Any], runner: CommandRunner) -> dict[str, Any]:
    """The result, if it can be one of the task's."""
    count, told = len(task["candidates"]), result.get("candidates")
    times = [result.get(name) for name in ("ns", "default_ns")]
    fine = isinstance(result.get("error"), str) or (
        all(isinstance(t, (int, float)) and math.isfinite(t) and t > 0 for t in times)
        and isinstance(told, list)
        and len(told) == count
        and all(isinstance(t, dict) and isinstance(t.get("verdict"), str) for t in told)
        and isinstance(result.get("winner"), int)
        and 0 <= result["winner"] < count
    )
    if not fine:
        raise runner._error("printed a result that cannot be", json.dumps(result), None)
    return result
