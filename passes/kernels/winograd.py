"""Kernel kind `winograd`: a 3×3 convolution by Winograd's filtering, a few rows of tiles at a time.

    kernel.winograd(x, u [points², C, M], scratch [units, …], bias?) {tile, tiles, pads, group}
A unit transforms the inputs of `group` rows of tiles, multiplies them with the weights point by point, and transforms
the products back, so that what lies between stays in cache. For weights that do too; larger ones are better read once
for all tiles (winograd_input, a matmul, winograd_output). A call works in the piece of scratch that its first unit
has.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np
from mlir import ir

from onnxc.dialects import dims
from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import contraction, pointers, winograd_input, winograd_output
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels.builder import Buffer, KernelBuilder
from onnxc.passes.kernels.evaluate import Evaluator
from onnxc.passes.kernels.kernel_function import KernelFunction, Launch
from onnxc.passes.kernels.packing import Packing
from onnxc.passes.kernels.register_tiles import choose_tile
from onnxc.passes.kernels.schedule_space import tile_space
from onnxc.passes.kernels.winograd_points import SIZES


@dataclass(frozen=True)
class WinogradSchedule:
    """Register tile of the products: `rows` tiles × `vectors` of `lanes` filters; the weights always in panels."""

    rows: int
    vectors: int
    lanes: int

    @property
    def width(self) -> int:
        return self.vectors * self.lanes


def choose(kernel: KernelFunction, target) -> dict[str, int | str]:
    op = kernel.root
    lanes = contraction.arithmetic("f32", target).lanes
    result = Tensor.of(op.results[0].type).shape
    count = op.attr("group") * op.attr("tiles")[1]
    rows, vectors = choose_tile(count, result[3], lanes, target, Tensor.of(op.operands[0].type).shape[3])
    return asdict(WinogradSchedule(rows, vectors, lanes))


def candidates(kernel: KernelFunction, target) -> list[dict[str, int | str]]:
    """Other register tiles of the products, the heuristic's first."""
    op, first = kernel.root, choose(kernel, target)
    count, filters = op.attr("group") * op.attr("tiles")[1], Tensor.of(op.results[0].type).shape[3]
    return tile_space(first, count, filters, Tensor.of(op.operands[0].type).shape[3], target, narrow=False)


def packings(kernel: KernelFunction) -> list[Packing]:
    op, s = kernel.root, WinogradSchedule(**kernel.schedule)
    position = kernel.operands.index(op.operands[1])
    points, channels, filters = Tensor.of(op.operands[1].type).shape
    panels = -(-filters // s.width)

    def make(array: np.ndarray) -> np.ndarray:
        padded = np.zeros((points, channels, panels * s.width), array.dtype)
        padded[..., :filters] = array
        return np.moveaxis(padded.reshape(points, channels, panels, s.width), 2, 1)

    return [Packing(position, (points, panels, channels, s.width), f"points{s.width}", make)]


def launch(kernel: KernelFunction) -> Launch:
    op = kernel.root
    images = Tensor.of(op.operands[0].type).shape[0]
    return Launch(images * -(-op.attr("tiles")[0] // op.attr("group")), 1)


def emit(b: KernelBuilder) -> None:
    _Emitter(b, WinogradSchedule(**b.kernel.schedule)).run()


class _Emitter:
    def __init__(self, b: KernelBuilder, s: WinogradSchedule):
        self.b, self.s, self.op, self.ev = b, s, b.kernel.root, Evaluator(b)
        self.x, self.u, self.scratch = (b.inputs[v] for v in self.op.operands[:3])
        self.sums = contraction.arithmetic(self.x.elem, b.target)
        self.channels = Tensor.of(self.op.operands[0].type).shape[3]
        self.filters = Tensor.of(self.op.results[0].type).shape[3]
        self.tile, self.group = self.op.attr("tile"), self.op.attr("group")
        self.rows, self.columns = self.op.attr("tiles")
        self.points, self.most = SIZES[self.tile] ** 2, self.group * self.columns
        self.base, self.zeros = pointers.pointer(self.x.memory), pointers.zeros(b, self.x, self.channels)
        self.whole = self.rows % self.group == 0

    def run(self) -> None:
        b = self.b
        units = -(-self.rows // self.group)
        start = im.mul(b.begin, self.points * self.most * (self.channels + self.filters))
        self.moved = self._piece(start, self.channels)
        self.products = self._piece(im.add(start, self.points * self.most * self.channels), self.filters)
        with b.loop(b.begin, b.end) as unit:
            image, first = im.floordiv(unit, units), im.mul(im.mod(unit, units), self.group)
            rows = self.group if self.whole else im.minimum(im.sub(self.rows, first), self.group)
            count = im.mul(rows, self.columns)
            with b.loop(0, count) as number:
                row, column = im.add(first, im.floordiv(number, self.columns)), im.mod(number, self.columns)
                winograd_input.transform_tile(
                    b, self.sums, self.base, self.zeros, self.moved, number, image, row, column
                )
            with b.loop(0, self.points) as point, b.loop(0, self.u.shape[1]) as panel:
                self._multiply(point, panel, count)
            with b.loop(0, count) as number:
                row, column = im.add(first, im.floordiv(number, self.columns)), im.mod(number, self.columns)
                winograd_output.transform_tile(
                    b, self.ev, self.sums, self.products, number, image, row, column, self._bias()
                )

    def _bias(self) -> ir.Value | None:
        return self.op.operands[3] if len(self.op.operands) > 3 else None

    def _piece(self, start: im.Index, width: int) -> Buffer:
        """[points, tiles of a unit, width] in the scratch from element `start`."""
        size = self.points * self.most * width
        memory = pointers.part(self.scratch.memory, start, size)
        return Buffer(memory, self.x.elem, [self.points, self.most, width], [self.most * width, width, 1])

    def _multiply(self, point: im.Index, panel: im.Index, count: im.Index) -> None:
        b, s = self.b, self.s
        column = im.mul(panel, s.width)
        masks = contraction.column_masks(s.lanes, s.vectors, self.filters, column, self.filters % s.width == 0)
        weights = im.add(im.mul(point, self.u.strides[0]), im.mul(panel, self.u.strides[1]))
        source, target = im.mul(point, self.moved.strides[0]), im.mul(point, self.products.strides[0])

        def tile(row: im.Index, rows: int) -> None:
            start = im.add(source, im.mul(row, self.channels))

            def load(k: im.Index):
                at = im.add(start, k)
                line = im.add(weights, im.mul(k, s.width))
                return (
                    [self.moved.load_flat(im.add(at, r * self.channels)) for r in range(rows)],
                    [self.u.load_vector(im.add(line, v * s.lanes), s.lanes) for v in range(s.vectors)],
                )

            acc = contraction.sum_blocks(b, self.sums, rows, s.vectors, self.channels, load)
            out = im.add(im.add(target, im.mul(row, self.filters)), column)
            for r in range(rows):
                for v in range(s.vectors):
                    place = im.add(im.add(out, r * self.filters), v * s.lanes)
                    self.products.store_vector(acc[r * s.vectors + v], place, masks[v])

        tiles = dims.ceildiv(count, s.rows) if isinstance(count, int) else im.ceildiv(count, s.rows)
        contraction.row_tiles(b, count, s.rows, 0, tiles, tile)
