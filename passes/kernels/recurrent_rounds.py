"""How the units of a recurrent kernel are numbered: in rounds of independent units, which follow one another.

A unit is a piece of one step: a few blocks of hidden units of a few items of the batch. The units of a step are a
round (Launch.round). A direction begins with a round that fills the states and ends with one that copies the last h;
GRU's steps have two rounds: its last product needs r of all units.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from onnxc.dialects.dims import Dim
from onnxc.dialects.types import Tensor
from onnxc.passes.kernels.gates import ROUNDS
from onnxc.passes.kernels.kernel_function import KernelFunction


@dataclass(frozen=True)
class Rounds:
    """Units are [directions][rounds][pieces][items]; the first `whole` pieces have `group` blocks, the others one."""

    blocks: int
    group: int
    whole: int
    pieces: int
    phases: int  # of a step
    steps: Dim
    batch: Dim
    rows: int  # items of the batch a unit

    @property
    def groups(self) -> Dim:
        """Groups of items in the batch; the last may be smaller."""
        return self.batch if self.rows == 1 else (self.batch + (self.rows - 1)) // self.rows

    @property
    def count(self) -> Dim:
        """Rounds of a direction."""
        return self.steps * self.phases + 2

    @classmethod
    def of(cls, kernel: KernelFunction) -> Rounds:
        attributes = kernel.root.op.attributes
        hidden, lanes = (ir.IntegerAttr(attributes[name]).value for name in ("hidden", "block"))
        steps, batch = Tensor.of(kernel.root.operands[0].type).dims[:2]
        blocks = -(-hidden // lanes)
        group = min(kernel.schedule["group"], blocks)
        whole = hidden // lanes // group
        phases = len(ROUNDS[ir.StringAttr(attributes["cell"]).value])
        pieces = whole + blocks - whole * group
        return cls(blocks, group, whole, pieces, phases, steps, batch, kernel.schedule["rows"])
