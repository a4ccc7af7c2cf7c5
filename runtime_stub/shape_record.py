"""Counts the shapes of a session's inputs in a JSON file, which `onnxc advise` reads."""

from __future__ import annotations

import fcntl
import json
import os
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

Shapes = tuple[tuple[int, ...], ...]


class ShapeRecord:
    """Appends to the file at `path`: each new shape at once, how often it came when the record is closed or freed."""

    def __init__(self, path: str | os.PathLike[str], names: Sequence[str]) -> None:
        self._path, self._names = os.fspath(path), list(names)
        self._counts: dict[Shapes, int] = {}
        self._seen: set[Shapes] = set()
        self._lock = threading.Lock()
        self.close = weakref.finalize(self, _write, self._path, self._names, self._counts)
        _write(self._path, self._names, {})  # a file that cannot be written is told now

    def note(self, feeds: Mapping[str, Any]) -> None:
        """Counts one run."""
        shapes = tuple(np.shape(feeds[name]) for name in self._names)
        with self._lock:
            self._counts[shapes] = self._counts.get(shapes, 0) + 1
            if shapes not in self._seen:
                self._seen.add(shapes)
                _write(self._path, self._names, self._counts)


def _write(path: str, names: Sequence[str], counts: dict[Shapes, int]) -> None:
    """Adds the counts to those in the file, which other processes may write, too, and forgets them."""
    with open(path, "a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        text = file.read()
        entries: list[dict[str, Any]] = json.loads(text) if text.strip() else []
        for shapes, count in counts.items():
            shape = {name: list(dims) for name, dims in zip(names, shapes, strict=True)}
            for entry in entries:
                if {key: value for key, value in entry.items() if key != "weight"} == shape:
                    entry["weight"] = entry.get("weight", 1) + count
                    break
            else:
                entries.append({**shape, "weight": count})
        counts.clear()
        file.truncate(0)
        file.write("[\n" + ",\n".join(map(json.dumps, entries)) + "\n]\n")
