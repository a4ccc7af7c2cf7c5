"""The products between the transforms of Winograd's and Fourier convolution: for each point, tiles · filters.

For kernels that go through all three steps with a few tiles, whose spectra stay in scratch that is in cache.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import contraction, pointers
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels.builder import Buffer, KernelBuilder
from onnxc.passes.kernels.contraction import Arithmetic
from onnxc.passes.kernels.kernel_function import KernelFunction
from onnxc.passes.kernels.matrix_panels import panels_of
from onnxc.passes.kernels.packing import Packing, place_in_panel
from onnxc.passes.kernels.register_tiles import Product, TileColumns, ranked_tiles

LINE = 16  # elements of a cache line
Multiply = Callable[[im.Index, im.Index, int], None]


@dataclass(frozen=True)
class PointSchedule(TileColumns):
    """Register tile of the products: `rows` tiles × `vectors` of `lanes` filters; the weights always in panels of
    `panel` columns (0: the tile's); `unroll`: terms a step of the inner loop."""

    rows: int
    vectors: int
    lanes: int
    panel: int = 0
    unroll: int = 1


def choose_products(tiles: int, channels: int, filters: int, target, panel: int = 0) -> PointSchedule:
    lanes = contraction.arithmetic("f32", target).lanes
    rows, vectors = ranked_tiles(Product(tiles, filters, lanes, channels, panel=panel), target)[0]
    return PointSchedule(rows, vectors, lanes, panel if panel != vectors * lanes else 0)


def point_panels(kernel: KernelFunction, width: int) -> Packing:
    """The root's operand 1, [points, C, M], as [points][panel][channel][column]."""
    position = kernel.operands.index(kernel.root.operands[1])
    return panels_of(position, Tensor.of(kernel.root.operands[1].type).shape, width)


def plane_elements(tiles: int, channels: int, filters: int) -> int:
    """Elements of scratch from one point to the next: an odd number of cache lines, since planes that lie a multiple of
    4 KB apart would share the sets of L1."""
    return (-(-tiles * max(channels, filters) // LINE) | 1) * LINE


def block_elements(points: int, tiles: int, channels: int, filters: int) -> int:
    """Elements of scratch for so many tiles."""
    return (points + 1) * plane_elements(tiles, channels, filters)


class PointProducts:
    """Emits the products of tiles that lie in blocks of scratch, each of at most `most` tiles: moved [points, tiles, C]
    · u → products [points, tiles, M].

    The products of a point take the place of the input of the point before, which is multiplied already: so a block
    takes half the cache."""

    def __init__(
        self, b: KernelBuilder, sums: Arithmetic, s: PointSchedule, u: Buffer, scratch: Buffer, most: int, filters: int
    ):
        self.b, self.sums, self.s, self.u, self.scratch, self.filters = b, sums, s, u, scratch, filters
        self.points, self.channels, self.most = u.shape[0], u.shape[2], most
        self.plane = plane_elements(most, self.channels, filters)
        self.block = block_elements(self.points, most, self.channels, filters)

    def moved(self, start: im.Index) -> Buffer:
        """The input of the block that begins at element `start` of the scratch."""
        return self._piece(im.add(start, self.plane), self.channels)

    def products(self, start: im.Index) -> Buffer:
        return self._piece(start, self.filters)

    def _piece(self, start: im.Index, width: int) -> Buffer:
        memory = pointers.part(self.scratch.memory, start, self.plane * self.points)
        return Buffer(memory, self.scratch.elem, [self.points, self.most, width], [self.plane, width, 1])

    def emit(self, tiles: Callable[[Multiply], None]) -> None:
        """`tiles(multiply)` calls `multiply(start of a block, first tile in it, how many)` for all register tiles."""
        with self.b.loop(0, self.points) as point, self.b.loop(0, -(-self.filters // self.s.width)) as panel:
            column = im.mul(panel, self.s.width)
            exact = self.filters % self.s.width == 0
            masks = contraction.column_masks(self.s.lanes, self.s.vectors, self.filters, column, exact)
            number, inside = place_in_panel(panel, self.s.line, self.s.width)
            weights = im.add(im.add(im.mul(point, self.u.strides[0]), im.mul(number, self.u.strides[1])), inside)

            def multiply(start: im.Index, row: im.Index, rows: int) -> None:
                place = im.add(start, im.mul(point, self.plane))
                self._multiply(place, row, rows, weights, column, masks)

            tiles(multiply)

    def _multiply(self, place: im.Index, row: im.Index, rows: int, weights: im.Index, column: im.Index, masks) -> None:
        """`place`: of the plane that gets the products; the next one has the input."""
        s, memory = self.s, self.scratch
        source = im.add(im.add(place, self.plane), im.mul(row, self.channels))

        def load(k: im.Index):
            at = im.add(source, k)
            line = im.add(weights, im.mul(k, s.line))
            return (
                [memory.load_flat(im.add(at, r * self.channels)) for r in range(rows)],
                [self.u.load_vector(im.add(line, v * s.lanes), s.lanes) for v in range(s.vectors)],
            )

        acc = contraction.sum_blocks(self.b, self.sums, rows, s.vectors, self.channels, load, unroll=s.unroll)
        out = im.add(im.add(place, im.mul(row, self.filters)), column)
        for r in range(rows):
            for v in range(s.vectors):
                target = im.add(im.add(out, r * self.filters), v * s.lanes)
                memory.store_vector(acc[r * s.vectors + v], target, masks[v])
