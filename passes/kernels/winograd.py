"""Kernel kind `winograd`: a 3×3 convolution by Winograd's filtering, a few rows of tiles at a time.

    kernel.winograd(x, u [points², C, M], scratch [rows, …], bias?) {tile, tiles, pads, group}
A unit is a row of tiles; a call takes `group` of its units at a time: transforms their inputs, multiplies them with the
weights point by point, and transforms the products back, so that what lies between stays in cache. For weights that do
too; larger ones are better read once for all tiles (winograd_input, a matmul, winograd_output). A call works in the
scratch of its own units.
"""

from __future__ import annotations

from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import contraction, pointers, winograd_input, winograd_output
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.evaluate import Evaluator
from onnxc.passes.kernels.kernel_function import ELEMENT, MULTIPLY_ADD, KernelFunction, Launch
from onnxc.passes.kernels.packing import Packing, entries
from onnxc.passes.kernels.point_products import PointProducts, PointSchedule, choose_products, point_panels
from onnxc.passes.kernels.schedule_space import tile_space
from onnxc.passes.kernels.winograd_points import SIZES


def choose(kernel: KernelFunction, target, panel: int = 0) -> dict[str, int | str]:
    op = kernel.root
    channels, filters = Tensor.of(op.operands[0].type).shape[3], Tensor.of(op.results[0].type).shape[3]
    count = op.attr("group") * op.attr("tiles")[1]
    return entries(choose_products(count, channels, filters, target, panel))


def candidates(kernel: KernelFunction, target) -> list[dict[str, int | str]]:
    """Other register tiles of the products, the heuristic's first."""
    op, first = kernel.root, choose(kernel, target)
    count, filters = op.attr("group") * op.attr("tiles")[1], Tensor.of(op.results[0].type).shape[3]
    return tile_space(first, count, filters, Tensor.of(op.operands[0].type).shape[3], target, narrow=False)


def packings(kernel: KernelFunction) -> list[Packing]:
    return [point_panels(kernel, PointSchedule(**kernel.schedule).line)]


def launch(kernel: KernelFunction) -> Launch:
    op = kernel.root
    x, result, (rows, columns) = Tensor.of(op.operands[0].type), Tensor.of(op.results[0].type), op.attr("tiles")
    channels, filters = x.shape[3], result.shape[3]
    tile = SIZES[op.attr("tile")] ** 2 * (MULTIPLY_ADD * channels * filters + ELEMENT * (channels + filters) // 16)
    return Launch(x.shape[0] * rows, tile * columns)


def emit(b: KernelBuilder) -> None:
    """Whole groups first, whose size is known; then what is left of the call's units."""
    group = b.kernel.root.attr("group")
    rows = _Rows(b, im.minimum(im.sub(b.end, b.begin), group))
    rest = im.mod(im.sub(b.end, b.begin), group)
    last = im.sub(b.end, rest)
    with b.loop(b.begin, last, group) as first:
        rows.emit(first, group)
    if group > 1:
        with b.when(im.compare(rest, ">", 0)):
            rows.emit(last, rest)


class _Rows:
    """Emits groups of at most `most` rows of tiles."""

    def __init__(self, b: KernelBuilder, most: im.Index):
        self.b, self.op, self.ev = b, b.kernel.root, Evaluator(b)
        x, u, scratch = (b.inputs[v] for v in self.op.operands[:3])
        channels, filters = x.shape[3], Tensor.of(self.op.results[0].type).shape[3]
        self.sums = contraction.arithmetic(x.elem, b.target)
        self.rows, self.columns = self.op.attr("tiles")
        self.base, self.zeros = pointers.pointer(x.memory), pointers.zeros(b, x, channels)
        self.bias = self.op.operands[3] if len(self.op.operands) > 3 else None
        start = im.mul(b.begin, u.shape[0] * self.columns * (channels + filters))
        schedule = PointSchedule(**b.kernel.schedule)
        self.points = PointProducts(b, self.sums, schedule, u, scratch, start, im.mul(most, self.columns), filters)

    def emit(self, first: im.Index, rows: im.Index) -> None:
        """`rows` rows from row `first` of all images' rows on."""
        b, count = self.b, im.mul(rows, self.columns)
        with b.loop(0, count) as number:
            place = self._place(first, number)
            winograd_input.transform_tile(b, self.sums, self.base, self.zeros, self.points.moved, number, *place)
        self.points.emit(count)
        with b.loop(0, count) as number:
            place = self._place(first, number)
            winograd_output.transform_tile(b, self.ev, self.sums, self.points.products, number, *place, self.bias)

    def _place(self, first: im.Index, number: im.Index) -> tuple[im.Index, im.Index, im.Index]:
        """Image, row and column of a tile."""
        line = im.add(first, im.floordiv(number, self.columns))
        return im.floordiv(line, self.rows), im.mod(line, self.rows), im.mod(number, self.columns)
