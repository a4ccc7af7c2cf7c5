"""This file watches the process that measures: whatever ends it, or hangs in it, is the failure of one candidate.

Crashes of a candidate itself are caught inside of it (isolated.py); this is for what takes the whole process along: a
system out of memory, a signal from outside, a library that cannot be loaded. Another process then goes on with what is
left. Needs neither the model nor the compiler.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from onnxc.runtime.errors import LoadError
from onnxc.runtime.isolated import STEP
from onnxc.runtime.measure import LONGEST, Result

COMMAND = (sys.executable, "-m", "onnxc.runtime.measure", "--serve")
PATIENCE = 2 * LONGEST  # seconds without a word: a candidate's own limit has passed long ago
SILENT = 2  # processes that end without a word, one after the other: there is no use in a third


class Ended(Exception):
    """The process gives no more answers; the message says how it ended."""


class Watched:
    """Measures bundles in a process of its own, which is started when it is needed, and again when it has ended."""

    def __init__(self, command: Sequence[str] = COMMAND, patience: float = PATIENCE) -> None:
        self.command, self.patience = command, patience
        self._process: subprocess.Popen[bytes] | None = None
        self._said = b""

    def measure(self, folder: Path) -> list[Result]:
        """The results of a bundle's tasks, one each. LoadError where it is no bundle, or no process can be kept."""
        results: list[Result] = []
        failed: dict[int, str] = {}  # of the task that comes next: its candidates that took the process along
        silent = 0
        while True:
            at = None
            try:
                for answer in self._ask({"bundle": str(folder), "first": len(results), "failed": failed}):
                    if "at" in answer:
                        at = answer["at"][1]
                    elif "result" in answer:
                        results.append(answer["result"])
                        failed, at = {}, None
                    elif "error" in answer:
                        raise LoadError(answer["error"])
                    else:
                        return results
            except Ended as ended:
                why = f"the process that measures {ended}"
                silent = silent + 1 if at is None else 0
                if silent == SILENT:
                    raise LoadError(why) from ended
                if at == 0:
                    results.append({"error": why})
                    failed = {}
                elif at is not None:
                    failed[at] = why

    def _ask(self, request: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The answers to a request. Ended where they stop before the last one."""
        if self._process is None or self._process.poll() is not None:
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(self.command, bufsize=0, stdin=pipe, stdout=pipe, start_new_session=True)
            self._said = b""
        process = self._process
        assert process.stdin is not None
        try:
            process.stdin.write(json.dumps(request).encode() + b"\n")
        except BrokenPipeError:
            raise self._ended() from None
        while True:
            yield json.loads(self._line())

    def _line(self) -> bytes:
        assert self._process is not None and self._process.stdout is not None
        pipe, waited = self._process.stdout.fileno(), 0.0
        with selectors.PollSelector() as selector:
            selector.register(pipe, selectors.EVENT_READ)
            while b"\n" not in self._said:
                if selector.select(STEP):
                    waited = 0.0
                    if not (piece := os.read(pipe, 1 << 16)):
                        raise self._ended()
                    self._said += piece
                elif (waited := waited + STEP) >= self.patience:
                    self.close()
                    raise Ended(f"said nothing for {self.patience:.3g} s")
        line, self._said = self._said.split(b"\n", 1)
        return line

    def _ended(self) -> Ended:
        assert self._process is not None
        status = self._process.wait()
        return Ended(f"ended by {signal.Signals(-status).name}" if status < 0 else f"left with status {status}")

    def close(self) -> None:
        """Ends the process and all that it has started."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()
