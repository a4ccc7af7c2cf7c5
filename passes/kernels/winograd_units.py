"""Kernel kind `winograd` over images of known sizes, in equal units.

A unit is as many tiles, counted through all images, as a register tile of the products has rows, or one fewer, so that
units are equal. A call takes units of about `group` tiles together: transforms their inputs, multiplies them with the
weights point by point, and transforms the products back, so that what lies between stays in cache. A call works in the
blocks of scratch of its own units.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from math import isqrt

from onnxc.dialects import dims
from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import contraction, pointers, winograd_input
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.kernel_function import ELEMENT, MULTIPLY_ADD, KernelFunction, Launch
from onnxc.passes.kernels.packing import Packing, entries
from onnxc.passes.kernels.point_products import (
    LINE,
    Multiply,
    PointProducts,
    PointSchedule,
    choose_products,
    point_panels,
)
from onnxc.passes.kernels.schedule_space import tile_space, unrolled, with_loops
from onnxc.passes.kernels.scratch_pieces import BIAS
from onnxc.passes.kernels.winograd_output import OutputTransform
from onnxc.passes.kernels.winograd_points import SIZES, Depth, images_of

TALLEST = 32  # more rows than any register tile has


def choose(kernel: KernelFunction, target, panel: int = 0) -> dict[str, int | str]:
    return entries(choose_products(_tiles(kernel), *_matrix(kernel), target, panel))


def candidates(kernel: KernelFunction, target) -> list[dict[str, int | str]]:
    """Other register tiles of the products, the heuristic's first."""
    first, (channels, filters) = choose(kernel, target), _matrix(kernel)
    return with_loops(tile_space(first, _tiles(kernel), filters, channels, target, narrow=False), unrolled(first))


def packings(kernel: KernelFunction) -> list[Packing]:
    return [point_panels(kernel, PointSchedule(**kernel.schedule).line)]


def launch(kernel: KernelFunction) -> Launch:
    op, s = kernel.root, PointSchedule(**kernel.schedule)
    channels, filters = _matrix(kernel)
    tile = SIZES[op.attr("tile")] ** 2 * (MULTIPLY_ADD * channels * filters + ELEMENT * (channels + filters) // 16)
    tiles = _tiles(kernel)
    return Launch(contraction.tile_count(tiles, s.rows), tile * _most(tiles, s))


def scratch_shape(tiles: dims.Dim, points: int, channels: int, filters: int) -> list[dims.Dim]:
    """What the blocks of all units take, whatever the schedule: those of few rows have a line more for each tile."""
    spare = isqrt(tiles) + 1 if isinstance(tiles, int) else TALLEST
    return [tiles + spare, (points + 1) * (-(-max(channels, filters) // LINE) + 1) * LINE]


def emit(b: KernelBuilder) -> None:
    s = PointSchedule(**b.kernel.schedule)
    group = max(1, b.kernel.root.attr("group") // s.rows)
    units = _Units(b, s)
    with b.loop(b.begin, b.end, group) as first:
        units.emit(first, im.minimum(im.add(first, group), b.end))


def _tiles(kernel: KernelFunction) -> dims.Dim:
    """Of all images."""
    return images_of(kernel.root) * dims.product(kernel.root.attr("tiles"))


def _matrix(kernel: KernelFunction) -> tuple[int, int]:
    """Terms and filters of the products."""
    x, result = (Tensor.of(v.type).shape for v in (kernel.root.operands[0], kernel.root.results[0]))
    return Depth.of(kernel.root).taps * x[-1], result[-1]


def _most(tiles: dims.Dim, s: PointSchedule) -> int:
    """Tiles of the largest unit."""
    return -(-tiles // max(1, -(-tiles // s.rows))) if isinstance(tiles, int) else s.rows


class _Units:
    """Emits units; made where the kernel's function begins."""

    def __init__(self, b: KernelBuilder, s: PointSchedule):
        self.b, self.s, self.op = b, s, b.kernel.root
        x, u, scratch = (b.inputs[v] for v in self.op.operands[:3])
        self.sums = contraction.arithmetic(x.elem, b.target)
        self.grid = self.op.attr("tiles")
        self.base, self.zeros = pointers.pointer(x.memory), pointers.zeros(b, x, x.shape[-1])
        self.back = OutputTransform(b, self.op.operands[BIAS] if len(self.op.operands) > BIAS else None)
        tiles = _tiles(b.kernel)
        self.tiles, self.most = b.dim(tiles), _most(tiles, s)
        self.points = PointProducts(b, self.sums, s, u, scratch, self.most, _matrix(b.kernel)[1])

    def emit(self, first: im.Index, last: im.Index) -> None:
        """Units `first` … `last` - 1, in the blocks from the call's first one on."""
        b, products = self.b, self.points

        def block(unit: im.Index) -> im.Index:
            return im.mul(im.add(b.begin, im.sub(unit, first)), products.block)

        with self._each_tile(first, last) as (unit, number, place):
            moved = products.moved(block(unit))
            winograd_input.transform_tile(b, self.sums, self.base, self.zeros, moved, number, *place)
        products.emit(lambda multiply: self._multiply(first, last, block, multiply))
        with self._each_tile(first, last) as (unit, number, place):
            done = products.products(block(unit))
            self.back.tile(done, number, place)

    @contextmanager
    def _each_tile(self, first: im.Index, last: im.Index) -> Iterator[tuple[im.Index, im.Index, list[im.Index]]]:
        """Loops over (unit, number of the tile in it, its image, row and column)."""
        with self.b.loop(first, last) as unit:
            start = self._start(unit)
            with self.b.loop(0, im.sub(self._start(im.add(unit, 1)), start)) as number:
                yield unit, number, im.unflattened(im.add(start, number), [0, *self.grid])

    def _start(self, unit: im.Index) -> im.Index:
        """The first tile of a unit."""
        if not isinstance(self.tiles, int):
            return im.minimum(im.mul(unit, self.most), self.tiles)
        small, extra = self._even()
        return im.add(im.mul(unit, small), im.minimum(unit, extra))

    def _even(self) -> tuple[int, int]:
        """Tiles of the smaller units, and how many units have one more."""
        return divmod(self.tiles, max(1, -(-self.tiles // self.s.rows)))

    def _multiply(self, first: im.Index, last: im.Index, block, multiply: Multiply) -> None:
        def tile(row: im.Index, rows: int) -> None:
            if not isinstance(self.tiles, int):
                unit = im.floordiv(row, self.most)
                multiply(block(unit), im.sub(row, im.mul(unit, self.most)), rows)
                return
            small, extra = self._even()
            unit = im.floordiv(row, rows) if rows > small else im.floordiv(im.sub(row, extra), rows)
            multiply(block(unit), 0, rows)

        contraction.row_tiles(self.b, self.tiles, self.s.rows, first, last, tile)
