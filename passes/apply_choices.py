"""graph -> graph: convolutions get the algorithm that was found to be the best for them.

Before:  %0 = "kernel.conv"(%x, %w, %b) {pads = …}
After:   %0 = "kernel.conv"(%x, %w, %b) {pads = …, algorithm = "winograd4"}
The choice comes from `options.choices`, by the convolution's signature (signatures.py); the passes after this one obey.
Where there is none, or one that cannot do this convolution, their heuristics decide. Keeps: everything else.
"""

from __future__ import annotations

from mlir import ir

from onnxc.dialects.levels import GRAPH
from onnxc.dialects.onnx import OnnxOp
from onnxc.passes.choices import Choices
from onnxc.passes.contract import Program, transforms
from onnxc.passes.conv_algorithms import ATTRIBUTE, applicable_algorithms
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
            if op.name == "kernel.conv" and ATTRIBUTE not in op.attributes:
                name = _algorithm(program, choices, OnnxOp(op))
                if name is not None:
                    op.attributes[ATTRIBUTE] = ir.StringAttr.get(name)


def _algorithm(program: Program, choices: Choices, op: OnnxOp) -> str | None:
    """What tuning has found for the convolution, if it is possible."""
    signature = conv_signature(op)
    name = choices.algorithm(signature)
    if name is None:
        return None
    target, strict = program.options.target, bool(getattr(program.options, "strict", False))
    if name in applicable_algorithms(op, target, strict):
        return name
    if name in applicable_algorithms(op, target, strict=False):
        program.log.append(("apply_choices", f"{op.node}: {name} gives other bits, so it is not used with --strict"))
        return None
    can = ", ".join(applicable_algorithms(op, target, strict))
    why = f"the algorithm '{name}' cannot do this convolution, only {can}"
    program.warnings.append(f"{choices.origin(signature)}: {why}: the heuristic chooses for {signature}")
    return None
