"""Kernel kind `cumulative`: CumSum and CumProd along an axis (see passes/compositions/reduction.py for the op).

    %y = "kernel.cumulative"(%x) {axis, exclusive, reverse, product}
    %y = "kernel.cumulative"(%x, %axis) {exclusive, reverse, product}         where the axis is computed at run time
Elements are joined in order; behind the axis there are columns, which are independent of each other (and vectorised).
"""

from __future__ import annotations

from mlir import ir

from onnxc.dialects import dims
from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels import scalars
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.kernel_function import ELEMENT, KernelFunction, Launch


def _attribute(kernel: KernelFunction, name: str) -> int:
    return ir.IntegerAttr(kernel.root.op.attributes[name]).value


def _at_run_time(kernel: KernelFunction) -> bool:
    return len(kernel.root.operands) > 1


def launch(kernel: KernelFunction) -> Launch:
    if _at_run_time(kernel):
        return Launch(1)
    shape, axis = Tensor.of(kernel.root.results[0].type).dims, _attribute(kernel, "axis")
    work = dims.product(shape[axis:])
    return Launch(dims.product(shape[:axis]), 4 * ELEMENT * work)


def emit(b: KernelBuilder) -> None:
    out = b.outputs[0]
    if not _at_run_time(b.kernel):
        axis = _attribute(b.kernel, "axis")
        with b.loop(b.begin, b.end) as row:
            _row(b, row, out.shape[axis], im.product(out.shape[axis + 1 :]))
        return
    given = b.inputs[b.kernel.root.operands[1]]
    rank, axis = len(out.shape), b.index_cast(given.load_flat(0), given.elem)
    axis = im.select(im.compare(axis, "<", 0), im.add(axis, rank), axis)
    rows: im.Index = 1
    length: im.Index = out.shape[0]
    columns: im.Index = im.product(out.shape[1:])
    for i in range(1, rank):
        here = im.compare(axis, "==", i)
        rows = im.select(here, im.product(out.shape[:i]), rows)
        length = im.select(here, out.shape[i], length)
        columns = im.select(here, im.product(out.shape[i + 1 :]), columns)
    with b.loop(b.begin, b.end), b.loop(0, rows) as row:
        _row(b, row, length, columns)


def _row(b: KernelBuilder, row: im.Index, length: im.Index, columns: im.Index) -> None:
    out, source = b.outputs[0], b.inputs[b.kernel.root.operands[0]]
    reverse, exclusive, product = (bool(_attribute(b.kernel, name)) for name in ("reverse", "exclusive", "product"))
    start = scalars.constant(1 if product else 0, scalars.element_type(out.elem))
    join = scalars.mul if product else scalars.add
    base = im.mul(row, im.mul(length, columns))

    def at(i: im.Index) -> im.Index:
        """Where step `i` of the order of joining lies."""
        return im.add(base, im.mul(im.sub(im.sub(length, 1), i) if reverse else i, columns))

    with b.loop(0, im.minimum(length, 1)) as i, b.loop(0, columns) as column:
        first = start if exclusive else source.load_flat(im.add(at(i), column))
        out.store_flat(first, im.add(at(i), column))
    with b.loop(1, length) as i:
        previous, new = at(im.sub(i, 1)), at(i)
        with b.loop(0, columns) as column:
            x = source.load_flat(im.add(previous if exclusive else new, column))
            out.store_flat(join(out.load_flat(im.add(previous, column)), x), im.add(new, column))
