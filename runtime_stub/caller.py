"""One context of the model and what Python prepares for its calls: a session's runs share a few of these.

All that depends on the shapes only is made once a shape (`Plan`), so that a run costs little more than its C call.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy import empty, ndarray

from onnxc.runtime import abi
from onnxc.runtime.arrays import address, dense_array
from onnxc.runtime.element_types import STRING, numpy_type, numpy_type_text
from onnxc.runtime.errors import InputError, InputTypeError, SessionError
from onnxc.runtime.library import ERRORS, Library, NodeArg
from onnxc.runtime.output_memory import LEAST_BYTES, OutputMemory
from onnxc.runtime.strings import packed_strings, read_strings
from onnxc.runtime.variants import Variant

MOST_PLANS = 64

Shapes = tuple[tuple[int, ...], ...]
Out = Mapping[str, np.ndarray]


class Plan:
    """The C structs of a call for inputs of given shapes.

    shapes   per output its shape, or None where only the run can tell it (strings always)
    fresh    per output of a known shape its struct, shape, type, and whether its memory is worth keeping
    call     the arguments of the C run
    """

    def __init__(self, library: Library, context: Any, shapes: Shapes) -> None:
        self.inputs = (abi.onnxc_tensor * max(len(shapes), 1))()
        self.outputs = (abi.onnxc_tensor * max(len(library.outputs), 1))()
        self.from_ = list(self.inputs)[: len(shapes)]
        self.to = list(self.outputs)[: len(library.outputs)]
        self.call = (
            ctypes.cast(context, ctypes.c_void_p),
            *(ctypes.c_void_p(ctypes.addressof(self.inputs)), ctypes.c_int32(len(self.from_))),
            *(ctypes.c_void_p(ctypes.addressof(self.outputs)), ctypes.c_int32(len(self.to))),
        )
        self.shapes: list[tuple[int, ...] | None] = []
        self.fresh: dict[int, tuple[abi.onnxc_tensor, tuple[int, ...], np.dtype, bool]] = {}
        self.unknown = False
        for tensor, arg, shape in zip(self.from_, library.inputs, shapes, strict=True):
            tensor.dims = (ctypes.c_int64 * len(shape))(*shape)
            tensor.rank, tensor.dtype = len(shape), arg.dtype

    def note_shapes(self) -> None:
        """Keeps what onnxc_output_shapes has written into the outputs."""
        for i, tensor in enumerate(self.to):
            known = tensor.bytes >= 0 and tensor.dtype != STRING
            shape = _dims(tensor) if known else None
            self.shapes.append(shape)
            if shape is not None:
                self.fresh[i] = (tensor, shape, numpy_type(tensor.dtype), tensor.bytes >= LEAST_BYTES)
        self.unknown = None in self.shapes


class Caller:
    """A context, used by one thread at a time."""

    def __init__(self, library: Library, options: abi.onnxc_options) -> None:
        self.library = library
        self.context = library.create_context(options)
        self._destroy = library.api.context_destroy
        self._run = library.run
        self._plans: dict[Shapes, Plan] = {}
        self._inputs = [(arg.name, numpy_type(arg.dtype), arg, arg.dtype == STRING) for arg in library.inputs]
        self._types = [numpy_type(arg.dtype) for arg in library.outputs]
        self._memory = [OutputMemory() for _ in library.outputs]

    def __del__(self) -> None:
        if hasattr(self, "context"):
            self._destroy(self.context)

    def run(self, feeds: Mapping[str, Any], wanted: Sequence[int], out: Out | None) -> list[np.ndarray]:
        """The outputs of the wanted indices, in that order."""
        arrays = []
        shapes = []
        for name, dtype, arg, is_string in self._inputs:
            try:
                array = feeds[name]
            except (KeyError, IndexError, TypeError):
                raise _wrong_feeds(feeds, self.library.inputs) from None
            if type(array) is not ndarray or array.dtype is not dtype or not array.flags.c_contiguous:
                array = dense_array(array, arg)
            shapes.append(array.shape)
            if is_string:
                array = packed_strings(array)
            arrays.append(array)
        if len(feeds) != len(arrays):
            raise _wrong_feeds(feeds, self.library.inputs)
        key = tuple(shapes)
        plan = self._plans.get(key) or self._prepare(key)
        for tensor, array in zip(plan.from_, arrays):  # noqa: B905 (strict= costs 0.1 µs)
            tensor.data = address(array)
        results = self._places(plan, wanted, out, arrays) if out or plan.unknown else self._fresh(plan, wanted)
        status = self._run(*plan.call)
        if status:
            raise self._error(status)
        if plan.unknown:
            return [self._result(plan, i, array) for i, array in zip(wanted, results, strict=True)]
        return results

    def _prepare(self, shapes: Shapes) -> Plan:
        plan = Plan(self.library, self.context, shapes)
        for tensor in plan.from_:
            tensor.data = 1  # the shapes are asked for, the data are not looked at
        status = self.library.api.output_shapes(
            self.context, plan.inputs, len(plan.from_), plan.outputs, len(plan.to), None
        )
        if status:
            raise self._error(status)
        plan.note_shapes()
        if len(self._plans) >= MOST_PLANS:
            self._plans.clear()
        self._plans[shapes] = plan
        return plan

    def _fresh(self, plan: Plan, wanted: Sequence[int]) -> list[np.ndarray]:
        """New arrays for the wanted outputs; the others are written to the context's memory."""
        if len(wanted) < len(plan.to):
            for tensor in plan.to:
                tensor.data = None
        results = []
        for i in wanted:
            tensor, shape, dtype, kept = plan.fresh[i]
            array = self._memory[i].array(shape, dtype) if kept else empty(shape, dtype)
            tensor.data = address(array)  # its bytes are there from the shape on
            results.append(array)
        return results

    def _places(self, plan: Plan, wanted: Sequence[int], out: Out | None, arrays: list[np.ndarray]) -> list[Any]:
        """An array per wanted output to be written to; None where the context gives the memory."""
        results: list[Any] = []
        for tensor in plan.to:
            tensor.data = None
        for i in wanted:
            shape = plan.shapes[i]
            given = out.get(self.library.outputs[i].name) if out else None
            if given is not None:
                array = self._given(i, given, shape, [*arrays, *(a for a in results if a is not None)])
            elif shape is None:
                results.append(None)
                continue
            else:
                array = self._memory[i].array(shape, self._types[i])
            tensor = plan.to[i]
            tensor.data = address(array)
            tensor.bytes = array.nbytes
            results.append(array)
        return results

    def _given(self, i: int, array: Any, shape: tuple[int, ...] | None, others: list[np.ndarray]) -> np.ndarray:
        """A caller's output array, checked; `others`: the inputs, and the outputs before it."""
        arg = self.library.outputs[i]
        if not isinstance(array, np.ndarray) or arg.dtype == STRING:
            raise InputTypeError(f"output '{arg.name}' cannot be written into this {type(array).__name__}")
        if array.dtype != self._types[i]:
            raise InputTypeError(f"output '{arg.name}' is {arg.type}, not {numpy_type_text(array.dtype)}")
        if shape is not None and array.shape != shape:
            raise InputError(f"output '{arg.name}' is {list(shape)}, the array for it is {list(array.shape)}")
        if not array.flags.c_contiguous or not array.flags.writeable:
            raise InputError(f"the array for output '{arg.name}' is not C-contiguous and writeable")
        if any(np.may_share_memory(array, other) for other in others):
            raise InputError(f"the array for output '{arg.name}' overlaps an input or another output")
        return array

    def _result(self, plan: Plan, i: int, array: np.ndarray | None) -> np.ndarray:
        """An output after the run; the context's memory is copied, since its next run writes there again."""
        if plan.shapes[i] is not None:
            assert array is not None
            return array
        tensor = plan.to[i]
        shape = _dims(tensor)
        if array is not None:  # the caller's, perhaps larger
            return array.reshape(-1)[: int(np.prod(shape))].reshape(shape)
        if tensor.dtype == STRING:
            return read_strings(tensor.data, shape)
        result = np.empty(shape, self._types[i])
        ctypes.memmove(address(result), tensor.data, tensor.bytes)
        return result

    def _error(self, status: int) -> SessionError:
        return ERRORS[status](self.library.message(self.context))

    @property
    def variant(self) -> Variant | None:
        """That served the last run; None before the first."""
        return self.library.variant_of(self.context)

    def explanation(self) -> str:
        """Which variant served the last run, and why no more specific one did."""
        return self.library.explanation(self.context)


def _dims(tensor: abi.onnxc_tensor) -> tuple[int, ...]:
    return tuple(tensor.dims[: tensor.rank])


def _wrong_feeds(feeds: Any, inputs: list[NodeArg]) -> SessionError:
    """Says which name is missing or unknown."""
    if not isinstance(feeds, Mapping):
        return InputTypeError(f"inputs are given by name, in a dict, not in a {type(feeds).__name__}")
    known = {arg.name for arg in inputs}
    listed = ", ".join(f"'{arg.name}' {arg.type} {arg.shape}" for arg in inputs) or "none"
    unknown = [name for name in feeds if name not in known]
    if unknown:
        return InputError(f"no input is named {unknown[0]!r}; the model's inputs: {listed}")
    missing = next(arg.name for arg in inputs if arg.name not in feeds)
    return InputError(f"input '{missing}' is missing; the model's inputs: {listed}")
