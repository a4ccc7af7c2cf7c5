"""Kernel kind `winograd_input`: x [N, H, W, C] → [points², tiles, C], every input tile transformed.

A unit is a row of tiles; vectors run over channels. Tiles overlap by two pixels and reach into the padding.
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
from onnxc.passes.kernels.winograd_points import SIZES, Transforms


def launch(kernel: KernelFunction) -> Launch:
    op = kernel.root
    x = Tensor.of(op.operands[0].type)
    rows, columns = op.attr("tiles")
    return Launch(x.shape[0] * rows, ELEMENT * SIZES[op.attr("tile")] ** 2 * columns * x.shape[3])


def emit(b: KernelBuilder) -> None:
    op = b.kernel.root
    x = b.inputs[op.operands[0]]
    rows, columns = op.attr("tiles")
    sums = contraction.arithmetic(x.elem, b.target)
    base, zeros = pointers.pointer(x.memory), pointers.zeros(b, x, Tensor.of(op.operands[0].type).shape[3])
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
    op = b.kernel.root
    x = b.inputs[op.operands[0]]
    channels = Tensor.of(op.operands[0].type).shape[3]
    starts = _pointers(b, base, zeros, image, row, column)
    whole = channels // sums.lanes * sums.lanes
    if whole:
        with b.loop(0, whole, sums.lanes) as channel:
            _transform(sums, starts, x, out, number, channel, None, op.attr("tile"))
    if whole < channels:
        type_ = ir.VectorType.get([sums.lanes], ir.IntegerType.get_signless(1))
        mask = vector.create_mask(type_, [im.value(channels - whole)])
        _transform(sums, starts, x, out, number, whole, mask, op.attr("tile"))


def _pointers(b: KernelBuilder, base: ir.Value, zeros: ir.Value, image, row, column) -> list[list[ir.Value]]:
    """Where each pixel of the tile lies; zeros outside x."""
    op = b.kernel.root
    x = b.inputs[op.operands[0]]
    tile, (above, before) = op.attr("tile"), op.attr("pads")[:2]
    top, left = im.sub(im.mul(row, tile), above), im.sub(im.mul(column, tile), before)
    points = SIZES[tile]
    within = [
        [im.within(im.add(start, i), extent) for i in range(points)]
        for start, extent in ((top, x.shape[1]), (left, x.shape[2]))
    ]
    start = im.add(im.mul(image, x.strides[0]), im.add(im.mul(top, x.strides[1]), im.mul(left, x.strides[2])))
    return [
        [
            arith.select(
                arith.andi(within[0][i], within[1][j]),
                pointers.advance(base, im.add(start, im.add(im.mul(x.strides[1], i), im.mul(x.strides[2], j))), x.elem),
                zeros,
            )
            for j in range(points)
        ]
        for i in range(points)
    ]


def _transform(sums, starts, x, out, number, channel, mask, tile: int) -> None:
    values = [
        [sums.widen(pointers.load_vector(pointers.advance(p, channel, x.elem), sums.lanes, x.elem, mask)) for p in line]
        for line in starts
    ]
    transforms = Transforms(sums, tile)
    after = transforms.square(values, transforms.inputs)
    for i, line in enumerate(after):
        for j, v in enumerate(line):
            point = im.mul(out.strides[0], i * len(line) + j)
            place = im.add(im.add(point, im.mul(number, out.strides[1])), channel)
            out.store_vector(sums.narrow(v), place, mask)
