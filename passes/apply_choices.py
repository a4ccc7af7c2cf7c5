"""graph -> graph: convolutions get the algorithm that the user asks for, or that was found to be the best for them.

Before:  %0 = "kernel.conv"(%x, %w, %b) {pads = …}
After:   %0 = "kernel.conv"(%x, %w, %b) {pads = …, algorithm = "winograd4"}
What tuning has found (`options.choices`) goes by the convolution's signature (signatures.py), what the user asks for
(`options.overrides`) by the node's name; the passes after this one obey. Where there is neither, or tuning's cannot do
this convolution, their heuristics decide. Refuses what a user asks for and a node cannot do.
`notes["algorithms"]`: node → record or override. Keeps: everything else.
"""

from __future__ import annotations

from mlir import ir

from onnxc.dialects.levels import GRAPH
from onnxc.dialects.onnx import OnnxOp
from onnxc.passes.choices import Choices
from onnxc.passes.contract import Program, transforms
from onnxc.passes.conv_algorithms import ATTRIBUTE, applicable_algorithms
from onnxc.passes.fusion_rules import short
from onnxc.passes.overrides import Override, asked, overrides
from onnxc.passes.rewriting import functions, operations
from onnxc.passes.signatures import conv_signature


@transforms(GRAPH, GRAPH)
def apply_choices(program: Program) -> None:
    """See the file's docstring."""
    choices = program.options.choices
    if choices is None and not overrides(program):
        return
    sources = program.notes.setdefault("algorithms", {})
    others: dict[str, tuple[Override, OnnxOp]] = {}  # what was asked of nodes that are no convolutions
    done: set[str] = set()
    for function in functions(program.module):
        for op in map(OnnxOp, operations(function.regions[0].blocks[0])):
            override = asked(program, op.node, "algorithm") or asked(program, op.node, "plain")
            if op.op.name != "kernel.conv":
                if override is not None and override.algorithm is not None:
                    others.setdefault(override.origin, (override, op))
                continue
            name, source = None, "override"
            if override is not None:
                done.add(override.origin)
                name = _asked_for(program, override, op)
            elif choices is not None and not op.has_attr(ATTRIBUTE):
                name, source = _algorithm(program, choices, op), "record"
            if name is not None:
                op.op.attributes[ATTRIBUTE] = ir.StringAttr.get(name)
                sources[op.node] = source
    for origin, (override, op) in others.items():
        if origin not in done:
            why = "only convolutions over channels-last tensors have a choice of algorithm"
            raise override.refuse(
                f"the algorithm '{override.algorithm}' is not possible", node=op.node, op=short(op.op), why=why
            )


def _asked_for(program: Program, override: Override, op: OnnxOp) -> str | None:
    """What the user wants for the convolution."""
    strict = override.plain or program.options.strict
    can = applicable_algorithms(op, program.options.target, strict)
    if override.algorithm is None:
        return can[0] if override.plain else None
    if override.algorithm in can:
        return override.algorithm
    why = f"this convolution can be done by {', '.join(can)}"
    raise override.refuse(
        f"the algorithm '{override.algorithm}' is not possible", node=op.node, op=short(op.op), why=why
    )


def _algorithm(program: Program, choices: Choices, op: OnnxOp) -> str | None:
    """What tuning has found for the convolution, if it is possible."""
    signature = conv_signature(op)
    name = choices.algorithm(signature)
    if name is None:
        nearest = choices.nearest(signature)
        known = "none is of this kind" if nearest is None else f"the nearest is {nearest}"
        program.log.append(("apply_choices", f"node '{op.node}': no record for {signature}; {known}"))
        return None
    target, strict = program.options.target, program.options.strict
    if name in applicable_algorithms(op, target, strict):
        return name
    if name in applicable_algorithms(op, target, strict=False):
        program.log.append(("apply_choices", f"{op.node}: {name} gives other bits, so it is not used with --strict"))
        return None
    can = ", ".join(applicable_algorithms(op, target, strict))
    why = f"the algorithm '{name}' cannot do this convolution, only {can}"
    program.warnings.append(f"{choices.origin(signature, 'algorithm')}: {why}: the heuristic chooses for {signature}")
    return None
