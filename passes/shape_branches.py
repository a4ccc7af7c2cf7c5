"""This file infers shapes through If.

An If whose condition is decided is replaced by its branch, and so is one of whose branches only one has legal shapes:
which one runs is then checked. Of others the branches' types are joined (shape_joining.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mlir import ir

from onnxc.dialects.errors import OnnxcError
from onnxc.dialects.shapes.requirements import Requirement
from onnxc.passes.shape_binding import demand
from onnxc.passes.shape_joining import Types, forget, inner_symbols, join, require_one, set_results, yielded

if TYPE_CHECKING:
    from onnxc.passes.infer_shapes import Inference

_DEEPEST = 3  # branches tried inside tried branches


def visit_if(inference: Inference, op: ir.Operation) -> None:
    """Joins the branches; a decided If becomes the branch that runs."""
    require_one(inference, op, op.operands[0], "the condition's elements")
    condition = _decided(inference, op.operands[0])
    if condition is not None:
        _inline(inference, op, op.regions[0 if condition else 1].blocks[0])
        return
    yields, failures = [], []
    for region in op.regions:
        errors = len(inference.errors)
        inference.block(region.blocks[0])
        failures.append(inference.errors[errors:])
        yields.append(yielded(region.blocks[0]))
    if not inference.trials and bool(failures[0]) != bool(failures[1]):
        _take_legal(inference, op, failures)
        return
    inner = inner_symbols(op)
    pairs = [[inference.type_of(value) for value in pair] for pair in zip(*yields, strict=True)]
    if any(a is not None and b is not None and None not in (a.rank, b.rank) and a.rank != b.rank for a, b in pairs):
        legal = [choice for choice in (0, 1) if _is_legal(inference, op, choice)]
        if len(legal) == 1:
            _inline(inference, op, op.regions[legal[0]].blocks[0])
            return
    types: Types = []
    for index, (a, b) in enumerate(zip(*yields, strict=True)):
        types.append(join(inference, op, f"{index}", inference.type_of(a), inference.type_of(b), inner))
    set_results(inference, op, types, yields[0])


def _decided(inference: Inference, condition: ir.Value) -> bool | None:
    values = inference.values_of(condition)
    if values is not None and values[0] in (0, 1):
        return values[0] == 1
    return inference.assumed.get(condition)


def _is_legal(inference: Inference, op: ir.Operation, choice: int) -> bool:
    """Whether what follows has legal shapes if branch `choice` runs: tried on a copy of the whole block.

    Ranks that depend on the branch (a squeeze "if the size is 1") are mostly decided by what uses them.
    """
    if inference.trials == _DEEPEST:
        return True
    inference.trials += 1
    parent, block = op.parent.operation, op.block
    region = next(i for i, r in enumerate(parent.regions) if r.blocks[0] == block)
    place = next(i for i, inner in enumerate(block.operations) if inner.operation == op)
    errors, unknown = len(inference.errors), len(inference.unknown)
    copy = parent.clone(ir.InsertionPoint(parent))
    twin_block = copy.regions[region].blocks[0]
    twin = twin_block.operations[place].operation
    inference.assumed[twin.operands[0]] = choice == 0
    inference.block(twin_block)
    legal = len(inference.errors) == errors
    del inference.errors[errors:], inference.unknown[unknown:]
    forget(inference, copy)
    inference.trials -= 1
    return legal


def _take_legal(inference: Inference, op: ir.Operation, failures: Sequence[Sequence[OnnxcError]]) -> None:
    """Replaces an If by its only branch with legal shapes, and has the run end where the condition asks for the other.

    Sizes that are known may rule a branch out: one that is for another sampling rate, say.
    """
    wrong, error = next((choice, errors[0]) for choice, errors in enumerate(failures) if errors)
    del inference.errors[-len(failures[wrong]) :]
    if any(True for result in op.results for _ in result.uses):
        demand(inference, op.operands[0], "s", op)
        (condition,) = inference.values_of(op.operands[0]) or ()
        what = f"its {('then', 'else')[wrong]} branch cannot run with these shapes: node '{error.node}': {error.why}"
        inference.requirements.write(
            [Requirement("branch", condition, wrong, what)], ir.InsertionPoint(op), op.location
        )
    _inline(inference, op, op.regions[1 - wrong].blocks[0])


def _inline(inference: Inference, op: ir.Operation, block: ir.Block) -> None:
    operations = list(block.operations)
    for inner in operations[:-1]:
        inner.operation.move_before(op)
        inference.visit(inner.operation)
    results = list(operations[-1].operation.operands)
    for result, value in zip(op.results, results, strict=True):
        result.replace_all_uses_with(value)
    forget(inference, op)
