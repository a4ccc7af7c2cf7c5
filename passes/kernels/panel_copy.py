"""A panel of a matrix product's B, or a chunk of its terms, that a unit copies to the stack.

The rows of such a panel lie far apart; the copy is one stream that stays in L1 for all row tiles of the unit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlir import ir

from onnxc.passes.kernels import contraction
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels.builder import Buffer, KernelBuilder
from onnxc.passes.kernels.contraction import Arithmetic
from onnxc.passes.kernels.transposition import transposed

Column = Callable[[int, im.Index, ir.Value | None], ir.Value]
Row = Callable[[im.Index], Sequence[ir.Value]]


@dataclass(frozen=True)
class PanelCopy:
    """`room` for terms × `width` elements; terms count from the chunk's first."""

    sums: Arithmetic
    room: Buffer
    width: int

    def keep(self, term: im.Index, vectors: Sequence[ir.Value]) -> None:
        """Stores the panel's part of one row of B."""
        line = im.mul(term, self.width)
        for v, value in enumerate(vectors):
            self.room.store_vector(value, im.add(line, v * self.sums.lanes))

    def fill(self, b: KernelBuilder, first: im.Index, stop: im.Index, row: Row) -> None:
        """Keeps rows `first` to `stop`, the chunk's, of B."""
        with b.loop(first, stop) as k:
            self.keep(im.sub(k, first), row(k))

    def turn(self, b: KernelBuilder, first: im.Index, stop: im.Index, column: Column) -> None:
        """`fill` where B lies turned: squares of as many terms of as many columns as a vector has lanes.

        `column(i, k, mask)`: a vector of the panel's column `i` from row `k` on."""
        lanes = self.sums.lanes

        def square(k: im.Index, mask: ir.Value | None) -> None:
            for v in range(0, self.width, lanes):
                rows = transposed([column(v + i, k, mask) for i in range(lanes)])
                for j, row in enumerate(rows):
                    self.room.store_vector(row, im.add(im.mul(im.add(im.sub(k, first), j), self.width), v))

        left = im.mod(im.sub(stop, first), lanes)
        whole = im.sub(stop, left)
        with b.loop(first, whole, lanes) as k:
            square(k, None)
        if left != 0:
            with b.when(im.compare(left, ">", 0)):
                square(whole, contraction.column_masks(lanes, 1, left, 0, False)[0])

    def read(self, term: im.Index) -> list[ir.Value]:
        line, lanes = im.mul(term, self.width), self.sums.lanes
        return [self.room.load_vector(im.add(line, at), lanes) for at in range(0, self.width, lanes)]
