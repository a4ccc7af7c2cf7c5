"""graph -> graph: convolutions get the algorithm that was found to be the best for them.

Before:  %0 = "kernel.conv"(%x, %w, %b) {pads = …}
After:   %0 = "kernel.conv"(%x, %w, %b) {pads = …, algorithm = "winograd4"}
The choice comes from `options.choices`, by the convolution's signature (signatures.py); the passes after this one obey it
where the algorithm can do this convolution. Without a choice their heuristics decide. Keeps: everything else.
"""

from __future__ import annotations

from mlir import ir

from onnxc.dialects.levels import GRAPH
from onnxc.dialects.onnx import OnnxOp
from onnxc.passes.contract import Program, transforms
from onnxc.passes.rewriting import functions, operations
from onnxc.passes.signatures import conv_signature


@transforms(GRAPH, GRAPH)
def apply_choices(program: Program) -> None:
    """See the file's docstring."""
    choices = getattr(program.options, "choices", None)
    if choices is None:
        return
    for function in functions(program.module):
        for op in operations(function.regions[0].blocks[0]):
            if op.name == "kernel.conv" and "algorithm" not in op.attributes:
                algorithm = choices.algorithm(conv_signature(OnnxOp(op)))
                if algorithm is not None:
                    op.attributes["algorithm"] = ir.StringAttr.get(algorithm)
