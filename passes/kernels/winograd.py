"""Kernel kind `winograd`: a 3×3 convolution by Winograd's filtering, a few rows of tiles at a time.

    kernel.winograd(x, u [points², C, M], scratch [units, …], bias?) {tile, tiles, pads, group}
A unit transforms the inputs of `group` rows of tiles, multiplies them with the weights point by point, and transforms
the products back, so that what lies between stays in cache. For weights that do too; larger ones are better read once
for all tiles (winograd_input, a matmul, winograd_output). A call works in the piece of scratch that its first unit
has.
"""

from __future__ import annotations

from dataclasses import asdict

from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import contraction, pointers, winograd_input, winograd_output
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.evaluate import Evaluator
from onnxc.passes.kernels.kernel_function import KernelFunction, Launch
from onnxc.passes.kernels.packing import Packing
from onnxc.passes.kernels.point_products import PointProducts, PointSchedule, choose_products, point_panels
from onnxc.passes.kernels.schedule_space import tile_space


def choose(kernel: KernelFunction, target) -> dict[str, int | str]:
    op = kernel.root
    channels, filters = Tensor.of(op.operands[0].type).shape[3], Tensor.of(op.results[0].type).shape[3]
    return asdict(choose_products(op.attr("group") * op.attr("tiles")[1], channels, filters, target))


def candidates(kernel: KernelFunction, target) -> list[dict[str, int | str]]:
    """Other register tiles of the products, the heuristic's first."""
    op, first = kernel.root, choose(kernel, target)
    count, filters = op.attr("group") * op.attr("tiles")[1], Tensor.of(op.results[0].type).shape[3]
    return tile_space(first, count, filters, Tensor.of(op.operands[0].type).shape[3], target, narrow=False)


def packings(kernel: KernelFunction) -> list[Packing]:
    return [point_panels(kernel, PointSchedule(**kernel.schedule).width)]


def launch(kernel: KernelFunction) -> Launch:
    op = kernel.root
    images = Tensor.of(op.operands[0].type).shape[0]
    return Launch(images * -(-op.attr("tiles")[0] // op.attr("group")), 1)


def emit(b: KernelBuilder) -> None:
    op, ev = b.kernel.root, Evaluator(b)
    x, u, scratch = (b.inputs[v] for v in op.operands[:3])
    channels, filters = Tensor.of(op.operands[0].type).shape[3], Tensor.of(op.results[0].type).shape[3]
    sums = contraction.arithmetic(x.elem, b.target)
    group, (rows, columns) = op.attr("group"), op.attr("tiles")
    base, zeros = pointers.pointer(x.memory), pointers.zeros(b, x, channels)
    bias = op.operands[3] if len(op.operands) > 3 else None
    products = PointProducts(b, sums, PointSchedule(**b.kernel.schedule), u, scratch, group * columns, filters)
    units = -(-rows // group)
    with b.loop(b.begin, b.end) as unit:
        image, first = im.floordiv(unit, units), im.mul(im.mod(unit, units), group)
        here = group if rows % group == 0 else im.minimum(im.sub(rows, first), group)
        count = im.mul(here, columns)
        with b.loop(0, count) as number:
            row, column = im.add(first, im.floordiv(number, columns)), im.mod(number, columns)
            winograd_input.transform_tile(b, sums, base, zeros, products.moved, number, image, row, column)
        products.emit(count)
        with b.loop(0, count) as number:
            row, column = im.add(first, im.floordiv(number, columns)), im.mod(number, columns)
            winograd_output.transform_tile(b, ev, sums, products.products, number, image, row, column, bias)
