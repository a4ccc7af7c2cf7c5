"""graph -> graph: Softmax and LogSoftmax work along the innermost axis.

Before:  %y = "onnx.Softmax"(%x) {axis = 1} : (tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
After:   %t = "onnx.Transpose"(%x) {perm = [0, 2, 1]}    %s = "onnx.Softmax"(%t) {axis = -1}
         %y = "onnx.Transpose"(%s) {perm = [0, 2, 1]}
Keeps:   values.        Leaves: no Softmax along another axis.
"""

from __future__ import annotations

from mlir import ir

from onnxc.dialects.levels import GRAPH
from onnxc.dialects.onnx import OnnxOp, build
from onnxc.dialects.types import Tensor
from onnxc.passes.contract import Program, transforms
from onnxc.passes.rewriting import functions, operations

NAMES = {"onnx.Softmax", "onnx.LogSoftmax", "onnx.Hardmax"}


@transforms(GRAPH, GRAPH)
def innermost_softmax(program: Program) -> None:
    """See the file's docstring."""
    for function in functions(program.module):
        for op in [o for o in operations(function.regions[0].blocks[0]) if o.name in NAMES]:
            _move_axis(OnnxOp(op))


def _move_axis(op: OnnxOp) -> None:
    tensor = Tensor.of(op.results[0].type)
    rank = len(tensor.dims)
    axis = op.attr("axis", -1) % max(rank, 1)
    if rank == 0 or axis == rank - 1:
        return
    perm = list(range(rank))
    perm[axis], perm[-1] = perm[-1], perm[axis]
    moved = tensor.of_shape([tensor.dims[p] for p in perm]).type()
    ip, loc = ir.InsertionPoint(op.op), op.op.location
    inward = build("Transpose", [op.operands[0]], [moved], {"perm": perm}, loc=loc, ip=ip)
    inner = build(op.name, [inward.results[0]], [moved], {"axis": -1}, loc=loc, ip=ip)
    outward = build("Transpose", [inner.results[0]], [op.results[0].type], {"perm": perm}, loc=loc, ip=ip)
    op.results[0].replace_all_uses_with(outward.results[0])
    op.op.erase()
