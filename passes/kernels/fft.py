"""Kernel kind `fft`: a convolution by Fourier transforms, a few tiles at a time.

    kernel.fft(x, u [points, C, M], scratch [PIECES, …], bias?) {tile, window, tiles, pads, group}
A unit takes a span of the tiles, `group` at a time: it transforms them, multiplies their spectra with the weights', and
transforms the products back, so that what lies between stays in cache. For weights that do too; larger ones are better
read once for all tiles (fft_input, a matmul, fft_output). A call works in the piece of scratch of its first unit.
"""

from __future__ import annotations

from onnxc.dialects import dims
from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import contraction
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.fft_input import InputTransform
from onnxc.passes.kernels.fft_output import OutputTransform
from onnxc.passes.kernels.fft_problem import TileGrid, channels_of
from onnxc.passes.kernels.kernel_function import ELEMENT, MULTIPLY_ADD, KernelFunction, Launch
from onnxc.passes.kernels.packing import Packing, entries
from onnxc.passes.kernels.point_products import PointProducts, PointSchedule, choose_products, point_panels
from onnxc.passes.kernels.schedule_space import tile_space, unrolled, with_loops

PIECES = 16  # of scratch, each of a unit: enough for an even split over a few threads
SCRATCH = 2  # the operand
BIAS = 3


def choose(kernel: KernelFunction, target, panel: int = 0) -> dict[str, int | str]:
    op = kernel.root
    channels, filters = channels_of(op.operands[0]), channels_of(op.results[0])
    return entries(choose_products(op.attr("group"), channels, filters, target, panel))


def candidates(kernel: KernelFunction, target) -> list[dict[str, int | str]]:
    """Other register tiles of the products, the heuristic's first."""
    op = kernel.root
    filters, channels = channels_of(op.results[0]), channels_of(op.operands[0])
    first = choose(kernel, target)
    return with_loops(tile_space(first, op.attr("group"), filters, channels, target, narrow=False), unrolled(first))


def packings(kernel: KernelFunction) -> list[Packing]:
    return [point_panels(kernel, PointSchedule(**kernel.schedule).line)]


def launch(kernel: KernelFunction) -> Launch:
    (units, span), op = _split(kernel), kernel.root
    bins = Tensor.of(op.operands[0].type).shape[-1] + Tensor.of(op.results[0].type).shape[-1]
    tile = TileGrid.of(op).tile
    products = dims.product(Tensor.of(op.operands[1].type).shape)
    return Launch(units, span * (MULTIPLY_ADD * products + ELEMENT * tile.height * tile.width * bins))


def _split(kernel: KernelFunction) -> tuple[dims.Dim, dims.Dim]:
    """Units, at most as many as there are pieces of scratch, and the tiles of each."""
    group = kernel.root.attr("group")
    tiles = Tensor.of(kernel.root.operands[0].type).shape[0] * TileGrid.of(kernel.root).tiles
    span = (tiles + (group * PIECES - 1)) // (group * PIECES) * group
    return (-(-tiles // max(1, span)) if isinstance(tiles, int) else PIECES), span


def emit(b: KernelBuilder) -> None:
    op = b.kernel.root
    group, grid = op.attr("group"), TileGrid.of(op)
    into = InputTransform(b)
    back = OutputTransform(b, op.operands[BIAS] if len(op.operands) > BIAS else None, into.lines)
    schedule = PointSchedule(**b.kernel.schedule)
    u, scratch = b.inputs[op.operands[1]], b.inputs[op.operands[SCRATCH]]
    filters = channels_of(op.results[0])
    products = PointProducts(b, into.sums, schedule, u, scratch, group, filters)
    room = im.mul(b.begin, products.block)
    before, after = products.moved(room), products.products(room)
    tiles, span = im.mul(b.shape(op.results[0])[0], grid.tiles), b.dim(_split(b.kernel)[1])
    whole = isinstance(tiles, int) and tiles % group == 0
    with b.loop(b.begin, b.end) as unit:
        start = im.mul(unit, span)
        with b.loop(start, im.minimum(im.add(start, span), tiles), group) as first:
            count = group if whole else im.minimum(im.sub(tiles, first), group)
            with b.loop(0, count) as place:
                into.tile(im.add(first, place), before, place)
            register_tiles = im.ceildiv(count, schedule.rows)
            products.emit(
                lambda multiply: contraction.row_tiles(
                    b, count, schedule.rows, 0, register_tiles, lambda row, rows: multiply(room, row, rows)
                )
            )
            with b.loop(0, count) as place:
                back.tile(after, place, im.add(first, place))
