"""graph -> graph: ops that do nothing, or do it the long way round, become shorter.

Before:  %0 = "onnx.Unsqueeze"(%x) {operand_values = {"1" = [0]}}
         %1 = "onnx.Flatten"(%0) {axis = 2}
         %2 = "onnx.Mul"(%1, %one)
After:   %1 = "onnx.Reshape"(%x, %none) {allowzero = 1, operand_values = {"1" = […]}}
Keeps:   every value bit for bit (NaN and the sign of zero too), types up to equal dims, locations.
Leaves:  no Identity, Flatten, Squeeze, Unsqueeze (of known shape), CastLike, inference-time Dropout: a change of shape
         alone is always an `onnx.Reshape` whose dims are recorded as operand values.
"""

from __future__ import annotations

from onnxc.dialects.levels import GRAPH
from onnxc.passes.contract import Program, transforms
from onnxc.passes.rewriting import rewrite
from onnxc.passes.simplifications.registry import RULES


@transforms(GRAPH, GRAPH)
def simplify(program: Program) -> None:
    rewrite(program, RULES)
