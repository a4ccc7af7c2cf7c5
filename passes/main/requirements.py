"""What sizes must satisfy at run time: each kernel.require becomes a comparison that ends the run with its message."""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith

from onnxc.dialects.onnx import node_name
from onnxc.passes.dim_names import PlainDims
from onnxc.passes.kernels import index_math as im
from onnxc.passes.main.machine import Machine
from onnxc.passes.shape_requirements import NAME, read


def emit_known_requirements(m: Machine, main: ir.Operation, names: PlainDims) -> None:
    """The requirements of the model's inputs alone, where their dims are bound."""
    for view in main.regions[0].blocks[0].operations:
        op = view.operation
        if op.name == NAME:
            requirement = read(op)
            if m.is_bound(requirement.a) and m.is_bound(requirement.b):
                emit_requirement(m, op, names)


def emit_requirement(m: Machine, op: ir.Operation, names: PlainDims) -> None:
    """Code that ends the run unless what `op` requires holds; the message is about sizes as the model names them."""
    requirement = read(op)
    a, b = m.dim(requirement.a), m.dim(requirement.b)
    with m.at():
        if requirement.kind == "broadcasts":
            cases = [im.compare(a, "==", b), im.compare(a, "==", 1), im.compare(b, "==", 1)]
            unknown = [case for case in cases if not isinstance(case, bool)]
            holds = True if True in cases else arith.ori(arith.ori(unknown[0], unknown[1]), unknown[-1])
        else:
            holds = im.compare(a, {"size": ">=", "branch": "=="}.get(requirement.kind, requirement.kind), b)
    m.require(holds, f"node '{node_name(op.location)}': {names.plain(str(requirement))}")
