"""Runs compiled models: the C stub's header and the ctypes loader. Imports numpy, ml_dtypes and ctypes only."""

from onnxc.runtime.errors import (
    CpuError,
    InputError,
    InputTypeError,
    LoadError,
    ModelError,
    OutOfMemoryError,
    SessionError,
)
from onnxc.runtime.library import Library, NodeArg
from onnxc.runtime.session import InferenceSession, ModelMetadata
from onnxc.runtime.variants import Variant

__all__ = [
    "CpuError",
    "InferenceSession",
    "InputError",
    "InputTypeError",
    "Library",
    "LoadError",
    "ModelError",
    "ModelMetadata",
    "NodeArg",
    "OutOfMemoryError",
    "SessionError",
    "Variant",
]
