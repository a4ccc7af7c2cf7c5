"""onnxc: an ahead-of-time compiler from ONNX models to native code.

Names are imported when first used, so that a program that only runs artefacts never loads the compiler.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onnxc.api import InferenceSession, check, compile
    from onnxc.errors import CompilerBug, OnnxcError, Refusals
    from onnxc.options import Options

__version__ = "0.1.0"

_HOMES = {
    "InferenceSession": "onnxc.api",
    "check": "onnxc.api",
    "compile": "onnxc.api",
    "CompilerBug": "onnxc.errors",
    "OnnxcError": "onnxc.errors",
    "Refusals": "onnxc.errors",
    "Options": "onnxc.options",
}
_MODULES = ("api", "backend", "bench", "errors", "options", "runtime")

__all__ = [
    "CompilerBug",
    "InferenceSession",
    "OnnxcError",
    "Options",
    "Refusals",
    "__version__",
    "check",
    "compile",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
    elif name in _MODULES:
        value = import_module(f"onnxc.{name}")
    else:
        raise AttributeError(f"module 'onnxc' has no attribute '{name}'")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES, *_MODULES})
