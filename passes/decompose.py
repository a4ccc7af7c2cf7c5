"""graph -> graph: operators that other operators can compute as fast are written out.

Before:  %y = "onnx.InstanceNormalization"(%x, %scale, %bias) {epsilon = 1.0e-5}
After:   %0 = "onnx.Reshape"(%x …)    %1 = "onnx.LayerNormalization"(%0, %one)    %2 = "onnx.Mul"(%1, %scale')    …
Keeps:   values up to rounding, types, locations.       Leaves: no operator of passes/compositions/.
"""

from __future__ import annotations

from onnxc.dialects.levels import GRAPH
from onnxc.passes import compositions  # noqa: F401  (fills the table)
from onnxc.passes.compositions.registry import COMPOSITIONS
from onnxc.passes.contract import Program, transforms
from onnxc.passes.rewriting import rewrite


@transforms(GRAPH, GRAPH)
def decompose(program: Program) -> None:
    """See the file's docstring."""
    rewrite(program, {name: [rule] for name, rule in COMPOSITIONS.items()})
