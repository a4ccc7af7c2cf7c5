"""A panel of a matrix product's B, or a chunk of its terms, that a unit copies to the stack.

The rows of such a panel lie far apart; the copy is one stream that stays in L1 for all row tiles of the unit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlir import ir

from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels.builder import Buffer, KernelBuilder
from onnxc.passes.kernels.contraction import Arithmetic

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

    def read(self, term: im.Index) -> list[ir.Value]:
        line, lanes = im.mul(term, self.width), self.sums.lanes
        return [self.room.load_vector(im.add(line, at), lanes) for at in range(0, self.width, lanes)]
