"""Turns what a caller feeds into the dense array that an input takes."""

from __future__ import annotations

import sys
from ctypes import c_size_t
from typing import Any

import numpy as np

from onnxc.runtime.element_types import STRING, numpy_type, numpy_type_text
from onnxc.runtime.errors import InputError, InputTypeError
from onnxc.runtime.library import NodeArg


def dense_array(value: Any, arg: NodeArg) -> np.ndarray:
    """A C-contiguous array of the input's type: `value` itself or a view of its memory where possible, else a copy.

    Lists and Python numbers are converted to the input's type; anything that has a type of its own must have the right
    one. Raises InputTypeError, or InputError for what is no array at all.
    """
    dtype = numpy_type(arg.dtype)
    try:
        array = _as_array(value, dtype)
    except (TypeError, ValueError, OverflowError, BufferError, RuntimeError) as error:
        raise InputError(f"input '{arg.name}' cannot be made of this {type(value).__name__}: {error}") from error
    if arg.dtype == STRING:
        return _strings(array, arg)
    if array.dtype != dtype:
        if array.dtype.newbyteorder("=") != dtype:
            raise InputTypeError(f"input '{arg.name}' is {numpy_type_text(array.dtype)}, not {arg.type}")
        array = array.astype(dtype)
    return array if array.flags.c_contiguous else np.array(array, order="C")


def _as_array(value: Any, dtype: np.dtype) -> np.ndarray:
    if isinstance(value, np.ndarray | np.generic):
        return np.asarray(value)
    if isinstance(value, bool | int | float | complex | str | list | tuple):
        # ml_dtypes' types take no lists of their own: over float
        return np.asarray(value, dtype) if dtype.isbuiltin == 1 else np.asarray(np.asarray(value, np.float64), dtype)
    if hasattr(value, "__dlpack__"):
        return np.from_dlpack(value)
    if isinstance(value, bytes | bytearray):
        return np.frombuffer(value, np.uint8)
    if hasattr(value, "__array__") or hasattr(value, "__array_interface__"):
        return np.asarray(value)
    return np.asarray(memoryview(value))


def _strings(array: np.ndarray, arg: NodeArg) -> np.ndarray:
    if array.dtype.kind not in "OUST":
        raise InputTypeError(f"input '{arg.name}' is {numpy_type_text(array.dtype)}, not {arg.type}")
    return np.array(array, object, order="C")


def _stated_address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def _found_address(array: np.ndarray) -> int:
    return _word_at(id(array) + _HEAD).value


_HEAD = object.__basicsize__
_word_at = c_size_t.from_address


def _has_address_first() -> bool:
    """Whether arrays are laid out as in numpy's C interface: the address of the elements is the first word behind the
    object's head."""
    probe = np.empty(1)
    return sys.implementation.name == "cpython" and _found_address(probe) == _stated_address(probe)


address = _found_address if _has_address_first() else _stated_address
"""Where an array's elements lie; found in half the time that numpy takes to state it."""
