"""String tensors across the C interface: arrays of Python strings against arrays of onnxc_string."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from onnxc.runtime import abi

PLACE = ctypes.sizeof(abi.onnxc_string)


def packed_strings(array: np.ndarray) -> np.ndarray:
    """The onnxc_strings of the elements (str or bytes), as bytes that lie before their text in the same memory."""
    texts = [t if isinstance(t, bytes) else str(t).encode("utf-8", "surrogateescape") for t in array.ravel().tolist()]
    sizes = np.array([len(t) for t in texts], np.uint64)
    places = np.empty((len(texts), 2), np.uint64)
    memory = np.empty(len(texts) * PLACE + int(sizes.sum()), np.uint8)
    start = memory.__array_interface__["data"][0] + places.nbytes
    places[:, 0] = np.uint64(start) + np.cumsum(sizes) - sizes
    places[:, 1] = sizes
    memory[: places.nbytes] = places.reshape(-1).view(np.uint8)
    memory[places.nbytes :] = np.frombuffer(b"".join(texts), np.uint8)
    return memory


def read_strings(data: int, shape: tuple[int, ...]) -> np.ndarray:
    """The strings behind an output, as an object array of str."""
    result = np.empty(shape, object)
    count = result.size
    if count:
        words: Any = ctypes.cast(data, ctypes.POINTER(ctypes.c_uint64))
        texts = [ctypes.string_at(words[2 * i], words[2 * i + 1]) for i in range(count)]
        result.reshape(-1)[:] = [text.decode("utf-8", "surrogateescape") for text in texts]
    return result
