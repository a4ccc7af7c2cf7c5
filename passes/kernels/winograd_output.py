"""Kernel kind `winograd_output`: products [points², tiles, M] → [N, H, W, M], with bias and epilogue.

A unit is a row of tiles; vectors run over filters. Pixels of the last tiles beyond the result are left out.
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import vector

from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import contraction, scalars
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels.builder import Buffer, KernelBuilder
from onnxc.passes.kernels.contraction import Arithmetic
from onnxc.passes.kernels.evaluate import Evaluator, Lanes
from onnxc.passes.kernels.kernel_function import ELEMENT, KernelFunction, Launch
from onnxc.passes.kernels.winograd_points import SIZES, Transforms


def launch(kernel: KernelFunction) -> Launch:
    op = kernel.root
    result = Tensor.of(op.results[0].type)
    rows, columns = op.attr("tiles")
    return Launch(result.shape[0] * rows, ELEMENT * columns * result.shape[3])


def emit(b: KernelBuilder) -> None:
    op, ev = b.kernel.root, Evaluator(b)
    sums = contraction.arithmetic(Tensor.of(op.results[0].type).elem, b.target)
    rows, columns = op.attr("tiles")
    bias = op.operands[1] if len(op.operands) > 1 else None
    with b.loop(b.begin, b.end) as unit:
        image, row = im.floordiv(unit, rows), im.mod(unit, rows)
        with b.loop(0, columns) as column:
            number = im.add(im.mul(unit, columns), column)
            transform_tile(b, ev, sums, b.inputs[op.operands[0]], number, image, row, column, bias)


def transform_tile(
    b: KernelBuilder,
    ev: Evaluator,
    sums: Arithmetic,
    products: Buffer,
    number: im.Index,
    image: im.Index,
    row: im.Index,
    column: im.Index,
    bias: ir.Value | None,
) -> None:
    """Tile `number` of `products` [points, tiles, M] becomes the result's at (row, column) of an image."""
    filters = Tensor.of(b.kernel.root.results[0].type).shape[3]
    whole = filters // sums.lanes * sums.lanes
    if whole:
        with b.loop(0, whole, sums.lanes) as first, ev.scope():
            _pixels(b, ev, sums, products, number, [image, row, column, first], None, bias)
    if whole < filters:
        type_ = ir.VectorType.get([sums.lanes], ir.IntegerType.get_signless(1))
        with ev.scope():
            mask = vector.create_mask(type_, [im.value(filters - whole)])
            _pixels(b, ev, sums, products, number, [image, row, column, whole], mask, bias)


def _pixels(
    b: KernelBuilder,
    ev: Evaluator,
    sums: Arithmetic,
    products: Buffer,
    number: im.Index,
    place: list[im.Index],
    mask: ir.Value | None,
    bias: ir.Value | None,
) -> None:
    op = b.kernel.root
    image, row, column, first = place
    tile = op.attr("tile")
    points = SIZES[tile]
    lanes = Lanes(sums.lanes, 3, mask)
    start = im.add(im.mul(number, products.strides[1]), first)
    values = [
        [
            sums.widen(
                products.load_vector(im.add(start, im.mul(products.strides[0], i * points + j)), sums.lanes, mask)
            )
            for j in range(points)
        ]
        for i in range(points)
    ]
    transforms = Transforms(sums, tile)
    after = transforms.square(values, transforms.outputs)
    offset = None if bias is None else sums.widen(ev.at(bias, (first,), Lanes(sums.lanes, 0, mask)))
    for i, line in enumerate(after):
        for j, v in enumerate(line):
            y, x = im.add(im.mul(row, tile), i), im.add(im.mul(column, tile), j)
            v = v if offset is None else scalars.add(v, offset)
            with b.when(_inside(b, op, y, x, i, j)), ev.scope():
                contraction.store_tile(
                    b,
                    ev,
                    op.results[0],
                    lambda _: lanes,
                    lambda r, _: [image, y, x, first],  # noqa: B023 (called at once)
                    1,
                    1,
                    lambda p, at, total: sums.narrow(total),
                    [v],
                )


def _inside(b: KernelBuilder, op, y: im.Index, x: im.Index, i: int, j: int) -> bool | ir.Value:
    inside: bool | ir.Value = True
    for at, own, extent in ((y, i, b.shape(op.results[0])[1]), (x, j, b.shape(op.results[0])[2])):
        last = None if not isinstance(extent, int) else (extent - 1) % op.attr("tile")
        if last is None or own > last:  # only in the last row or column of tiles can it lie outside
            inside = im.both(inside, im.compare(at, "<", extent))
    return inside
