"""Kernel kind `cumulative`: CumSum and CumProd along an axis (see passes/compositions/reduction.py for the op).

    %y = "kernel.cumulative"(%x) {axis, exclusive, reverse, product}
Elements are joined in order; behind the axis there are columns, which are independent of each other (and vectorised).
"""

from __future__ import annotations

from mlir import ir

from onnxc.dialects import dims
from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels import scalars
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.kernel_function import KernelFunction, Launch
from onnxc.passes.kernels.map import GRAIN


def _attribute(kernel: KernelFunction, name: str) -> int:
    return ir.IntegerAttr(kernel.root.op.attributes[name]).value


def launch(kernel: KernelFunction) -> Launch:
    shape, axis = Tensor.of(kernel.root.results[0].type).dims, _attribute(kernel, "axis")
    work = dims.product(shape[axis:])
    return Launch(dims.product(shape[:axis]), max(1, GRAIN // (work if isinstance(work, int) and work else 64)))


def emit(b: KernelBuilder) -> None:
    axis, out, source = _attribute(b.kernel, "axis"), b.outputs[0], b.inputs[b.kernel.root.operands[0]]
    reverse, exclusive, product = (bool(_attribute(b.kernel, name)) for name in ("reverse", "exclusive", "product"))
    length, columns = out.shape[axis], im.product(out.shape[axis + 1 :])
    start = scalars.constant(1 if product else 0, scalars.element_type(out.elem))
    join = scalars.mul if product else scalars.add
    with b.loop(b.begin, b.end) as row:
        base = im.mul(row, im.mul(length, columns))

        def at(i: im.Index, base=base) -> im.Index:
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
