"""Counts the shapes of a session's inputs in a JSON file, which `onnxc advise` reads."""

from __future__ import annotations

import fcntl
import json
import os
import threading
import warnings
import weakref
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from onnxc.runtime.arrays import dense_array
from onnxc.runtime.errors import InputError
from onnxc.runtime.library import NodeArg

Shapes = tuple[tuple[int, ...], ...]
Counts = dict[tuple[int, Shapes], int]
"""By the process that ran, so that a fork does not count its parent's runs again, and the shapes."""


class ShapeRecord:
    """Appends to the file at `path`: each new shape at once, how often it came when the record is closed or freed.

    A file that cannot be written is told when the record is made; what fails later is warned of, for the runs go on.
    """

    def __init__(self, path: str | os.PathLike[str], inputs: Sequence[NodeArg]) -> None:
        self._path, self._inputs = os.fspath(path), list(inputs)
        self._names = [arg.name for arg in inputs]
        self._counts: Counts = {}
        self._seen: set[Shapes] = set()
        self._lock = threading.Lock()
        try:
            _write(self._path, self._names, {})
        except (OSError, ValueError) as error:
            raise InputError(_told(self._path, error)) from error
        self.close = weakref.finalize(self, _write_or_warn, self._path, self._names, self._counts)

    def note(self, feeds: Mapping[str, Any]) -> None:
        """Counts one run."""
        shapes = tuple(_shape(feeds[arg.name], arg) for arg in self._inputs)
        key = os.getpid(), shapes
        with self._lock:
            self._counts[key] = self._counts.get(key, 0) + 1
            if shapes not in self._seen:
                self._seen.add(shapes)
                _write_or_warn(self._path, self._names, self._counts)


def _shape(value: Any, arg: NodeArg) -> tuple[int, ...]:
    return value.shape if isinstance(value, np.ndarray) else dense_array(value, arg).shape


def _told(path: str, error: Exception) -> str:
    return f"the shapes of runs cannot be recorded in '{path}': {getattr(error, 'strerror', None) or error}"


def _write_or_warn(path: str, names: Sequence[str], counts: Counts) -> None:
    try:
        _write(path, names, counts)
    except (OSError, ValueError) as error:
        warnings.warn(_told(path, error), RuntimeWarning, stacklevel=2)


def _write(path: str, names: Sequence[str], counts: Counts) -> None:
    """Adds the counts to those in the file, which other processes may write, too, and forgets them."""
    with open(path, "a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        entries = _entries(file.read())
        for (process, shapes), count in counts.items():
            if process != os.getpid():
                continue
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


def _entries(text: str) -> list[dict[str, Any]]:
    """What the file holds. ValueError where that is no list of shapes."""
    entries = json.loads(text) if text.strip() else []
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise ValueError("it holds no list of objects")
    if not all(isinstance(entry.get("weight", 1), int | float) for entry in entries):
        raise ValueError("it holds a weight that is no number")
    return entries
