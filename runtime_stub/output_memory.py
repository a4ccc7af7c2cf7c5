"""Memory of outputs that the caller has let go of: the next run writes there again.

Memory fresh from the system costs a page fault for every 4 KB, a third of a microsecond each: a decoder step that
returns 10 MB of keys and values would spend a millisecond on it.
"""

from __future__ import annotations

from math import prod
from sys import getrefcount

import numpy as np

LEAST_BYTES = 1 << 16  # smaller arrays come from malloc's own memory, without page faults
MOST_KEPT = 3  # an output: the newest, the one before, which may be an input of the run, and the next


class OutputMemory:
    """What one output's arrays are made of."""

    def __init__(self) -> None:
        self._kept: list[np.ndarray] = []

    def array(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """An array whose elements are whatever was there, and whose memory nobody else refers to."""
        size = prod(shape) * dtype.itemsize
        if size < LEAST_BYTES:
            return np.empty(shape, dtype)
        kept = self._kept
        for i in range(len(kept)):
            if _references(kept, i) == UNUSED and kept[i].nbytes == size:
                return np.ndarray(shape, dtype, kept[i])
        kept[:] = [kept[i] for i in range(len(kept)) if kept[i].nbytes == size]
        memory = np.empty(size, np.uint8)
        if len(kept) < MOST_KEPT:
            kept.append(memory)
        return np.ndarray(shape, dtype, memory)


def _references(kept: list[np.ndarray], i: int) -> int:
    """How many refer to a piece of memory; views of views refer to it, too: numpy gives all of them this base."""
    return getrefcount(kept[i])


UNUSED = _references([np.empty(0)], 0)
