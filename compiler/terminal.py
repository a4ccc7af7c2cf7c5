"""This file writes progress, notes and errors to standard error: with rich on a terminal, as plain lines elsewhere."""

from __future__ import annotations

import contextlib
import sys
import textwrap
from types import TracebackType
from typing import TextIO

from onnxc.leftovers import ended_at_ctrl_c
from onnxc.progress import Progress


class Terminal(Progress):
    """Progress on `stream` while it is entered; notes only when `verbose`."""

    def __init__(self, verbose: bool = False, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stderr
        self.verbose = verbose
        self._bar = _bar(self.stream) if self.stream.isatty() else None
        self._stage, self._task = "", None
        self._exit = contextlib.ExitStack()

    def __enter__(self) -> Terminal:
        if self._bar is not None:
            self._bar.start()
            self._exit.callback(self._bar.stop)
            self._exit.enter_context(ended_at_ctrl_c(self._bar.stop))  # it hides the cursor
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._exit.close()

    def stage(self, name: str, done: int = 0, total: int = 0, detail: str = "") -> None:
        if self._bar is None:
            return
        if self._task is None or name != self._stage:
            if self._task is not None:
                self._bar.remove_task(self._task)
            self._stage, self._task = name, self._bar.add_task(name, total=total or None)
        self._bar.update(self._task, completed=done, description=f"{name}: {detail}" if detail else name)
        self._bar.refresh()

    def note(self, line: str) -> None:
        if self.verbose:
            self.say(line)

    def say(self, line: str) -> None:
        if self._bar is not None:
            self._bar.console.print(line, markup=False, highlight=False, soft_wrap=True)
        else:
            self.stream.write(line + "\n")
            self.stream.flush()


def _bar(stream: TextIO):
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    # no thread of rich's own that refreshes: workers are forked meanwhile
    return Bar(*columns, console=Console(file=stream), transient=True, auto_refresh=False)


def report_error(text: str) -> None:
    """Writes `text` as one readable paragraph a line of it, with a coloured label on a terminal."""
    stream = sys.stderr
    for paragraph in text.splitlines():
        line = f"error: {paragraph}"
        if stream.isatty():
            line = textwrap.fill(line, 100, subsequent_indent="  ", break_long_words=False, break_on_hyphens=False)
            line = line.replace("error:", "\x1b[1;31merror:\x1b[0m", 1)
        stream.write(line + "\n")
    stream.flush()
