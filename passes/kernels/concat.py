"""Kernel kind `concat`: each input is copied (or computed) to its place in the result.

The result is seen as `rows` × `columns`: the dims before the axis, and all from it on. An input's columns are one run
of every row, so the loops are long whatever the rank.
"""

from __future__ import annotations

from mlir import ir

from onnxc.dialects import dims
from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.evaluate import Evaluator
from onnxc.passes.kernels.kernel_function import ELEMENT, KernelFunction, Launch
from onnxc.passes.kernels.map import ROWS


def split_by_rows(kernel: KernelFunction) -> bool:
    """Whether threads take rows (there are enough of them) or columns."""
    rows = dims.product(_shape(kernel)[: axis_of(kernel)])
    return isinstance(rows, int) and rows >= ROWS


def axis_of(kernel: KernelFunction) -> int:
    return kernel.root.attr("axis") % len(_shape(kernel))


def _shape(kernel: KernelFunction) -> tuple[dims.Dim, ...]:
    return Tensor.of(kernel.root.results[0].type).dims


def launch(kernel: KernelFunction) -> Launch:
    shape, axis = _shape(kernel), axis_of(kernel)
    rows, columns = dims.product(shape[:axis]), dims.product(shape[axis:])
    if split_by_rows(kernel):
        return Launch(rows, ELEMENT * columns)
    return Launch(columns, ELEMENT * rows)


def emit(b: KernelBuilder) -> None:
    shape, axis = b.shape(b.kernel.root.results[0]), axis_of(b.kernel)
    rows, columns = im.product(shape[:axis]), im.product(shape[axis:])
    apart = b.outputs[0].strides[axis - 1] if axis else columns
    by_rows = split_by_rows(b.kernel)
    first, last = (b.begin, b.end) if by_rows else (0, rows)
    ev = Evaluator(b)
    start: im.Index = 0
    for operand in [v for v in b.kernel.root.operands if v is not None]:
        run = im.product(b.shape(operand)[axis:])
        low, high = (
            (0, run) if by_rows else (im.maximum(im.sub(b.begin, start), 0), im.minimum(im.sub(b.end, start), run))
        )
        with b.loop(first, last) as row, b.loop(low, high) as column:
            _copy(b, ev, operand, axis, row, column, im.add(im.mul(row, apart), start))
        start = im.add(start, run)


def _copy(b: KernelBuilder, ev: Evaluator, operand: ir.Value, axis: int, row, column, base: im.Index) -> None:
    rank = len(b.shape(operand))
    point: list[im.Index] = [0] * rank
    if axis:
        point[axis - 1] = row  # merged axes: the innermost one runs over all of them
    point[rank - 1] = column
    with ev.scope():
        b.outputs[0].store_flat(ev.at(operand, point), im.add(base, column))
