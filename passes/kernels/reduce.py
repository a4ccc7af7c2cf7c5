"""Kernel kind `reduce`: onnx.Reduce* over any axes.

Along the innermost axis a sum runs in 64 virtual lanes that a fixed tree joins, so the bits do not depend on the
machine's vectors (DESIGN: numerics); along other axes each result element is summed in index order, vectorised over
the kept innermost axis. Runs of reduced (or kept) innermost axes are merged into one loop.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, math, vector

from onnxc.dialects import dims
from onnxc.dialects.types import Tensor
from onnxc.passes import maths
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels import scalars
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.evaluate import SCALAR, Evaluator, Lanes
from onnxc.passes.kernels.kernel_function import ELEMENT, KernelFunction, Launch

LANES = 64  # virtual lanes of a horizontal reduction: part of the numeric promise
COLUMNS = 16  # kept elements that one vector accumulator covers; any width gives the same bits


@dataclass(frozen=True)
class Reduction:
    """`finish(join over x of prepare(x), count)`, starting from `start` of the element type; `count` is the number of
    elements joined. The last argument of each tells whether they are unsigned integers."""

    start: Callable[[str], float]
    join: Callable[[ir.Value, ir.Value, bool], ir.Value]
    prepare: Callable[[ir.Value, bool], ir.Value] = lambda x, unsigned: x
    finish: Callable[[ir.Value, ir.Value, bool], ir.Value] = lambda x, count, unsigned: x


def _sum(a: ir.Value, b: ir.Value, unsigned: bool) -> ir.Value:
    return scalars.add(a, b)


def lowest(elem: str) -> float:
    """The start of a maximum."""
    if scalars.is_float(elem):
        return float("-inf")
    return 0 if scalars.is_unsigned(elem) else -(2 ** (scalars.bit_width(elem) - 1))


def highest(elem: str) -> float:
    """The start of a minimum."""
    if scalars.is_float(elem):
        return float("inf")
    return 2 ** scalars.bit_width(elem) - 1 if scalars.is_unsigned(elem) else 2 ** (scalars.bit_width(elem) - 1) - 1


def _absolute(x: ir.Value, unsigned: bool) -> ir.Value:
    if unsigned:
        return x
    return math.absf(x) if scalars.floats(x) else scalars.maximum(x, scalars.neg(x))


def _square(x: ir.Value, unsigned: bool) -> ir.Value:
    return scalars.mul(x, x)


def _root(x: ir.Value, count: ir.Value, unsigned: bool) -> ir.Value:
    return math.sqrt(x)


def _zero(elem: str) -> float:
    return 0


REDUCTIONS = {
    "ReduceSum": Reduction(_zero, _sum),
    "ReduceMean": Reduction(_zero, _sum, finish=scalars.div),
    "ReduceMax": Reduction(lowest, scalars.maximum),
    "ReduceMin": Reduction(highest, scalars.minimum),
    "ReduceProd": Reduction(lambda elem: 1, lambda a, b, unsigned: scalars.mul(a, b)),
    "ReduceL1": Reduction(_zero, _sum, _absolute),
    "ReduceL2": Reduction(_zero, _sum, _square, _root),
    "ReduceSumSquare": Reduction(_zero, _sum, _square),
    "ReduceLogSum": Reduction(_zero, _sum, finish=lambda x, count, unsigned: maths.log(x)),
}


@dataclass(frozen=True)
class Axes:
    """The operand's axes: `reduced` and `kept`, each in order, and whether the innermost one is reduced."""

    rank: int
    reduced: tuple[int, ...]
    kept: tuple[int, ...]
    keepdims: bool
    merges: bool = True  # whether kept innermost axes may be one loop

    @property
    def horizontal(self) -> bool:
        return self.rank == 0 or (self.rank - 1) in self.reduced

    @property
    def run(self) -> tuple[int, ...]:
        """The innermost axes of one sort, which one loop may run over."""
        sort = self.reduced if self.horizontal else self.kept
        first = self.rank
        while first and first - 1 in sort:
            first -= 1
            if not self.horizontal and not self.merges:
                break
        return tuple(range(first, self.rank))


def axes_of(kernel: KernelFunction) -> Axes:
    """The axes from the second operand's known values; none given: all, or none with noop_with_empty_axes."""
    root = kernel.root
    rank = len(Tensor.of(root.operands[0].type).dims)
    given = root.values(1)
    if not given:
        given = [] if root.attr("noop_with_empty_axes", 0) else list(range(rank))
    reduced = {int(a) % rank for a in given} if rank else set()
    kept = tuple(i for i in range(rank) if i not in reduced)
    return Axes(rank, tuple(sorted(reduced)), kept, bool(root.attr("keepdims", 1)), not _broadcasts(kernel))


def _broadcasts(kernel: KernelFunction) -> bool:
    """Whether an epilogue op reads something that has not all of the result's elements."""
    result = Tensor.of(kernel.results[0].type).dims
    after = kernel.ops[[op.op for op in kernel.ops].index(kernel.root.op) + 1 :]
    operands = [v for op in after for v in op.operands if v is not None]
    return any(Tensor.of(v.type).dims != result and Tensor.of(v.type).numel != 1 for v in operands)


def _outer_kept(axes: Axes) -> tuple[int, ...]:
    return axes.kept if axes.horizontal else tuple(a for a in axes.kept if a not in axes.run)


def launch(kernel: KernelFunction) -> Launch:
    axes, shape = axes_of(kernel), Tensor.of(kernel.root.operands[0].type).dims
    rows = dims.product([shape[a] for a in _outer_kept(axes)])
    work = dims.product([shape[a] for a in range(axes.rank) if a not in _outer_kept(axes)])
    if axes.horizontal:
        return Launch(rows, ELEMENT * work)
    columns = dims.product([shape[a] for a in axes.run])
    blocks = (columns + (COLUMNS - 1)) // COLUMNS
    reduced = dims.product([shape[a] for a in axes.reduced])
    return Launch(rows * blocks, COLUMNS * ELEMENT * reduced)


def emit(b: KernelBuilder) -> None:
    if axes_of(b.kernel).horizontal:
        _emit_rows(b)
    else:
        _emit_columns(b)


def _emit_rows(b: KernelBuilder) -> None:
    """The innermost axes are reduced: one result element a row."""
    axes, ev = axes_of(b.kernel), Evaluator(b)
    shape = b.shape(b.kernel.root.operands[0])
    count = im.product([shape[a] for a in axes.reduced])
    with b.loop(b.begin, b.end) as row, ev.scope():
        kept = im.unflattened(row, [shape[a] for a in axes.kept])
        point: list[im.Index] = [0] * axes.rank
        for a, i in zip(axes.kept, kept, strict=True):
            point[a] = i
        element = _reduce_row(b, ev, axes, point, shape)
        _finish(b, ev, axes, kept, element, count, SCALAR)


def _reduce_row(b: KernelBuilder, ev: Evaluator, axes: Axes, point: list[im.Index], shape) -> ir.Value:
    root = b.kernel.root
    operand = root.operands[0]
    elem = ev.tensor(operand).elem
    reduction, unsigned = REDUCTIONS[root.op_type], scalars.is_unsigned(elem)
    outer = [a for a in axes.reduced if a not in axes.run]
    length = im.product([shape[a] for a in axes.run])
    start = scalars.constant(reduction.start(elem), scalars.vector_of(scalars.element_type(elem), LANES))

    def body(outer_point: list[im.Index], total: ir.Value) -> ir.Value:
        def chunk(i: ir.Value, carried: ir.Value, mask: ir.Value | None = None) -> ir.Value:
            with ev.scope():
                at = list(outer_point)
                if axes.run:
                    at[axes.run[-1]] = i
                x = ev.at(operand, at, Lanes(LANES, axes.rank - 1 if axes.run else None, mask))
                x = reduction.prepare(x, unsigned)
            joined = reduction.join(carried, x, unsigned)
            return joined if mask is None else arith.select(mask, joined, carried)

        whole = im.mul(im.floordiv(length, LANES), LANES)
        total = b.reduce(0, whole, LANES, [total], lambda i, c: [chunk(i, c)])[0]
        if b.divides(LANES, length):
            return total
        rest = im.sub(length, whole)
        return b.reduce(whole, length, LANES, [total], lambda i, c: [chunk(i, c, lane_mask(rest))])[0]

    return joined_lanes(_over(b, outer, shape, point, body, start), lambda x, y: reduction.join(x, y, unsigned))


def lane_mask(count: im.Index, lanes: int = LANES) -> ir.Value:
    """The first `count` of `lanes` lanes."""
    type_ = ir.VectorType.get([lanes], ir.IntegerType.get_signless(1))
    return vector.create_mask(type_, [im.value(count)])


def joined_lanes(v: ir.Value, join: Callable[[ir.Value, ir.Value], ir.Value]) -> ir.Value:
    """All lanes joined by a tree: lane i with lane i + n/2, and so on; the same for every instruction set."""
    width = ir.VectorType(v.type).shape[0]
    while width > 1:
        width //= 2
        type_ = ir.VectorType.get([width], scalars.scalar_type(v))
        low = vector.extract_strided_slice(type_, v, [0], [width], [1])
        high = vector.extract_strided_slice(type_, v, [width], [width], [1])
        v = join(low, high)
    return vector.extract(v, [], [0])


def _over(b: KernelBuilder, axes: list[int], shape, point: list[im.Index], body, carried: ir.Value) -> ir.Value:
    """Nested loops over `axes`, carrying one value; `body(point, carried)` is the innermost."""
    if not axes:
        return body(point, carried)

    def step(i: ir.Value, value: ir.Value):
        inner = list(point)
        inner[axes[0]] = i
        return [_over(b, axes[1:], shape, inner, body, value)]

    return b.reduce(0, shape[axes[0]], 1, [carried], step)[0]


def _emit_columns(b: KernelBuilder) -> None:
    """The innermost axes are kept: COLUMNS result elements at a time, each summed in order."""
    axes, ev = axes_of(b.kernel), Evaluator(b)
    shape = b.shape(b.kernel.root.operands[0])
    columns = im.product([shape[a] for a in axes.run])
    blocks = im.ceildiv(columns, COLUMNS)
    with b.loop(b.begin, b.end) as item, ev.scope():
        outer = im.unflattened(im.floordiv(item, blocks), [shape[a] for a in _outer_kept(axes)])
        column = im.mul(im.mod(item, blocks), COLUMNS)
        rest = im.sub(columns, column)
        with b.when(im.compare(rest, ">=", COLUMNS)), ev.scope():
            _column_block(b, ev, axes, outer, column, shape, None)
        with b.when(im.compare(rest, "<", COLUMNS)), ev.scope():
            _column_block(b, ev, axes, outer, column, shape, lane_mask(rest, COLUMNS))


def _column_block(b: KernelBuilder, ev: Evaluator, axes: Axes, outer, column, shape, mask) -> None:
    root = b.kernel.root
    operand, reduction = root.operands[0], REDUCTIONS[root.op_type]
    elem = ev.tensor(operand).elem
    unsigned, lanes = scalars.is_unsigned(elem), Lanes(COLUMNS, axes.rank - 1, mask)
    point: list[im.Index] = [0] * axes.rank
    for a, i in zip(_outer_kept(axes), outer, strict=True):
        point[a] = i
    point[axes.run[-1]] = column

    def body(at: list[im.Index], total: ir.Value) -> ir.Value:
        with ev.scope():
            return reduction.join(total, reduction.prepare(ev.at(operand, at, lanes), unsigned), unsigned)

    start = scalars.constant(reduction.start(elem), scalars.vector_of(scalars.element_type(elem), COLUMNS))
    total = _over(b, list(axes.reduced), shape, point, body, start)
    count = im.product([shape[a] for a in axes.reduced])
    merged: list[im.Index] = [*outer, *[0] * (len(axes.run) - 1), column]
    _finish(b, ev, axes, merged, total, count, lanes)


def _finish(
    b: KernelBuilder, ev: Evaluator, axes: Axes, kept, element: ir.Value, count: im.Index, lanes: Lanes
) -> None:
    root = b.kernel.root
    elem = ev.tensor(root.operands[0]).elem
    i64 = arith.index_cast(ir.IntegerType.get_signless(64), im.value(count))
    total = scalars.splat(scalars.cast(i64, "i64", elem), lanes.width)
    element = REDUCTIONS[root.op_type].finish(element, total, scalars.is_unsigned(elem))
    point = list(kept)
    if axes.keepdims:
        point = [0] * axes.rank
        for a, i in zip(axes.kept, kept, strict=True):
            point[a] = i
    axis = None if lanes.axis is None else (axes.kept[-1] if axes.keepdims else len(axes.kept) - 1)
    at = Lanes(lanes.width, axis, lanes.mask)
    ev.seed(root.results[0], point, at, element)
    result = ev.at(b.kernel.results[0], point, at)
    b.outputs[0].store_vector(result, b.outputs[0].offset(point), lanes.mask)
