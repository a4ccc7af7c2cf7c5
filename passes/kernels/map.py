"""Kernel kind `map`: each element of the result is evaluated alone; loops are scalar, LLVM vectorises the innermost.

It unrolls one of few elements, though, and takes the loop around it for vectors, which it scatters element by element:
rows of a few whole vectors are vectors here already.

Dims that all operands treat alike are merged first, so that a chain over equal shapes is one long loop. A transposition
that moves the innermost axis has loops of its own (transposition.py).
"""

from __future__ import annotations

from mlir import ir

from onnxc.dialects import dims
from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import contraction, transposition
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.evaluate import Evaluator, Lanes
from onnxc.passes.kernels.kernel_function import ELEMENT, KernelFunction, Launch
from onnxc.passes.lowering.registry import ELEMENTWISE

# Merged leading dims are enough for any split once they count this many rows.
ROWS = 32
# Vectors of a row up to which LLVM is not left to find them.
SHORT = 4


def merged_axes(kernel: KernelFunction) -> list[list[int]]:
    """The result's axes in groups that may be one loop each: whatever is read has all or none of a group's axes."""
    result = Tensor.of(kernel.results[0].type).shape
    if not all(op.name in ELEMENTWISE or op.name == "Constant" for op in kernel.ops):
        return [[i] for i in range(len(result))]
    groups: list[list[int]] = []
    patterns = [_kept(Tensor.of(v.type).shape, result) for v in kernel.operands]
    inner = [Tensor.of(r.type).shape for op in kernel.ops for r in op.results if op.name != "Constant"]
    patterns += [_kept(shape, result) for shape in inner]
    strided = any(kernel.strided(v) for v in [*kernel.operands, *kernel.results])
    for axis in range(len(result)):
        same = groups and all(p[axis] == p[axis - 1] and p[axis] is not None for p in patterns)
        same = same and not (axis == len(result) - 1 and strided)
        if same:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    return groups


def _kept(shape: tuple, result: tuple) -> list[bool | None]:
    """Per result axis: is it there (True), broadcast (False) or not known (None)? Axes of extent 1 count as there."""
    skip = len(result) - len(shape)
    kept: list[bool | None] = [r == 1 for r in result[:skip]]
    for d, r in zip(shape, result[skip:], strict=True):
        kept.append(True if d == r else False if d == 1 else None)
    return kept


def loop_dims(kernel: KernelFunction) -> tuple[list[list[int]], list[dims.Dim]]:
    shape = Tensor.of(kernel.results[0].type).shape
    groups = merged_axes(kernel)
    extents: list[dims.Dim] = []
    for group in groups:
        extent: dims.Dim = 1
        for axis in group:
            extent = extent * shape[axis]
        extents.append(extent)
    return groups, extents


def parallel_depth(extents: list[dims.Dim]) -> int:
    """How many leading loops are split over threads as one; 0: there is one loop, and it is split itself."""
    rows = 1
    for depth, extent in enumerate(extents[:-1], 1):
        rows *= extent if isinstance(extent, int) else 1
        if rows >= ROWS:
            return depth
    return max(0, len(extents) - 1)


def launch(kernel: KernelFunction) -> Launch:
    turn = transposition.turn_of(kernel)
    if turn is not None:
        return transposition.launch(turn)
    _, extents = loop_dims(kernel)
    depth = parallel_depth(extents)
    if depth == 0:
        return Launch(extents[0] if extents else 1, ELEMENT)
    rows: dims.Dim = 1
    for extent in extents[:depth]:
        rows = rows * extent
    return Launch(rows, ELEMENT * dims.product(extents[depth:]))


def emit(b: KernelBuilder) -> None:
    turn = transposition.turn_of(b.kernel)
    if turn is not None:
        transposition.emit(b, turn)
        return
    groups, extents = loop_dims(b.kernel)
    depth = parallel_depth(extents)
    ev = Evaluator(b)
    if not extents:
        with b.loop(b.begin, b.end):
            b.outputs[0].store(ev.at(b.kernel.results[0], ()), ())
        return
    sizes = [b.dim(e) for e in extents]
    with b.loop(b.begin, b.end) as row:
        _nest(b, ev, groups, sizes, im.unflattened(row, sizes[:depth]) if depth else [row])


def _nest(
    b: KernelBuilder, ev: Evaluator, groups: list[list[int]], sizes: list[im.Index], point: list[im.Index]
) -> None:
    if len(point) < len(sizes):
        width = _row_lanes(b, groups, sizes) if len(point) == len(sizes) - 1 else 1
        with b.loop(0, sizes[len(point)], width) as i:
            _nest(b, ev, groups, sizes, [*point, i])
        return
    full: list[im.Index] = [0] * sum(map(len, groups))
    for group, i in zip(groups, point, strict=True):
        full[group[-1]] = i  # a merged loop runs along the innermost axis, whose stride is the whole group's
    width = _row_lanes(b, groups, sizes)
    with ev.scope():
        lanes = Lanes(width, len(full) - 1) if width > 1 else Lanes()
        b.outputs[0].store_vector(ev.at(b.kernel.results[0], full, lanes), b.outputs[0].offset(full))


def _row_lanes(b: KernelBuilder, groups: list[list[int]], sizes: list[im.Index]) -> int:
    """Elements that a step of the innermost loop takes: a vector where it is short and has whole ones, of f32 alone."""
    kernel, lanes, row = b.kernel, contraction.arithmetic("f32", b.target).lanes, sizes[-1]
    whole = isinstance(row, int) and 0 < row <= SHORT * lanes and row % lanes == 0
    if not whole or len(sizes) == 1 or len(groups[-1]) > 1:
        return 1
    values = [*kernel.operands, *(r for op in kernel.ops for r in op.results)]
    tensors = [Tensor.of(v.type) for v in values if not isinstance(v.type, ir.NoneType)]
    plain = all(op.name in ELEMENTWISE or op.name in ("Constant", "None") for op in kernel.ops)
    known = all(t.elem == "f32" and (not t.shape or t.shape[-1] in (1, row)) for t in tensors)
    return lanes if plain and known else 1
