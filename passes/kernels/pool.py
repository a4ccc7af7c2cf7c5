"""Kernel kind `pool`: kernel.max_pool and kernel.average_pool, channels last, vectorised over channels.

Taps outside the input are never visited: a window at the border is cut to the input first, so there is no test in its
loops; all others are written out tap by tap, in the same order.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from mlir import ir
from mlir.dialects import arith

from onnxc.dialects import dims
from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels import row_order, scalars
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.evaluate import Evaluator, Lanes
from onnxc.passes.kernels.kernel_function import ELEMENT, KernelFunction, Launch
from onnxc.passes.kernels.reduce import lane_mask, lowest
from onnxc.passes.kernels.row_order import RowOrder
from onnxc.passes.kernels.window import Window

MOST_TAPS = 49  # of windows that are written out


def launch(kernel: KernelFunction) -> Launch:
    shape = Tensor.of(kernel.root.results[0].type).dims
    return Launch(dims.product(shape[:-1]), ELEMENT * dims.product(kernel.root.attr("kernel_shape")) * shape[-1])


def order(kernel: KernelFunction) -> RowOrder | None:
    """A unit is a pixel, a block a row."""
    root = kernel.root
    x, out = (Tensor.of(v.type).dims for v in (root.operands[0], root.results[0]))
    operand = row_order.read_once(kernel)
    if operand is None or not row_order.known(*x, *out):
        return None
    w = Window.of(root, tuple(root.attr("kernel_shape")))
    width = dims.product(out[2:-1])
    axis = (w.kernel[0], w.strides[0], w.dilations[0], w.begins[0])
    bounds = range(0, dims.product(out[:-1]) + 1, width)
    return row_order.of_windows(operand, x[1:-1], out[1:-1], x[0], axis, bounds, width)


def emit(b: KernelBuilder) -> None:
    root = b.kernel.root
    shape, elem = b.shape(root.results[0]), Tensor.of(root.results[0].type).elem
    width = b.target.vector_bits // scalars.bit_width(elem)
    with b.loop(b.begin, b.end) as pixel:
        point = im.unflattened(pixel, shape[:-1])
        channels = shape[-1]
        whole = im.mul(im.floordiv(channels, width), width)
        with b.loop(0, whole, width) as channel:
            _block(b, point, channel, Lanes(width, len(shape) - 1))
        if not (isinstance(channels, int) and channels == whole):
            with b.when(im.compare(whole, "<", channels)):
                mask = lane_mask(im.sub(channels, whole), width)
                _block(b, point, whole, Lanes(width, len(shape) - 1, mask))


def _block(b: KernelBuilder, point: list[im.Index], channel: im.Index, lanes: Lanes) -> None:
    root = b.kernel.root
    source = b.inputs[root.operands[0]]
    elem, rank = source.elem, len(point) - 1
    window = Window.of(root, tuple(root.attr("kernel_shape")))
    average = root.op.name == "kernel.average_pool"
    sizes = source.shape[1:-1]
    starts = [window.start(a, point[1 + a]) for a in range(rank)]
    taps = [window.taps(a, starts[a], sizes[a]) for a in range(rank)]
    first = scalars.constant(0 if average else lowest(elem), scalars.vector_of(scalars.element_type(elem), lanes.width))

    def join(position: list[im.Index], carried: ir.Value) -> ir.Value:
        x = source.load_vector(source.offset([point[0], *position, channel]), lanes.width, lanes.mask)
        return scalars.add(carried, x) if average else scalars.maximum(carried, x, scalars.is_unsigned(elem))

    def cut() -> ir.Value:
        return _cut(b, window, starts, taps, join, first)

    if dims.product(window.kernel) <= MOST_TAPS:
        inside = window.inside(starts, sizes)
        result = b.choose(inside, first.type, lambda: _whole(window, starts, join, first), cut)
    else:
        result = cut()
    if average:
        include = root.attr("count_include_pad", 0)
        counts = [
            window.counted(a, starts[a], sizes[a]) if include else im.sub(taps[a][1], taps[a][0]) for a in range(rank)
        ]
        i64 = arith.index_cast(ir.IntegerType.get_signless(64), im.value(im.maximum(im.product(counts), 1)))
        result = scalars.div(result, scalars.splat(scalars.cast(i64, "i64", elem), lanes.width))
    ev, at = Evaluator(b), [*point, channel]
    ev.seed(root.results[0], at, lanes, result)
    b.outputs[0].store_vector(ev.at(b.kernel.results[0], at, lanes), b.outputs[0].offset(at), lanes.mask)


Join = Callable[[list[im.Index], ir.Value], ir.Value]


def _whole(window: Window, starts: list[im.Index], join: Join, total: ir.Value) -> ir.Value:
    """All taps, written out."""
    for tap in itertools.product(*map(range, window.kernel)):
        offsets = [i * d for i, d in zip(tap, window.dilations, strict=True)]
        total = join([im.add(start, offset) for start, offset in zip(starts, offsets, strict=True)], total)
    return total


def _cut(b: KernelBuilder, window: Window, starts: list[im.Index], taps, join: Join, total: ir.Value) -> ir.Value:
    """The taps of each axis that are inside, in loops."""

    def visit(position: list[im.Index], carried: ir.Value) -> ir.Value:
        axis = len(position)
        if axis == len(starts):
            return join(position, carried)

        def step(tap: ir.Value, inner: ir.Value) -> list[ir.Value]:
            at = im.add(starts[axis], im.mul(tap, window.dilations[axis]))
            return [visit([*position, at], inner)]

        return b.reduce(*taps[axis], 1, [carried], step)[0]

    return visit([], total)
