"""graph -> graph: nodes of which the user asks it compute in f64.

Before:  %y = "onnx.Softmax"(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
After:   %0 = "onnx.Cast"(%x) {to = 11}      %1 = "onnx.Softmax"(%0) : (tensor<4x8xf64>) -> …
         %y = "onnx.Cast"(%1) {to = 1}
The results are rounded once, at the end. Runs before any other pass changes nodes, so it also warns of patterns that no
node has. Refuses nodes whose operator does not compute in f64.
Keeps:   types of all other values, locations.
"""

from __future__ import annotations

from mlir import ir

from onnxc.dialects.levels import GRAPH
from onnxc.dialects.onnx import OnnxOp, is_onnx
from onnxc.dialects.types import Tensor
from onnxc.passes.contract import Program, transforms
from onnxc.passes.graph_builder import GraphBuilder
from onnxc.passes.overrides import Override, asked, overrides, warn_of_strangers
from onnxc.passes.rewriting import functions, operations

NARROW = ("f32", "f16", "bf16")
DOUBLE = "tensor(double)"


@transforms(GRAPH, GRAPH)
def override_precision(program: Program) -> None:
    """See the file's docstring."""
    if not overrides(program):
        return
    bodies = [function.regions[0].blocks[0] for function in functions(program.module)]
    nodes = [OnnxOp(op) for body in bodies for op in operations(body) if is_onnx(op) and op.name != "onnx.Constant"]
    warn_of_strangers(program, (op.node for op in nodes))
    for op in nodes:
        override = asked(program, op.node, "precision")
        if override is not None:
            _widen(GraphBuilder(program.weights), op, override)


def _widen(g: GraphBuilder, op: OnnxOp, override: Override) -> None:
    """The op in f64: every operand and result of a type that its schema allows to be f64."""
    formal = [*op.signature.inputs], [*op.signature.outputs]
    operands = [_is_wide(op, formal[0], i) and _is_narrow(v) for i, v in enumerate(op.op.operands)]
    results = [_is_wide(op, formal[1], i) and _is_narrow(v) for i, v in enumerate(op.op.results)]
    if not any(results) or len(op.op.regions):
        raise override.refuse("the precision f64 is not possible", node=op.node, op=op.name, why=_why(op))
    g.at(op.op)
    made = ir.Operation.create(
        op.op.name,
        results=[
            Tensor.of(r.type).of_elem("f64").type() if wide else r.type
            for r, wide in zip(op.op.results, results, strict=True)
        ],
        operands=[g.cast(v, "f64") if wide else v for v, wide in zip(op.op.operands, operands, strict=True)],
        attributes={name: op.op.attributes[name] for name in op.op.attributes},
        loc=op.op.location,
        ip=ir.InsertionPoint(op.op),
    )
    for old, new, wide in zip(op.op.results, made.results, results, strict=True):
        old.replace_all_uses_with(g.cast(new, Tensor.of(old.type).elem) if wide else new)
    op.op.erase()


def _is_wide(op: OnnxOp, formals: list, index: int) -> bool:
    """Whether the formal operand or result of that number may be f64, as the one type variable of its kind."""
    formal = formals[min(index, len(formals) - 1)]
    return DOUBLE in op.signature.type_variables.get(formal.type, ())


def _is_narrow(v: ir.Value) -> bool:
    return not isinstance(v.type, ir.NoneType) and Tensor.of(v.type).elem in NARROW


def _why(op: OnnxOp) -> str:
    return (
        "it has no results of floating point" if not any(map(_is_narrow, op.op.results)) else "its operator has no f64"
    )
