"""Kernel kind `local_response`: onnx.LRN, x / (bias + alpha / size · Σ x²)^beta over neighbouring channels (axis 1)."""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith

from onnxc.dialects import dims
from onnxc.dialects.types import Tensor
from onnxc.passes import maths
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels import scalars
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.kernel_function import ELEMENT, KernelFunction, Launch


def launch(kernel: KernelFunction) -> Launch:
    shape = Tensor.of(kernel.root.results[0].type).dims
    return Launch(shape[0] * shape[1], 4 * ELEMENT * dims.product(shape[2:]) * kernel.root.attr("size"))


def emit(b: KernelBuilder) -> None:
    root = b.kernel.root
    x, y = b.inputs[root.operands[0]], b.outputs[0]
    channels, plane = x.shape[1], im.product(x.shape[2:])
    size = root.attr("size")
    type_ = scalars.element_type(x.elem)
    with b.loop(b.begin, b.end) as item:
        channel = im.mod(item, channels)
        base = im.mul(im.floordiv(item, channels), im.mul(channels, plane))
        first = im.maximum(im.sub(channel, (size - 1) // 2), 0)
        last = im.minimum(im.add(channel, size // 2 + 1), channels)
        with b.loop(0, plane) as i:

            def square(c: ir.Value, total: ir.Value, i=i) -> list[ir.Value]:
                v = x.load_flat(im.add(im.add(base, im.mul(c, plane)), i))
                return [arith.addf(total, arith.mulf(v, v))]

            total = b.reduce(first, last, 1, [scalars.constant(0, type_)], square)[0]
            scaled = arith.mulf(scalars.constant(root.attr("alpha") / size, type_), total)
            inner = arith.addf(scalars.constant(root.attr("bias"), type_), scaled)
            power = maths.pow(inner, scalars.constant(root.attr("beta"), type_))
            at = im.add(im.mul(item, plane), i)
            y.store_flat(arith.divf(x.load_flat(at), power), at)
