"""Kernel kind `winograd_input`: x [N, H, W, C] → [points², tiles, C], every input tile transformed.

Of volumes x [N, D, H, W, C] → [points², tiles, K·C]: the K planes that a plane of the result adds up, one behind the
other (winograd_points.Depth). A unit is a row of tiles; vectors run over channels. Tiles overlap by two pixels and
reach into the padding.
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith, vector

from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import contraction, pointers
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels.builder import Buffer, KernelBuilder
from onnxc.passes.kernels.contraction import Arithmetic
from onnxc.passes.kernels.kernel_function import ELEMENT, KernelFunction, Launch
from onnxc.passes.kernels.winograd_points import SIZES, Depth, Transforms


def launch(kernel: KernelFunction) -> Launch:
    op = kernel.root
    images, channels = (
        Tensor.of(op.operands[0].type).shape[0] * Depth.of(op).out,
        Tensor.of(op.results[0].type).shape[2],
    )
    rows, columns = op.attr("tiles")
    return Launch(images * rows, ELEMENT * SIZES[op.attr("tile")] ** 2 * columns * channels)


def emit(b: KernelBuilder) -> None:
    op = b.kernel.root
    x = b.inputs[op.operands[0]]
    rows, columns = op.attr("tiles")
    sums = contraction.arithmetic(x.elem, b.target)
    base, zeros = pointers.pointer(x.memory), pointers.zeros(b, x, Tensor.of(op.operands[0].type).shape[-1])
    with b.loop(b.begin, b.end) as unit:
        image, row = im.floordiv(unit, rows), im.mod(unit, rows)
        with b.loop(0, columns) as column:
            number = im.add(im.mul(unit, columns), column)
            transform_tile(b, sums, base, zeros, b.outputs[0], number, image, row, column)


def transform_tile(
    b: KernelBuilder,
    sums: Arithmetic,
    base: ir.Value,
    zeros: ir.Value,
    out: Buffer,
    number: im.Index,
    image: im.Index,
    row: im.Index,
    column: im.Index,
) -> None:
    """The tile at (row, column) of an image becomes tile `number` of `out` [points, tiles, C]."""
    x = b.inputs[b.kernel.root.operands[0]]
    depth, start = Depth.of(b.kernel.root), im.mul(number, out.strides[1])
    if len(x.shape) == 4:
        plane = im.mul(image, x.strides[0])
        _transform_plane(b, sums, _pointers(b, base, zeros, plane, True, row, column), out, start)
        return
    with b.loop(0, depth.taps) as tap:
        volume, at = depth.source(image, tap)
        plane, inside = im.add(im.mul(volume, x.strides[0]), im.mul(at, x.strides[1])), im.within(at, x.shape[1])
        starts = _pointers(b, base, zeros, plane, inside, row, column)
        _transform_plane(b, sums, starts, out, im.add(start, im.mul(tap, x.shape[-1])))


def _transform_plane(b: KernelBuilder, sums: Arithmetic, starts: list[list[ir.Value]], out: Buffer, start) -> None:
    """All channels of a tile whose pixels lie at `starts`, to `start` in each point of `out`."""
    x, tile = b.inputs[b.kernel.root.operands[0]], b.kernel.root.attr("tile")
    channels = x.shape[-1]
    whole = channels // sums.lanes * sums.lanes
    if whole:
        with b.loop(0, whole, sums.lanes) as channel:
            _transform(sums, starts, x, out, start, channel, None, tile)
    if whole < channels:
        type_ = ir.VectorType.get([sums.lanes], ir.IntegerType.get_signless(1))
        mask = vector.create_mask(type_, [im.value(channels - whole)])
        _transform(sums, starts, x, out, start, whole, mask, tile)


def _pointers(
    b: KernelBuilder, base: ir.Value, zeros: ir.Value, plane: im.Index, exists: bool | ir.Value, row, column
) -> list[list[ir.Value]]:
    """Where each pixel of the tile lies in the plane that begins there, if it is one; zeros outside x."""
    op = b.kernel.root
    x = b.inputs[op.operands[0]]
    tile, (above, before) = op.attr("tile"), op.attr("pads")[:2]
    top, left = im.sub(im.mul(row, tile), above), im.sub(im.mul(column, tile), before)
    points = SIZES[tile]
    within = [
        [im.both(real, im.within(im.add(start, i), extent)) for i in range(points)]
        for start, extent, real in ((top, x.shape[-3], exists), (left, x.shape[-2], True))
    ]
    down, right = x.strides[-3:-1]
    start = im.add(plane, im.add(im.mul(top, down), im.mul(left, right)))
    return [
        [
            arith.select(
                arith.andi(within[0][i], within[1][j]),
                pointers.advance(base, im.add(start, im.add(im.mul(down, i), im.mul(right, j))), x.elem),
                zeros,
            )
            for j in range(points)
        ]
        for i in range(points)
    ]


def _transform(sums, starts, x, out, start, channel, mask, tile: int) -> None:
    values = [
        [sums.widen(pointers.load_vector(pointers.advance(p, channel, x.elem), sums.lanes, x.elem, mask)) for p in line]
        for line in starts
    ]
    transforms = Transforms(sums, tile)
    after = transforms.square(values, transforms.inputs)
    for i, line in enumerate(after):
        for j, v in enumerate(line):
            point = im.mul(out.strides[0], i * len(line) + j)
            place = im.add(im.add(point, start), channel)
            out.store_vector(sums.narrow(v), place, mask)
