"""graph -> graph: convolutions and attention get the algorithm that the user asks for, or that was found to be best.

Before:  %0 = "kernel.conv"(%x, %w, %b) {pads = …}
After:   %0 = "kernel.conv"(%x, %w, %b) {pads = …, algorithm = "winograd4"}
What tuning has found (`options.choices`) goes by the operator's signature (signatures.py), what the user asks for
(`options.overrides`) by the node's name; the passes after this one obey. Where there is neither, or tuning's cannot do
this operator (algorithms.py), their heuristics decide. Refuses what a user asks for and a node cannot do.
`notes["algorithms"]`: node → record or override. Keeps: everything else.
"""

from __future__ import annotations

from mlir import ir

from onnxc.dialects.errors import OnnxcError
from onnxc.dialects.levels import GRAPH
from onnxc.dialects.onnx import OnnxOp
from onnxc.passes.algorithms import ATTRIBUTE, CHOICES, DIRECT, DIRECT_ONLY, applicable
from onnxc.passes.choices import Choices
from onnxc.passes.contract import Program, transforms
from onnxc.passes.fusion_rules import short
from onnxc.passes.overrides import Override, asked, overrides
from onnxc.passes.rewriting import functions, operations
from onnxc.passes.signatures import operator_signature


@transforms(GRAPH, GRAPH)
def apply_choices(program: Program) -> None:
    """See the file's docstring."""
    choices = program.options.choices
    if choices is None and not overrides(program):
        return
    sources = program.notes.setdefault("algorithms", {})
    others: dict[str, tuple[Override, OnnxOp]] = {}  # what was asked of nodes that have no such choice
    done: set[str] = set()
    for function in functions(program.module):
        for op in map(OnnxOp, operations(function.regions[0].blocks[0])):
            override = asked(program, op.node, "algorithm") or asked(program, op.node, "plain")
            if override is not None and override.algorithm == DIRECT and op.op.name in DIRECT_ONLY:
                done.add(override.origin)  # it is one already
                continue
            if op.op.name not in CHOICES or (override is not None and _means_others(override, op)):
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
            raise _refusal(program, override, op)


def _means_others(override: Override, op: OnnxOp) -> bool:
    """Whether what is asked for is the name of another operator's algorithm."""
    kinds = [name for name, choice in CHOICES.items() if override.algorithm in choice.algorithms]
    return bool(kinds) and op.op.name not in kinds


def _asked_for(program: Program, override: Override, op: OnnxOp) -> str | None:
    """What the user wants for the operator."""
    can = applicable(op, program.options.target, override.plain or program.options.strict)
    if override.algorithm is None:
        return can[0] if override.plain else None
    if override.algorithm in can:
        return override.algorithm
    raise _refusal(program, override, op)


def _refusal(program: Program, override: Override, op: OnnxOp) -> OnnxcError:
    if op.op.name in CHOICES:
        can = applicable(op, program.options.target, override.plain or program.options.strict)
        why = f"this {CHOICES[op.op.name].what} can be done by {', '.join(can)}"
    else:
        why = "only convolutions over channels-last tensors and attention that is one kernel have a choice of algorithm"
    return override.refuse(
        f"the algorithm '{override.algorithm}' is not possible", node=op.node, op=short(op.op), why=why
    )


def _algorithm(program: Program, choices: Choices, op: OnnxOp) -> str | None:
    """What tuning has found for the operator, if it is possible."""
    signature = operator_signature(op)
    name = choices.algorithm(signature)
    if name is None:
        nearest = choices.nearest(signature)
        known = "none is of this kind" if nearest is None else f"the nearest is {nearest}"
        program.log.append(("apply_choices", f"node '{op.node}': no record for {signature}; {known}"))
        return None
    target, strict = program.options.target, program.options.strict
    if name in applicable(op, target, strict):
        return name
    if name in applicable(op, target, strict=False):
        program.log.append(("apply_choices", f"{op.node}: {name} gives other bits, so it is not used with --strict"))
        return None
    can = ", ".join(applicable(op, target, strict))
    why = f"the algorithm '{name}' cannot do this {CHOICES[op.op.name].what}, only {can}"
    program.warnings.append(f"{choices.origin(signature, 'algorithm')}: {why}: the heuristic chooses for {signature}")
    return None
