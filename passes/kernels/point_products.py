"""The products between the transforms of Winograd's and Fourier convolution: for each point, tiles · filters.

For kernels that go through all three steps with a few tiles, whose spectra stay in scratch that is in cache.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from onnxc.dialects import dims
from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import contraction, pointers
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels.builder import Buffer, KernelBuilder
from onnxc.passes.kernels.contraction import Arithmetic
from onnxc.passes.kernels.kernel_function import KernelFunction
from onnxc.passes.kernels.packing import Packing, place_in_panel
from onnxc.passes.kernels.register_tiles import TileColumns, ranked_tiles


@dataclass(frozen=True)
class PointSchedule(TileColumns):
    """Register tile of the products: `rows` tiles × `vectors` of `lanes` filters; the weights always in panels of
    `panel` columns (0: the tile's)."""

    rows: int
    vectors: int
    lanes: int
    panel: int = 0


def choose_products(tiles: int, channels: int, filters: int, target, panel: int = 0) -> PointSchedule:
    lanes = contraction.arithmetic("f32", target).lanes
    rows, vectors = ranked_tiles(tiles, filters, lanes, target, channels, panel=panel)[0]
    return PointSchedule(rows, vectors, lanes, panel if panel != vectors * lanes else 0)


def point_panels(kernel: KernelFunction, width: int) -> Packing:
    """The root's operand 1, [points, C, M], as [points][panel][channel][column]."""
    position = kernel.operands.index(kernel.root.operands[1])
    points, channels, filters = Tensor.of(kernel.root.operands[1].type).shape
    panels = -(-filters // width)

    def make(array: np.ndarray) -> np.ndarray:
        padded = np.zeros((points, channels, panels * width), array.dtype)
        padded[..., :filters] = array
        return np.moveaxis(padded.reshape(points, channels, panels, width), 2, 1)

    return Packing(position, (points, panels, channels, width), f"points{width}", make, width)


class PointProducts:
    """Emits the products of at most `most` tiles: `moved` [points, most, C] · u → `products` [points, most, M], both in
    the scratch from element `start` on."""

    def __init__(
        self,
        b: KernelBuilder,
        sums: Arithmetic,
        s: PointSchedule,
        u: Buffer,
        scratch: Buffer,
        start: im.Index,
        most: im.Index,
        filters: int,
    ):
        self.b, self.sums, self.s, self.u, self.filters, self.most = b, sums, s, u, filters, most
        self.points, self.channels = u.shape[0], u.shape[2]
        self.moved = self._piece(scratch, start, self.channels)
        self.products = self._piece(scratch, im.add(start, im.mul(most, self.points * self.channels)), filters)

    def _piece(self, scratch: Buffer, start: im.Index, width: int) -> Buffer:
        """[points, most, width] in the scratch from element `start`."""
        point = im.mul(self.most, width)
        memory = pointers.part(scratch.memory, start, im.mul(point, self.points))
        return Buffer(memory, scratch.elem, [self.points, self.most, width], [point, width, 1])

    def emit(self, count: im.Index) -> None:
        """All points of the first `count` tiles."""
        with self.b.loop(0, self.points) as point, self.b.loop(0, -(-self.filters // self.s.width)) as panel:
            self._multiply(point, panel, count)

    def _multiply(self, point: im.Index, panel: im.Index, count: im.Index) -> None:
        b, s = self.b, self.s
        column = im.mul(panel, s.width)
        masks = contraction.column_masks(s.lanes, s.vectors, self.filters, column, self.filters % s.width == 0)
        number, inside = place_in_panel(panel, s.line, s.width)
        weights = im.add(im.add(im.mul(point, self.u.strides[0]), im.mul(number, self.u.strides[1])), inside)
        source, target = im.mul(point, self.moved.strides[0]), im.mul(point, self.products.strides[0])

        def tile(row: im.Index, rows: int) -> None:
            start = im.add(source, im.mul(row, self.channels))

            def load(k: im.Index):
                at = im.add(start, k)
                line = im.add(weights, im.mul(k, s.line))
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
