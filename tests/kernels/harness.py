"""Compiles one kernel from its text and calls it: what the tests of kernel kinds stand on.

`run(text, x, w, constants={1})` chooses the schedule, packs constants, emits, links, and calls the kernel for several
splits of its extent, which must all give the same bits.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import mmap
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes  # noqa: F401  (numpy learns bfloat16)
import numpy as np
from mlir import ir
from mlir.dialects import func

from onnxc.dialects import dims, onnx
from onnxc.dialects.types import Tensor
from onnxc.dialects.weights import dtype_of
from onnxc.emit_object import emit, lower_to_llvm
from onnxc.link import link_shared
from onnxc.passes import lowering  # noqa: F401  (fills the tables)
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.kernel_function import KernelFunction, schedule_attribute
from onnxc.passes.kernels.kinds import KINDS
from onnxc.passes.kernels.packing import Packing, set_packed_types
from onnxc.targets import Target, target_for

Schedule = Mapping[str, int | str]
FENCE = 64  # bytes around every result that a kernel must leave alone


@dataclass
class CompiledKernel:
    """A kernel as a C function, with what is needed to call it."""

    function: ctypes._CFuncPtr
    operands: list[Tensor]
    results: list[Tensor]
    symbols: list[str]
    failures: list[str]
    extent: dims.Dim
    packings: list[Packing]
    schedule: dict
    llvm_ir: str
    target: Target

    def bind(self, inputs: Sequence[np.ndarray], values: Mapping[str, int] | None = None) -> dict[str, int]:
        """Values of the symbols: those that are a dim of an input by themselves or times a number, and the given ones."""
        packed = {p.position for p in self.packings}
        bound = dict(values or {})
        for i, (tensor, array) in enumerate(zip(self.operands, inputs, strict=True)):
            for d, extent in zip(tensor.shape, array.shape, strict=True) if i not in packed else ():
                symbol = dims.multiple_of_symbol(d)
                if symbol is not None:
                    bound[symbol[1]] = extent // symbol[0]
        return bound

    def pack(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The inputs as the kernel takes them."""
        arrays = [np.ascontiguousarray(x) for x in inputs]
        for packing in self.packings:
            arrays[packing.position] = np.ascontiguousarray(packing.make(arrays[packing.position])).reshape(
                packing.shape
            )
        return arrays

    def call(
        self,
        arrays: Sequence[np.ndarray],
        outputs: Sequence[np.ndarray],
        bound: Mapping[str, int],
        ranges: Sequence[tuple[int, int]] | None = None,
    ) -> int:
        """Calls the kernel for each range (default: the whole extent); returns the status."""
        assert runs_here(self.target), f"this machine has no {self.target}: only compile for it"
        status = np.zeros(1, np.int32)
        pointers = [a.ctypes.data for a in [*arrays, *outputs]] + ([status.ctypes.data] if self.failures else [])
        slots = [*pointers, *(bound[s] for s in self.symbols)]
        args = (ctypes.c_int64 * max(1, len(slots)))(*slots)
        for begin, end in ranges or [(0, dims.evaluate(self.extent, bound))]:
            self.function(args, begin, end)
        return int(status[0])

    def __call__(self, *inputs: np.ndarray, **values: int) -> list[np.ndarray]:
        """The results; every way of splitting the extent must give the same."""
        bound = self.bind(inputs, values)
        arrays = [guarded(a) for a in self.pack(inputs)]
        extent = dims.evaluate(self.extent, bound)
        first: list[np.ndarray] | None = None
        for ranges in _splits(extent):
            outputs, fences = zip(*[self._fenced(t, bound) for t in self.results], strict=True)
            status = self.call(arrays, outputs, bound, ranges)
            if status:
                raise RuntimeError(self.failures[status - 1])
            for fence in fences:
                assert (fence == 0xA5).all(), "the kernel wrote outside its result"
            if first is None:
                first = list(outputs)
            for a, b in zip(first, outputs, strict=True):
                assert a.tobytes() == b.tobytes(), f"another split of the extent ({ranges}) gives other bits"
        return first

    def _fenced(self, tensor: Tensor, bound: Mapping[str, int]) -> tuple[np.ndarray, np.ndarray]:
        shape = [dims.evaluate(d, bound) for d in tensor.shape]
        dtype = dtype_of(tensor.elem)
        size = int(np.prod(shape)) * dtype.itemsize
        memory = np.full(size + 2 * FENCE, 0xA5, np.uint8)
        outside = [memory[:FENCE], memory[FENCE + size :]]
        return memory[FENCE : FENCE + size].view(dtype).reshape(shape), _Joined(outside)


def guarded(array: np.ndarray) -> np.ndarray:
    """A copy that ends where an unreadable page begins: a kernel that reads beyond its operand dies."""
    pages = -(-max(1, array.nbytes) // mmap.PAGESIZE)
    memory = mmap.mmap(-1, (pages + 1) * mmap.PAGESIZE)
    whole = np.frombuffer(memory, np.uint8)
    end = whole.ctypes.data + pages * mmap.PAGESIZE
    _mprotect(ctypes.c_void_p(end), ctypes.c_size_t(mmap.PAGESIZE), 0)
    place = whole[pages * mmap.PAGESIZE - array.nbytes : pages * mmap.PAGESIZE].view(array.dtype).reshape(array.shape)
    place[...] = array
    return place


_mprotect = ctypes.CDLL(None).mprotect


class _Joined:
    def __init__(self, parts: list[np.ndarray]):
        self.parts = parts

    def __eq__(self, other: object) -> np.ndarray:
        return np.concatenate(self.parts) == other


def _splits(extent: int) -> list[list[tuple[int, int]]]:
    splits = [[(0, extent)]]
    for pieces in (2, 3, extent if extent <= 64 else 7):
        if 1 < pieces <= extent:
            cuts = [extent * i // pieces for i in range(pieces + 1)]
            splits.append(list(itertools.pairwise(cuts))[::-1])
    return splits


def compile_kernel(
    text: str, *, constants: Collection[int] = (), schedule: Schedule | None = None, mcpu: str = "native"
) -> CompiledKernel:
    """Compiles the first function of `text`. `constants`: positions of operands that are constant (so may be packed);
    `schedule` overrides entries of the heuristic's choice."""
    target = target_for(mcpu)
    with onnx.new_context(), ir.Location.unknown():
        source = ir.Module.parse(text)
        function = source.body.operations[0]
        assert isinstance(function, func.FuncOp)
        if constants:
            function.attributes["kernel.constants"] = ir.DenseI64ArrayAttr.get(sorted(constants))
        kernel = KernelFunction.of(function)
        kind = KINDS[kernel.kind]
        chosen = kind.choose(kernel, target) if hasattr(kind, "choose") else {}
        chosen = {**chosen, **schedule} if schedule and "algorithm" not in schedule else dict(schedule or chosen)
        function.attributes["kernel.schedule"] = schedule_attribute(chosen)
        packings = kind.packings(kernel) if hasattr(kind, "packings") else []
        if packings:
            set_packed_types(kernel, packings)
        kernel = KernelFunction.of(function)
        extent = kind.launch(kernel).extent
        module = ir.Module.create()
        builder = KernelBuilder(kernel, target, module)
        with builder.function():
            kind.emit(builder)
        assert module.operation.verify()
        llvm_ir = lower_to_llvm(module) + builder.entry_ir()
        compiled = CompiledKernel(
            _load(emit(llvm_ir, target), builder.name),
            [Tensor.of(v.type) for v in kernel.operands],
            [Tensor.of(v.type) for v in kernel.results],
            kernel.symbols,
            [m for _, m in kernel.failures],
            extent,
            packings,
            chosen,
            llvm_ir,
            target,
        )
    return compiled


@functools.cache
def runs_here(target: Target) -> bool:
    """Whether this machine has what code for `target` may use."""
    return set(target.features) <= set(target_for("native").features)


@functools.cache
def widest() -> str:
    """The name of a CPU with vectors as wide as this machine has, at most 512 bits."""
    return next(cpu for cpu in ("x86-64-v4", "x86-64-v3", "native") if runs_here(target_for(cpu)))


def _load(code: bytes, name: str) -> ctypes._CFuncPtr:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.so"
        link_shared([code], path, soname="kernel.so", export=[name])
        function = getattr(ctypes.CDLL(str(path)), name)
    function.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64]
    function.restype = None
    return function


def run(
    text: str,
    *inputs: np.ndarray,
    constants: Collection[int] = (),
    schedule: Schedule | None = None,
    mcpu: str = "native",
    **values: int,
) -> list[np.ndarray]:
    """Compiles and calls at once."""
    return compile_kernel(text, constants=constants, schedule=schedule, mcpu=mcpu)(*inputs, **values)
