"""graph -> graph: a Split becomes one Slice per used result.

Before:  %0, %1 = "onnx.Split"(%x) {axis = 1} : … -> (tensor<2x3xf32>, tensor<2x5xf32>)
After:   %0 = "onnx.Slice"(%x, none, none, none, none) {operand_values = {"1" = [0], "2" = [3], "3" = [1], "4" = [1]}}
         %1 = "onnx.Slice"(%x, …) {… "1" = [3], "2" = [8] …}
Keeps:   types, locations.       Leaves: no Split. Slices fuse with what reads them; the pieces are never copied for it.
"""

from __future__ import annotations

from mlir import ir

from onnxc.dialects import dims
from onnxc.dialects.levels import GRAPH
from onnxc.dialects.onnx import OnnxOp, build
from onnxc.dialects.types import Tensor, dims_attribute
from onnxc.passes.contract import Program, transforms
from onnxc.passes.rewriting import functions, operations


@transforms(GRAPH, GRAPH)
def split_to_slices(program: Program) -> None:
    """See the file's docstring."""
    for function in functions(program.module):
        for op in [o for o in operations(function.regions[0].blocks[0]) if o.name == "onnx.Split"]:
            _replace(OnnxOp(op))


def _replace(split: OnnxOp) -> None:
    context = split.op.context
    axis = split.attr("axis", 0) % len(Tensor.of(split.operands[0].type).dims)
    start: dims.Dim = 0
    for result in split.results:
        stop = start + Tensor.of(result.type).dims[axis]
        values = {"1": [start], "2": [stop], "3": [axis], "4": [1]}
        attribute = ir.DictAttr.get({k: dims_attribute(v, context) for k, v in values.items()}, context)
        piece = build(
            "Slice",
            [split.operands[0]],
            [result.type],
            {"operand_values": attribute},
            loc=split.op.location,
            ip=ir.InsertionPoint(split.op),
        )
        result.replace_all_uses_with(piece.results[0])
        start = stop
    split.op.erase()
