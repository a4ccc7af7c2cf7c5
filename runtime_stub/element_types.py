"""ONNX's element types: their names at the interface and their numpy types."""

from __future__ import annotations

from functools import cache

import numpy as np

STRING = 8
# type names are onnxruntime's, so that programs can compare them
NAMES = {
    1: "float", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 8: "string", 9: "bool",
    10: "float16", 11: "double", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128", 16: "bfloat16",
    17: "float8e4m3fn", 18: "float8e4m3fnuz", 19: "float8e5m2", 20: "float8e5m2fnuz", 21: "uint4", 22: "int4",
    23: "float4e2m1", 24: "float8e8m0", 25: "uint2", 26: "int2",
}  # fmt: skip
_NUMPY = {
    1: "f4", 2: "u1", 3: "i1", 4: "u2", 5: "i2", 6: "i4", 7: "i8", 8: "O", 9: "?", 10: "f2", 11: "f8", 12: "u4",
    13: "u8", 14: "c8", 15: "c16",
}  # fmt: skip
_ML_DTYPES = {
    16: "bfloat16", 17: "float8_e4m3fn", 18: "float8_e4m3fnuz", 19: "float8_e5m2", 20: "float8_e5m2fnuz",
    21: "uint4", 22: "int4", 23: "float4_e2m1fn", 24: "float8_e8m0fnu", 25: "uint2", 26: "int2",
}  # fmt: skip


@cache
def numpy_type(number: int) -> np.dtype:
    """The numpy type of an element; strings are Python objects. ml_dtypes is imported only for types it brings."""
    if number in _NUMPY:
        return np.dtype(_NUMPY[number])
    import ml_dtypes

    return np.dtype(getattr(ml_dtypes, _ML_DTYPES[number]))


def type_text(number: int) -> str:
    """ "tensor(float)"."""
    return f"tensor({NAMES.get(number, number)})"


def numpy_type_text(dtype: np.dtype) -> str:
    """The same for an array's type, as far as ONNX has it."""
    for number in NAMES:
        if (number in _NUMPY or dtype.kind == "V" or dtype.isbuiltin == 2) and numpy_type(number) == dtype:
            return type_text(number)
    return f"an array of {dtype}"
