"""Memory of outputs that the caller has let go of: the next run writes there again.

Memory fresh from the system costs a page fault for every 4 KB, a third of a microsecond each: a decoder step that
returns 10 MB of keys and values would spend a millisecond on it. And numpy's arrays begin anywhere in a cache line, so
that every whole vector that is stored may meet two lines: a normalisation of 400 KB takes twice as long.
"""

from __future__ import annotations

from math import prod
from sys import getrefcount

import numpy as np

from onnxc.runtime.arrays import address

LEAST_BYTES = 1 << 13  # of smaller arrays, from malloc's own memory, neither costs what keeping them does
ALIGNMENT = 64
MOST_KEPT = 3  # an output: the newest, the one before, which may be an input of the run, and the next


class OutputMemory:
    """What one output's arrays are made of."""

    def __init__(self) -> None:
        self._kept: list[np.ndarray] = []
        self._starts: list[int] = []  # in each, the first aligned byte

    def array(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """An array whose elements are whatever was there, and whose memory nobody else refers to."""
        size = prod(shape) * dtype.itemsize
        if size < LEAST_BYTES:
            return np.empty(shape, dtype)
        kept, starts, room = self._kept, self._starts, size + ALIGNMENT
        for i in range(len(kept)):
            if _references(kept, i) == UNUSED and kept[i].nbytes == room:
                return np.ndarray(shape, dtype, kept[i], starts[i])
        for i in reversed(range(len(kept))):
            if kept[i].nbytes != room:
                del kept[i], starts[i]
        memory = np.empty(room, np.uint8)
        start = -address(memory) % ALIGNMENT
        if len(kept) < MOST_KEPT:
            kept.append(memory)
            starts.append(start)
        return np.ndarray(shape, dtype, memory, start)


def _references(kept: list[np.ndarray], i: int) -> int:
    """How many refer to a piece of memory; views of views refer to it, too: numpy gives all of them this base."""
    return getrefcount(kept[i])


UNUSED = _references([np.empty(0)], 0)
