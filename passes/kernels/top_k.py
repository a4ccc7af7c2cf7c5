"""Kernel kind `top_k`: onnx.TopK along an axis, best first; of equal elements the one with the lower index is better.

The k best so far stand in the result as a heap whose root is the worst of them, so an element costs one comparison
unless it is kept. In the end the worst is moved behind the others again and again, which sorts the row.
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith, math

from onnxc.dialects import dims
from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels import scalars
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.kernel_function import KernelFunction, Launch
from onnxc.passes.kernels.map import GRAIN

Entry = tuple[ir.Value, ir.Value]  # an element and its index (i64)


def _axis(kernel: KernelFunction) -> int:
    return kernel.root.attr("axis", -1) % len(Tensor.of(kernel.root.operands[0].type).dims)


def launch(kernel: KernelFunction) -> Launch:
    shape, axis = Tensor.of(kernel.root.operands[0].type).dims, _axis(kernel)
    length = shape[axis] if isinstance(shape[axis], int) else 64
    return Launch(dims.product(shape[:axis]) * dims.product(shape[axis + 1 :]), max(1, GRAIN // (4 * max(1, length))))


def emit(b: KernelBuilder) -> None:
    axis = _axis(b.kernel)
    source = b.inputs[b.kernel.root.operands[0]]
    step = im.product(source.shape[axis + 1 :])
    with b.loop(b.begin, b.end) as row:
        outer, inner = im.floordiv(row, step), im.mod(row, step)
        heap = _Heap(
            b, im.add(im.mul(outer, im.mul(b.outputs[0].shape[axis], step)), inner), step, b.outputs[0].shape[axis]
        )
        start = im.add(im.mul(outer, im.mul(source.shape[axis], step)), inner)

        def entry(i: ir.Value, start=start) -> Entry:
            return source.load_flat(im.add(start, im.mul(i, step))), arith.index_cast(
                ir.IntegerType.get_signless(64), i
            )

        _fill(b, heap, entry, source.shape[axis])
        _sort(b, heap)


def _fill(b: KernelBuilder, heap: _Heap, entry, length: im.Index) -> None:
    with b.loop(0, heap.size) as i:
        heap.put(i, entry(i))
    half = im.floordiv(heap.size, 2)
    with b.loop(0, half) as i:
        heap.sink(im.sub(im.sub(half, 1), i), heap.size)
    with b.when(im.compare(heap.size, ">", 0)), b.loop(heap.size, length) as i:
        new = entry(i)
        with b.when(heap.better(new, heap.get(0))):
            heap.put(0, new)
            heap.sink(0, heap.size)


def _sort(b: KernelBuilder, heap: _Heap) -> None:
    with b.loop(1, heap.size) as i:
        last = im.sub(heap.size, i)
        worst, other = heap.get(0), heap.get(last)
        heap.put(last, worst)
        heap.put(0, other)
        heap.sink(0, last)


class _Heap:
    """One row of the two results as a binary heap: no entry is better than those below it."""

    def __init__(self, b: KernelBuilder, base: im.Index, step: im.Index, size: im.Index):
        self.b, self.base, self.step, self.size = b, base, step, size
        self.values, self.indices = b.outputs
        self.order = ">" if b.kernel.root.attr("largest", 1) else "<"

    def get(self, i: im.Index) -> Entry:
        at = im.add(self.base, im.mul(i, self.step))
        return self.values.load_flat(at), self.indices.load_flat(at)

    def put(self, i: im.Index, entry: Entry) -> None:
        at = im.add(self.base, im.mul(i, self.step))
        self.values.store_flat(entry[0], at)
        self.indices.store_flat(entry[1], at)

    def better(self, a: Entry, c: Entry) -> ir.Value:
        unsigned = scalars.is_unsigned(self.values.elem)
        first = arith.andi(scalars.compare(a[0], "==", c[0]), scalars.compare(a[1], "<", c[1]))
        return arith.ori(scalars.compare(a[0], self.order, c[0], unsigned), first)

    def sink(self, start: im.Index, size: im.Index) -> None:
        """Moves the entry at `start` down until it is no better than what is below it."""
        b, index = self.b, ir.IndexType.get()

        def level(_: ir.Value, at: ir.Value) -> list[ir.Value]:
            left = im.add(im.mul(at, 2), 1)
            return [b.choose(im.compare(left, "<", size), index, lambda: self._swapped(at, left, size), lambda: at)]

        b.reduce(0, self._levels(), 1, [im.value(start)], level)

    def _swapped(self, at: ir.Value, left: im.Index, size: im.Index) -> ir.Value:
        """Swaps with the worse of the two below if that is worse; where the entry is then."""
        right = im.add(left, 1)
        two = im.compare(right, "<", size)
        other = im.select(two, right, left)
        below = im.select(self.better(self.get(left), self.get(other)), other, left)
        mine, theirs = self.get(at), self.get(below)
        sinks = self.better(mine, theirs)
        with self.b.when(sinks):
            self.put(at, theirs)
            self.put(below, mine)
        return im.value(im.select(sinks, below, im.value(size)))  # from `size` nothing is below

    def _levels(self) -> im.Index:
        if isinstance(self.size, int):
            return self.size.bit_length()
        i64 = ir.IntegerType.get_signless(64)
        zeros = math.ctlz(arith.index_cast(i64, self.size))
        return im.sub(64, arith.index_cast(ir.IndexType.get(), zeros))
