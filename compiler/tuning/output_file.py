"""This file writes what a tuning has found whenever there is more of it; what others put there stays."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

from onnxc.errors import OnnxcError
from onnxc.tuning.records import Records


class OutputFile:
    """A file that a tuning writes its records to whenever it has found one.

    What another process puts there meanwhile stays, and so do lines of `newer` versions. `written`: whether anything
    was written yet.
    """

    def __init__(self, path: Path, newer: Iterable[str] = ()) -> None:
        self.path, self.written = path, False
        self._state = _state(path)
        self._own: set[str] = set()
        self._others = Records(newer=newer)

    def write(self, records: Records) -> None:
        """The records, and those of others."""
        if _state(self.path) != self._state:
            with contextlib.suppress(OnnxcError):  # it is gone
                there, _ = Records.read(self.path)
                others = [record for record in (*self._others, *there) if record.line() not in self._own]
                self._others = Records(others, [*self._others.newer, *there.newer])
        self._own.update(record.line() for record in records)
        records.merge(self._others).write(self.path)
        self._state, self.written = _state(self.path), True


def _state(path: Path) -> tuple[int, int, int] | None:
    """Which content a path has; None: nothing is there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_size, found.st_mtime_ns
