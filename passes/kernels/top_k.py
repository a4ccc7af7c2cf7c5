"""Kernel kind `top_k`: onnx.TopK along an axis, best first; of equal elements the one with the lower index is better.

The k best so far stand in the result as a heap whose root is the worst of them, so an element costs one comparison
unless it is kept. In the end the worst is moved behind the others again and again, which sorts the row.
"""

from __future__ import annotations

from functools import partial

from mlir import ir
from mlir.dialects import arith

from onnxc.dialects import dims
from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels import scalars
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.heap import Entry, Heap
from onnxc.passes.kernels.kernel_function import ELEMENT, KernelFunction, Launch

I64 = partial(ir.IntegerType.get_signless, 64)


def _axis(kernel: KernelFunction) -> int:
    return kernel.root.attr("axis", -1) % len(Tensor.of(kernel.root.operands[0].type).dims)


def launch(kernel: KernelFunction) -> Launch:
    shape, axis = Tensor.of(kernel.root.operands[0].type).dims, _axis(kernel)
    return Launch(dims.product(shape[:axis]) * dims.product(shape[axis + 1 :]), 8 * ELEMENT * shape[axis])


def emit(b: KernelBuilder) -> None:
    axis = _axis(b.kernel)
    source = b.inputs[b.kernel.root.operands[0]]
    step = im.product(source.shape[axis + 1 :])
    size = b.outputs[0].shape[axis]
    with b.loop(b.begin, b.end) as row:
        outer, inner = im.floordiv(row, step), im.mod(row, step)
        heap = _heap(b, im.add(im.mul(outer, im.mul(size, step)), inner), step, size)
        start = im.add(im.mul(outer, im.mul(source.shape[axis], step)), inner)

        def entry(i: ir.Value, start=start) -> Entry:
            return source.load_flat(im.add(start, im.mul(i, step))), arith.index_cast(I64(), i)

        with b.loop(0, size) as i:
            heap.put(i, entry(i))
        heap.build(size)
        with b.when(im.compare(size, ">", 0)), b.loop(size, source.shape[axis]) as i:
            new = entry(i)
            with b.when(heap.before(heap.get(0), new)):
                heap.put(0, new)
                heap.sink(0, size)
        with b.loop(0, size) as i:
            heap.pop(im.sub(size, i))


def _heap(b: KernelBuilder, base: im.Index, step: im.Index, size: im.Index) -> Heap:
    """One row of the two results; the worst entry is taken first."""
    values, indices = b.outputs
    better, unsigned = ">" if b.kernel.root.attr("largest", 1) else "<", scalars.is_unsigned(values.elem)

    def get(i: im.Index) -> Entry:
        at = im.add(base, im.mul(i, step))
        return values.load_flat(at), indices.load_flat(at)

    def put(i: im.Index, entry: Entry) -> None:
        at = im.add(base, im.mul(i, step))
        values.store_flat(entry[0], at)
        indices.store_flat(entry[1], at)

    def worse(a: Entry, c: Entry) -> ir.Value:
        later = arith.andi(scalars.compare(a[0], "==", c[0]), scalars.compare(a[1], ">", c[1]))
        return arith.ori(scalars.compare(c[0], better, a[0], unsigned), later)

    return Heap(b, size, get, put, worse)
