"""Loads a compiled model and shows its descriptor as Python values."""

from __future__ import annotations

import ctypes
import functools
import os
from ctypes import POINTER, addressof, byref, c_char_p, c_int32, c_void_p, cast, create_string_buffer
from typing import Any

from onnxc.runtime import abi, elf
from onnxc.runtime.element_types import type_text
from onnxc.runtime.errors import CpuError, InputError, LoadError, ModelError, OutOfMemoryError, SessionError
from onnxc.runtime.variants import Variant, describe

ERRORS: dict[int, type[SessionError]] = {
    abi.ONNXC_BAD_ARGUMENT: InputError,
    abi.ONNXC_NO_VARIANT: InputError,
    abi.ONNXC_BAD_CPU: CpuError,
    abi.ONNXC_OUT_OF_MEMORY: OutOfMemoryError,
    abi.ONNXC_BAD_WEIGHTS: LoadError,
    abi.ONNXC_MODEL_ERROR: ModelError,
}

_EXPLANATION_BYTES = 1 << 16

# Called with c_void_p and c_int32 objects only (caller.py's Plan): without declared types ctypes takes those as they
# are, 0.1 µs faster than it checks them, which is faster than typed pointers.
RUN = ctypes.CFUNCTYPE(c_int32)


class NodeArg:
    """An input or output: `shape` has ints, names of free dims, and None for a free dim without a name."""

    def __init__(self, value: Any) -> None:
        self.name: str = _text(value.name)
        self.shape: list[int | str | None] = [_dim(value.dims[i]) for i in range(value.rank)]
        self.dtype: int = value.dtype
        self.type = type_text(value.dtype)

    def __repr__(self) -> str:
        return f"NodeArg(name={self.name!r}, type={self.type!r}, shape={self.shape!r})"


class Library:
    """A loaded model. Libraries stay loaded: arrays, contexts and the pool may outlive any one object."""

    def __init__(self, path: str | os.PathLike[str], symbol: str | None = None) -> None:
        self.path = os.path.abspath(os.fsdecode(path))
        found = elf.model_symbols(self.path)
        if symbol is None and len(found) > 1:
            raise LoadError(f"{self.path} has several models, choose one with symbol=: {', '.join(sorted(found))}")
        if symbol is not None and symbol not in found:
            raise LoadError(f"{self.path} has no model {symbol!r}; it has {', '.join(sorted(found))}")
        self.symbol = symbol or found[0]
        try:
            function = ctypes.CDLL(_own_name(self.path))[self.symbol]
        except OSError as error:
            raise LoadError(f"the system cannot load {self.path}: {error}") from error
        function.restype = POINTER(abi.onnxc_model)
        self.model = function()
        descriptor = self.model.contents
        self.api = descriptor.api.contents
        self.run = RUN(cast(self.api.run, c_void_p).value or 0)
        self.name = _text(descriptor.name)
        self.producer = _text(descriptor.producer)
        self.threaded = bool(descriptor.threaded)
        self.report = None if descriptor.report is None else _text(descriptor.report)
        self.inputs = [NodeArg(descriptor.inputs[i].contents) for i in range(descriptor.input_count)]
        self.outputs = [NodeArg(descriptor.outputs[i].contents) for i in range(descriptor.output_count)]
        pairs = [descriptor.metadata[i] for i in range(descriptor.metadata_count)]
        self.metadata = {_text(pair.key): _text(pair.value) for pair in pairs}

    @functools.cached_property
    def variants(self) -> list[Variant]:
        """The variants in the order in which they are tried."""
        return list(self._variants.values())

    @functools.cached_property
    def _variants(self) -> dict[int, Variant]:
        """The variants by the addresses of their descriptors."""
        descriptor, features = self.model.contents, self.feature_names
        pointers = [descriptor.variants[i] for i in range(descriptor.variant_count)]
        return {
            addressof(p.contents): describe(p.contents, self.inputs, features, descriptor.abi_minor) for p in pointers
        }

    def variant_of(self, context: Any) -> Variant | None:
        """That served the context's last call."""
        found = self.api.variant(context)
        return self._variants[addressof(found.contents)] if found else None

    def explanation(self, context: Any) -> str:
        """Which variant served the context's last call, and why no more specific one did."""
        if self.model.contents.abi_minor < 1:
            return str(self.variant_of(context))
        text = create_string_buffer(_EXPLANATION_BYTES)
        self.api.explain(context, cast(text, c_char_p), len(text))
        return _text(text.value)

    @property
    def abi_version(self) -> tuple[int, int]:
        """Major and minor."""
        descriptor = self.model.contents
        return descriptor.abi_major, descriptor.abi_minor

    @property
    def feature_names(self) -> list[str]:
        """CPU features by their bit in masks."""
        names = cast(self.model.contents.feature_names, POINTER(c_char_p))
        found = []
        while (name := names[len(found)]) is not None:
            found.append(_text(name))
        return found

    def create_context(self, options: abi.onnxc_options) -> Any:
        """A new context; SessionError where the model cannot run here."""
        context = POINTER(abi.onnxc_context)()
        status = self.api.context_create(self.model, byref(options), byref(context))
        if not status:
            return context
        message = self.message(context)
        if context:
            self.api.context_destroy(context)
        raise ERRORS[status](f"{self.path}: {message}")

    def message(self, context: Any) -> str:
        """Why the context's last call failed."""
        return _text(self.api.message(context)) if context else "out of memory"


# Path → the files that it named so far, each by device, inode and time.
_FILES: dict[str, list[tuple[int, int, int]]] = {}


def _own_name(path: str) -> str:
    """The path, spelt otherwise for each file that lay there: the system's loader gives what it loaded from a name
    before without looking at the file."""
    try:
        status = os.stat(path)
    except OSError:
        return path  # the loader says what is wrong
    file, known = (status.st_dev, status.st_ino, status.st_mtime_ns), _FILES.setdefault(path, [])
    if file not in known:
        known.append(file)
    folder, name = os.path.split(path)
    return os.path.join(folder, *["."] * known.index(file), name)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


def _dim(dim: Any) -> int | str | None:
    if dim.value >= 0:
        return dim.value
    return None if dim.name is None else _text(dim.name)
