"""graph -> graph: equal computations are done once.

Before:  %0 = "onnx.Relu"(%x)      %1 = "onnx.Relu"(%x)      %2 = "onnx.Add"(%0, %1)
After:   %0 = "onnx.Relu"(%x)      %2 = "onnx.Add"(%0, %0)
Keeps:   order, types; the location of the first. Random draws, ops with regions and ops of different types stay apart.
Leaves:  no two ops with the same name, operands, attributes and result types, one of which dominates the other.
"""

from __future__ import annotations

from mlir import ir

from onnxc.dialects.levels import GRAPH
from onnxc.passes.contract import Program, transforms
from onnxc.passes.effects import may_merge
from onnxc.passes.rewriting import functions

# name, operands, attributes, result types
Key = tuple[str, tuple[ir.Value | ir.Type, ...], tuple[tuple[str, ir.Attribute], ...], tuple[ir.Type, ...]]


@transforms(GRAPH, GRAPH)
def merge_equal(program: Program) -> None:
    for function in functions(program.module):
        _merge(function.regions[0].blocks[0], {})


def _merge(block: ir.Block, known: dict[Key, ir.Operation]) -> None:
    """`known`: the ops that dominate the block. Those of a nested block are forgotten when it ends."""
    added: list[Key] = []
    for view in list(block.operations):
        op = view.operation
        if len(op.regions):
            for region in op.regions:
                for inner in region.blocks:
                    _merge(inner, known)
            continue
        if not may_merge(op):
            continue
        key = _key(op)
        first = known.get(key)
        if first is None:
            known[key] = op
            added.append(key)
            continue
        for old, new in zip(op.results, first.results, strict=True):
            old.replace_all_uses_with(new)
        op.erase()
    for key in added:
        del known[key]


def _key(op: ir.Operation) -> Key:
    """What makes the result. Of a Shape or Size that is the operand's type: equal dims are equal sizes."""
    attributes = op.attributes
    ranked = op.name in ("onnx.Shape", "onnx.Size") and isinstance(op.operands[0].type, ir.RankedTensorType)
    return (
        op.name,
        (op.operands[0].type,) if ranked else tuple(op.operands),
        tuple((name, attributes[name]) for name in attributes),
        tuple(result.type for result in op.results),
    )
