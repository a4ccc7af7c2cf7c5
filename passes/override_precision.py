"""graph -> graph: nodes compute in the precision that the user asks for.

Before:  %y = "onnx.Softmax"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
After:   %0 = "onnx.Cast"(%x) {to = 11}      %1 = "onnx.Softmax"(%0) : (tensor<4x8xf64>) -> …
         %y = "onnx.Cast"(%1) {to = 1}
f64: what is narrower is widened; f32 and highest: halves are. What goes from one such node to another stays wide, and
is rounded once, where others read it. Runs before any other pass changes nodes, so it also warns of patterns that no
node has. Refuses a pattern none of whose nodes can do what it asks for. What else highest means: overrides.py.
Keeps:   types of all other values, locations.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlir import ir

from onnxc.dialects.errors import OnnxcError
from onnxc.dialects.levels import GRAPH
from onnxc.dialects.onnx import OnnxOp, is_onnx
from onnxc.dialects.types import Tensor
from onnxc.passes.contract import Program, transforms
from onnxc.passes.graph_builder import GraphBuilder
from onnxc.passes.overrides import asked, overrides, warn_of_strangers
from onnxc.passes.rewriting import functions, operations, retyped

#: precision → what is narrower, and how schemas name it
NARROWER = {"f64": ("f32", "f16", "bf16"), "f32": ("f16", "bf16")}
_NO_NODES = ("onnx.Constant", "onnx.None")
NAMES = {"f64": "tensor(double)", "f32": "tensor(float)"}


@transforms(GRAPH, GRAPH)
def override_precision(program: Program) -> None:
    """See the file's docstring."""
    if not overrides(program):
        return
    bodies = [function.regions[0].blocks[0] for function in functions(program.module)]
    nodes = [OnnxOp(op) for body in bodies for op in operations(body) if is_onnx(op) and op.name not in _NO_NODES]
    warn_of_strangers(program, (op.node for op in nodes))
    done: set[str] = set()
    others: dict[str, OnnxcError] = {}  # what cannot be done, by the pattern's place
    widening = _Widening(GraphBuilder(program.weights))
    for op in nodes:
        override = asked(program, op.node, "precision")
        if override is None:
            continue
        elem = "f64" if override.precision == "f64" else "f32"
        if (why := _refusal(op, elem)) is not None:
            message = f"the precision {override.precision} is not possible"
            others.setdefault(override.origin, override.refuse(message, node=op.node, op=op.name, why=why))
            continue
        done.add(override.origin)
        if _widened(op, elem):
            widening.apply(op, elem)
    for origin, error in others.items():
        if origin not in done:
            raise error


class _Widening:
    """Widens ops, and knows what it has widened: those that follow need not go through the rounded value."""

    def __init__(self, g: GraphBuilder) -> None:
        self.g = g
        self.wide: dict[ir.Value, ir.Value] = {}  # rounded → as it was computed

    def apply(self, op: OnnxOp, elem: str) -> None:
        """The op in `elem`: every operand and result of a type variable that has a result to be widened."""
        variables = _widened(op, elem)
        self.g.at(op.op)
        operands = [
            self._in(v, elem) if _is_narrow(v, elem) and _variable(op.signature.inputs, i) in variables else v
            for i, v in enumerate(op.op.operands)
        ]
        wide = [_is_narrow(r, elem) and _variable(op.signature.outputs, i) in variables
                for i, r in enumerate(op.op.results)]  # fmt: skip
        types = [
            Tensor.of(r.type).of_elem(elem).type() if w else r.type for r, w in zip(op.op.results, wide, strict=True)
        ]
        made = retyped(op.op, operands, types)
        for old, new, w in zip(op.op.results, made.results, wide, strict=True):
            rounded = self.g.cast(new, Tensor.of(old.type).elem) if w else new
            if w:
                self.wide[rounded] = new
            old.replace_all_uses_with(rounded)
        op.op.erase()

    def _in(self, v: ir.Value, elem: str) -> ir.Value:
        known = self.wide.get(v, v)
        return known if Tensor.of(known.type).elem == elem else self.g.cast(known, elem)


def _refusal(op: OnnxOp, elem: str) -> str | None:
    """Why the op cannot compute in `elem`; None if it can, or does so already."""
    floats = [Tensor.of(r.type).elem for r in op.op.results if not isinstance(r.type, ir.NoneType)]
    floats = [e for e in floats if e in ("f64", *NARROWER["f64"])]
    if not floats:
        return "it has no results of floating point"
    if elem == "f32" and "f64" in floats:
        return "it computes in f64, and nothing is made less exact"
    if elem in floats or _widened(op, elem):
        return None
    if not _results(op, elem, among_inputs=False):
        return f"its operator has no {elem}"
    return (
        "it converts or makes tensors of a type of its own" if not len(op.op.regions) else "it has a graph of its own"
    )


def _widened(op: OnnxOp, elem: str) -> set[str]:
    """The type variables of results that are to be widened, which follow those of operands."""
    return set() if len(op.op.regions) else _results(op, elem, among_inputs=True)


def _results(op: OnnxOp, elem: str, *, among_inputs: bool) -> set[str]:
    given = {_variable(op.signature.inputs, i) for i, v in enumerate(op.op.operands) if _is_narrow(v, elem)}
    found = {_variable(op.signature.outputs, i) for i, r in enumerate(op.op.results) if _is_narrow(r, elem)}
    able = {name for name in found if NAMES[elem] in op.signature.type_variables.get(name, ())}
    return able & given if among_inputs else able


def _variable(formals: Sequence[Any], index: int) -> str:
    """The type variable of the formal operand or result of that number; the last one may stand for many."""
    return formals[min(index, len(formals) - 1)].type


def _is_narrow(v: ir.Value, elem: str) -> bool:
    return not isinstance(v.type, ir.NoneType) and Tensor.of(v.type).elem in NARROWER[elem]
