"""graph -> graph: what sums or compares f16 and bf16, or takes their exponentials, works in f32.

Before:  %y = "onnx.Softmax"(%x) : (tensor<4x8xf16>) -> tensor<4x8xf16>
After:   %0 = "onnx.Cast"(%x) {to = 1}      %1 = "onnx.Softmax"(%0) : (tensor<4x8xf32>) -> …
         %y = "onnx.Cast"(%1) {to = 10}
A Cast in front of a reduction or behind it is computed in its kernel, so memory still holds halves.
Keeps:   types of all other values, locations.       Leaves: none of the operators below on halves.
"""

from __future__ import annotations

from mlir import ir

from onnxc.dialects.levels import GRAPH
from onnxc.dialects.types import Tensor
from onnxc.passes.contract import Program, transforms
from onnxc.passes.graph_builder import GraphBuilder
from onnxc.passes.rewriting import functions, operations

HALVES = ("f16", "bf16")
_NAMES = """
    ArgMax ArgMin AveragePool GRU GlobalAveragePool GlobalMaxPool LRN LSTM LayerNormalization LogSoftmax LpPool MaxPool
    RMSNormalization RNN ReduceL1 ReduceL2 ReduceLogSum ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum
    ReduceSumSquare Softmax TopK
"""
WIDENED = frozenset(f"onnx.{name}" for name in _NAMES.split()) | {"kernel.cumulative"}


@transforms(GRAPH, GRAPH)
def widen_halves(program: Program) -> None:
    """See the file's docstring."""
    for function in functions(program.module):
        for op in [o for o in operations(function.regions[0].blocks[0]) if o.name in WIDENED]:
            if any(_is_half(v) for v in (*op.operands, *op.results)):
                _widen(GraphBuilder(program.weights), op)


def _is_half(v: ir.Value) -> bool:
    return not isinstance(v.type, ir.NoneType) and Tensor.of(v.type).elem in HALVES


def _widen(g: GraphBuilder, op: ir.Operation) -> None:
    g.at(op)
    operands = [g.cast(v, "f32") if _is_half(v) else v for v in op.operands]
    types = [Tensor.of(r.type).of_elem("f32").type() if _is_half(r) else r.type for r in op.results]
    attributes = {name: op.attributes[name] for name in op.attributes}
    made = ir.Operation.create(
        op.name, results=types, operands=operands, attributes=attributes, loc=op.location, ip=ir.InsertionPoint(op)
    )
    for old, new in zip(op.results, made.results, strict=True):
        narrow = g.cast(new, Tensor.of(old.type).elem) if _is_half(old) else new
        old.replace_all_uses_with(narrow)
    op.erase()
