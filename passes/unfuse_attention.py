"""graph -> graph: attention falls into its steps, with the scores in memory, where that was found to be faster.

Before:  %y = "kernel.attention"(%q, %k, %v, %mask) {scale, heads, kv_heads, algorithm = "unfused"}
After:   %0 = "onnx.microsoft.FusedMatMul"(%q, "onnx.Transpose"(%k)) {alpha = scale}      %1 = "onnx.Add"(%0, %mask)
         %2 = "onnx.Softmax"(%1)      %y = "onnx.MatMul"(%2, %v)
with heads split off before, and joined again behind, where operands have them side by side. Queries of heads that share
keys are rows of one product. apply_choices.py sets `algorithm`; without it attention stays one kernel, whose bits are
others: it divides by the sum of powers in the end, and takes many keys in blocks.
`notes["unfused"]`: the nodes.      Keeps: values up to rounding, types, locations.
Leaves:  no attention that names an algorithm.
"""

from __future__ import annotations

from mlir import ir

from onnxc.dialects.levels import GRAPH
from onnxc.dialects.onnx import OnnxOp
from onnxc.dialects.types import Tensor
from onnxc.passes.algorithms import ATTRIBUTE, UNFUSED, choosing
from onnxc.passes.contract import Program, transforms
from onnxc.passes.graph_builder import GraphBuilder

HEADS_FIRST = [0, 2, 1, 3]


@transforms(GRAPH, GRAPH)
def unfuse_attention(program: Program) -> None:
    """See the file's docstring."""
    g = GraphBuilder(program.weights)
    for op in choosing(program.module, "kernel.attention"):
        if not op.has_attr(ATTRIBUTE):
            continue
        if op.attr(ATTRIBUTE) == UNFUSED:
            program.notes.setdefault("unfused", set()).add(op.node)
            g.at(op.op)
            op.results[0].replace_all_uses_with(_steps(op, g))
            op.op.erase()
        else:
            del op.op.attributes[ATTRIBUTE]


def _steps(op: OnnxOp, g: GraphBuilder) -> ir.Value:
    """The result by products and softmax."""
    heads, kv_heads = op.attr("heads"), op.attr("kv_heads")
    q, k, v = op.operands[:3]
    q, turned, v = _split(g, q, heads), _split(g, k, kv_heads, turned=True), _split(g, v, kv_heads)
    (batch, _, queries, _), keys = Tensor.of(q.type).dims, Tensor.of(turned.type).dims[-1]
    each = heads // kv_heads

    def by_keys(x: ir.Value) -> ir.Value:
        """Rows of heads that share keys under each other."""
        return x if each == 1 else g.reshape(x, (batch, kv_heads, each * queries, Tensor.of(x.type).dims[-1]))

    def by_heads(x: ir.Value) -> ir.Value:
        return x if each == 1 else g.reshape(x, (batch, heads, queries, Tensor.of(x.type).dims[-1]))

    left = by_keys(q)
    shape = Tensor.of(left.type).of_shape((batch, kv_heads, each * queries, keys))
    scores = by_heads(g.one("microsoft.FusedMatMul", [left, turned], shape, {"alpha": op.attr("scale")}))
    if len(op.operands) > 3 and op.operands[3] is not None:
        scores = g.one("Add", [scores, op.operands[3]], scores.type)
    weights = by_keys(g.one("Softmax", [scores], scores.type, {"axis": -1}))
    shape = shape.of_shape((batch, kv_heads, each * queries, Tensor.of(v.type).dims[-1]))
    out, result = by_heads(g.one("MatMul", [weights, v], shape)), Tensor.of(op.results[0].type)
    return out if result.rank == 4 else g.reshape(g.transpose(out, HEADS_FIRST), result.dims)


def _split(g: GraphBuilder, x: ir.Value, heads: int, *, turned: bool = False) -> ir.Value:
    """[B, H, S, D] of [B, S, H·D]; [B, H, D, S] if `turned`."""
    tensor = Tensor.of(x.type)
    if tensor.rank == 4:
        return g.transpose(x, [0, 1, 3, 2]) if turned else x
    batch, rows, features = tensor.dims
    return g.transpose(g.reshape(x, (batch, rows, heads, features // heads)), [0, 2, 3, 1] if turned else HEADS_FIRST)
