"""graph -> graph: nodes whose operands or results are of types that their operator does not have are refused.

Before:  %y = "onnx.Sqrt"(%x) : (tensor<4xi32>) -> tensor<4xi32>      a model that ONNX's schemas forbid
After:   Refusals that name every such node, at once.
Runs once all types are known and while the nodes are still the model's own. Operators of com.microsoft are left out:
what stands in their table (dialects/microsoft.py) is no schema of their authors.
Keeps:   everything.
"""

from __future__ import annotations

from onnxc.dialects.errors import OnnxcError, Refusals
from onnxc.dialects.levels import GRAPH
from onnxc.dialects.onnx import OnnxOp, is_onnx
from onnxc.dialects.verifier import TypeNames, type_faults
from onnxc.passes.contract import Program, transforms
from onnxc.passes.rewriting import functions, operations


@transforms(GRAPH, GRAPH)
def check_types(program: Program) -> None:
    """See the file's docstring."""
    names = TypeNames()
    refused: list[OnnxcError] = []
    for function in functions(program.module):
        for op in map(OnnxOp, filter(is_onnx, operations(function.regions[0].blocks[0]))):
            fault = None if op.name.startswith("microsoft.") else next(type_faults(op.op, names), None)
            if fault is not None:
                refused.append(op.refuse("its types are not those of its operator", why=fault))
    if refused:
        raise Refusals(refused)
