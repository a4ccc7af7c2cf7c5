"""A binary heap in memory, for kernels that take elements in order: the root is the one that is taken first."""

from __future__ import annotations

from collections.abc import Callable

from mlir import ir
from mlir.dialects import arith, math

from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels.builder import KernelBuilder

Entry = tuple[ir.Value, ...]


class Heap:
    """Entries at places 0 … of a list that `get` and `put` know; no entry comes `before` the one above it.

    `most` bounds the number of entries, which each call tells as `size`.
    """

    def __init__(
        self,
        b: KernelBuilder,
        most: im.Index,
        get: Callable[[im.Index], Entry],
        put: Callable[[im.Index, Entry], None],
        before: Callable[[Entry, Entry], ir.Value],
    ):
        self.b, self.get, self.put, self.before = b, get, put, before
        self.levels = self._levels(most)

    def build(self, size: im.Index) -> None:
        """Makes a heap of any list."""
        half = im.floordiv(size, 2)
        with self.b.loop(0, half) as i:
            self.sink(im.sub(im.sub(half, 1), i), size)

    def pop(self, size: im.Index) -> None:
        """Moves the root behind the other size - 1 entries, which are a heap again; size is at least 1."""
        last = im.sub(size, 1)
        root, other = self.get(0), self.get(last)
        self.put(last, root)
        self.put(0, other)
        self.sink(0, last)

    def sink(self, start: im.Index, size: im.Index) -> None:
        """Moves the entry at `start` down until none below comes before it."""
        b, index = self.b, ir.IndexType.get()

        def level(_: ir.Value, at: ir.Value) -> list[ir.Value]:
            left = im.add(im.mul(at, 2), 1)
            return [b.choose(im.compare(left, "<", size), index, lambda: self._swapped(at, left, size), lambda: at)]

        b.reduce(0, self.levels, 1, [im.value(start)], level)

    def _swapped(self, at: ir.Value, left: im.Index, size: im.Index) -> ir.Value:
        """Swaps with the first of the two below if that comes before; where the entry is then."""
        right = im.add(left, 1)
        other = im.select(im.compare(right, "<", size), right, left)
        below = im.select(self.before(self.get(other), self.get(left)), other, left)
        mine, theirs = self.get(at), self.get(below)
        sinks = self.before(theirs, mine)
        with self.b.when(sinks):
            self.put(at, theirs)
            self.put(below, mine)
        return im.value(im.select(sinks, below, im.value(size)))  # from `size` nothing is below

    def _levels(self, most: im.Index) -> im.Index:
        if isinstance(most, int):
            return most.bit_length()
        zeros = math.ctlz(arith.index_cast(ir.IntegerType.get_signless(64), most))
        return im.sub(64, arith.index_cast(ir.IndexType.get(), zeros))
