"""graph -> graph: operators that an exporter spelt out are one op again.

Before:  %1 = "onnx.Div"(%x, %root2)   %2 = "onnx.Erf"(%1)   %3 = "onnx.Add"(%2, %one)
         %4 = "onnx.Mul"(%x, %3)       %5 = "onnx.Mul"(%4, %half)
After:   %5 = "onnx.Gelu"(%x)
Also:    Gelu by tanh, Swish, HardSwish, HardSigmoid, Mish, Sigmoid, Softplus; LayerNormalization, RMSNormalization,
         Softmax.
Keeps:   values up to rounding; parts of a pattern that something else reads too.
"""

from __future__ import annotations

from onnxc.dialects.levels import GRAPH
from onnxc.passes import patterns  # noqa: F401  (fills the table)
from onnxc.passes.contract import Program, transforms
from onnxc.passes.patterns.registry import PATTERNS
from onnxc.passes.rewriting import rewrite


@transforms(GRAPH, GRAPH)
def recognise(program: Program) -> None:
    rewrite(program, PATTERNS)
