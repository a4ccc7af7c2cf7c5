"""This file completes refusals: a pass stops at the trouble it meets, users want to hear of all nodes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from mlir import ir

from onnxc.dialects.onnx import node_name
from onnxc.errors import REFUSED, OnnxcError, Refusals
from onnxc.passes.contract import Program
from onnxc.passes.dim_names import PlainDims
from onnxc.pipeline import has_lowering


@contextmanager
def complete_refusals(program: Program) -> Iterator[None]:
    """Runs passes: a refusal comes out with the model's file and names, and all other nodes that have no lowering."""
    try:
        yield
    except OnnxcError as error:
        if error.exit_code != REFUSED:
            raise error.at(file=program.file) from None
        errors = error.errors if isinstance(error, Refusals) else [error]
        named = {known.node for known in errors}
        with program.context:
            others = [other for other in _without_lowering(program.module) if other.node not in named]
            names = PlainDims(program)
            place = {node: number for number, node in enumerate(_nodes(program.module))}
        errors = sorted([*errors, *others], key=lambda known: place.get(known.node or "", -1))
        for told in errors:
            told.types, told.why = (names.plain(text) if text else text for text in (told.types, told.why))
        raise Refusals(errors).at(file=program.file) from None


def _without_lowering(module: ir.Module) -> list[OnnxcError]:
    """An error for each node left in the module whose operator the compiler knows, but cannot compile."""
    return [
        OnnxcError(f"operator {name} cannot be compiled yet", node=node, op=name)
        for node, dialect, name in _operations(module)
        if dialect == "onnx" and not has_lowering(name)
    ]


def _nodes(module: ir.Module) -> list[str]:
    return [node for node, _, _ in _operations(module)]


def _operations(module: ir.Module) -> list[tuple[str, str, str]]:
    """(ONNX node, dialect, name within it) of each operation, in the model's order."""
    found: list[tuple[str, str, str]] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        dialect, _, name = op.name.partition(".")
        found.append((node_name(op.location), dialect, name))
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found
