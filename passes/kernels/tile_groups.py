"""Convolutions by transforms of tiles, a group of tiles at a time: what kinds `winograd` and `fft` have in common.

    x, u [points, C, M], scratch [PIECES, …], bias?      {…, group}
A unit is a span of the tiles of all images. A call takes its units' tiles `group` at a time: transforms them,
multiplies them with the weights point by point, and transforms the products back, so that what lies between stays in
cache: as many bytes for images of any size, in its piece of scratch (scratch_pieces.py).
"""

from __future__ import annotations

from collections.abc import Callable

from onnxc.dialects import dims
from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import contraction
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels.builder import Buffer, KernelBuilder
from onnxc.passes.kernels.contraction import Arithmetic
from onnxc.passes.kernels.kernel_function import MULTIPLY_ADD, KernelFunction, Launch
from onnxc.passes.kernels.packing import Packing, entries
from onnxc.passes.kernels.point_products import PointProducts, PointSchedule, choose_products, point_panels
from onnxc.passes.kernels.schedule_space import tile_space, unrolled, with_loops
from onnxc.passes.kernels.scratch_pieces import SCRATCH, split
from onnxc.passes.kernels.tile_grid import TileGrid

#: `(place in the buffer, image, [row, column])` of a tile, and the buffer [points, tiles, channels]
Transform = Callable[[im.Index, im.Index, list[im.Index], Buffer], None]


def choose(kernel: KernelFunction, target, panel: int = 0) -> dict[str, int | str]:
    channels, filters = _channels(kernel)
    return entries(choose_products(kernel.root.attr("group"), channels, filters, target, panel))


def candidates(kernel: KernelFunction, target) -> list[dict[str, int | str]]:
    """Other register tiles of the products, the heuristic's first."""
    channels, filters = _channels(kernel)
    first = choose(kernel, target)
    space = tile_space(first, kernel.root.attr("group"), filters, channels, target, narrow=False)
    return with_loops(space, unrolled(first))


def packings(kernel: KernelFunction) -> list[Packing]:
    return [point_panels(kernel, PointSchedule(**kernel.schedule).line)]


def launch(kernel: KernelFunction, grid: TileGrid, transform: int) -> Launch:
    """The launch of a kernel whose transforms of a tile take `transform` picoseconds a channel and filter."""
    products = dims.product(Tensor.of(kernel.root.operands[1].type).shape)
    units, span = split(_tiles(kernel, grid))
    return Launch(units, span * (MULTIPLY_ADD * products + transform * sum(_channels(kernel))))


def _channels(kernel: KernelFunction) -> tuple[int, int]:
    x, result = (Tensor.of(v.type) for v in (kernel.root.operands[0], kernel.root.results[0]))
    return x.shape[-1], result.shape[-1]


def _tiles(kernel: KernelFunction, grid: TileGrid) -> dims.Dim:
    return Tensor.of(kernel.root.operands[0].type).shape[0] * grid.tiles


def emit(b: KernelBuilder, grid: TileGrid, sums: Arithmetic, into: Transform, back: Transform) -> None:
    """`into` transforms a tile of the input, `back` one of the products."""
    op = b.kernel.root
    group = op.attr("group")
    u, scratch = b.inputs[op.operands[1]], b.inputs[op.operands[SCRATCH]]
    schedule = PointSchedule(**b.kernel.schedule)
    products = PointProducts(b, sums, schedule, u, scratch, group, _channels(b.kernel)[1])
    room = im.mul(b.begin, products.block)
    before, after = products.moved(room), products.products(room)
    tiles = _tiles(b.kernel, grid)
    tiles, span = (b.dim(d) for d in (tiles, split(tiles)[1]))
    for d in (grid.rows, grid.columns):
        b.dim(d)

    def some(count: im.Index) -> None:
        last = im.ceildiv(count, schedule.rows)
        products.emit(
            lambda multiply: contraction.row_tiles(
                b, count, schedule.rows, 0, last, lambda row, rows: multiply(room, row, rows)
            )
        )

    def multiply(count: im.Index) -> None:
        if group % schedule.rows == 0:  # whole tiles of registers, but for what is left over
            some(count)
            return
        whole = im.compare(count, "==", group)
        with b.when(whole):
            some(group)
        with b.when(im.negate(whole)):
            some(count)

    def steps(first: im.Index, count: im.Index) -> None:
        grid.walk(b, first, count, lambda i, image, place: into(i, image, place, before))
        multiply(count)
        grid.walk(b, first, count, lambda i, image, place: back(i, image, place, after))

    start, stop = im.mul(b.begin, span), im.minimum(im.mul(b.end, span), tiles)
    with b.loop(start, stop, group) as first:
        steps(first, im.minimum(im.sub(stop, first), group))
