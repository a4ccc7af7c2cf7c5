"""This file infers shapes through Loop and Scan.

A body is first inferred on copies, until the types of what it carries are stable: each trip's types are joined with
those before (shape_joining.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from mlir import ir

from onnxc.dialects import dims
from onnxc.dialects.dims import Dim
from onnxc.dialects.onnx import OnnxOp
from onnxc.dialects.shapes import IllegalShape
from onnxc.dialects.types import Tensor
from onnxc.passes.shape_joining import Types, forget, inner_symbols, join, require_one, set_results, visible, yielded

if TYPE_CHECKING:
    from onnxc.passes.infer_shapes import Inference


def visit_loop(inference: Inference, op: ir.Operation) -> None:
    for operand, what in zip(OnnxOp(op).operands, ("trip count's", "condition's"), strict=False):
        if operand is not None:
            require_one(inference, op, operand, f"the {what} elements")
    body = op.regions[0].blocks[0]
    initial: Types = [inference.type_of(operand) for operand in list(op.operands)[2:]]
    body.arguments[0].set_type(Tensor("i64", ()).type(inference.context))
    body.arguments[1].set_type(Tensor("i1", ()).type(inference.context))
    carried = _infer_body(inference, op, initial, first_argument=2, first_yield=1)
    yields = yielded(body)
    trips = _trips(inference, op, yields[0])
    types = _results_of_carried(inference, op, initial, carried)
    inner = inner_symbols(op)
    for index, value in enumerate(yields[1 + len(initial) :], len(initial)):
        slice_ = inference.type_of(value)
        if slice_ is None or slice_.shape is None:
            types.append(slice_)
            continue
        kept = visible(inference, op, f"{index}", slice_, inner)
        types.append(kept.of_shape((trips, *kept.dims)))
    set_results(inference, op, types, [])


def _trips(inference: Inference, op: ir.Operation, goes_on: ir.Value) -> Dim:
    """How often a Loop runs: its operand M where nothing ends it before, else a symbol."""
    view = OnnxOp(op)
    limit = None if view.operands[0] is None else inference.values_of(view.operands[0])
    start = (1,) if view.operands[1] is None else inference.values_of(view.operands[1])
    body = op.regions[0].blocks[0]
    if start == (0,):
        return 0
    always = goes_on == body.arguments[1] or inference.values_of(goes_on) == (1,)
    if start == (1,) and always and limit and isinstance(limit[0], (int, dims.Expr)):
        return dims.max(0, limit[0])
    return inference.symbols.of_result(inference, op, "trips")


def visit_scan(inference: Inference, op: ir.Operation) -> None:
    view = OnnxOp(op)
    body = op.regions[0].blocks[0]
    count = view.attr("num_scan_inputs", 1)
    operands: Types = [inference.type_of(operand) for operand in op.operands]
    states, scanned = operands[: len(operands) - count], operands[len(operands) - count :]
    axes = view.attr("scan_input_axes", None) or [0] * count
    trips: Dim | None = None
    for argument, tensor, axis in zip(list(body.arguments)[len(states) :], scanned, axes, strict=True):
        if tensor is None or tensor.shape is None:
            raise IllegalShape("it scans something that is no tensor of known rank")
        axis = axis + len(tensor.dims) if axis < 0 else axis
        trips = tensor.dims[axis] if trips is None else _same(trips, tensor.dims[axis])
        slice_ = tensor.of_shape(tensor.dims[:axis] + tensor.dims[axis + 1 :])
        argument.set_type(slice_.type(inference.context))
    carried = _infer_body(inference, op, states, first_argument=0, first_yield=0)
    types = _results_of_carried(inference, op, states, carried)
    inner = inner_symbols(op)
    outputs = yielded(body)[len(states) :]
    out_axes = view.attr("scan_output_axes", None) or [0] * len(outputs)
    for index, (value, axis) in enumerate(zip(outputs, out_axes, strict=True), len(states)):
        slice_ = inference.type_of(value)
        if slice_ is None or slice_.shape is None:
            types.append(slice_)
            continue
        shape = list(visible(inference, op, f"{index}", slice_, inner).dims)
        shape.insert(axis + len(shape) + 1 if axis < 0 else axis, 0 if trips is None else trips)
        types.append(slice_.of_shape(shape))
    set_results(inference, op, types, [])


def _same(a: Dim, b: Dim) -> Dim:
    gap = a - b
    if isinstance(gap, int) and gap:
        raise IllegalShape(f"it scans {a} and {b} slices")
    return b if isinstance(b, int) else a


def _infer_body(
    inference: Inference, op: ir.Operation, initial: Types, *, first_argument: int, first_yield: int
) -> Types:
    """Infers the body with types of the carried values that hold for every trip, and gives these types."""
    carried = list(initial)
    while True:
        copy = op.clone(ir.InsertionPoint(op))
        found = _try_body(inference, copy, carried, first_argument, first_yield)
        joined = [
            join(inference, op, f"carried{index}", a, b)
            for index, (a, b) in enumerate(zip(carried, found, strict=True))
        ]
        forget(inference, copy)
        if joined == carried:
            break
        carried = joined
    _run_body(inference, op, carried, first_argument)
    return carried


def _try_body(inference: Inference, copy: ir.Operation, carried: Types, first_argument: int, first_yield: int) -> Types:
    errors, unknown = len(inference.errors), len(inference.unknown)
    _run_body(inference, copy, carried, first_argument)
    del inference.errors[errors:], inference.unknown[unknown:]  # they come back when the body itself is inferred
    yields = yielded(copy.regions[0].blocks[0])[first_yield : first_yield + len(carried)]
    body = copy.regions[0].blocks[0]
    return [
        tensor if value == body.arguments[first_argument + index] else inference.type_of(value)
        for index, (value, tensor) in enumerate(zip(yields, carried, strict=True))
    ]


def _run_body(inference: Inference, op: ir.Operation, carried: Types, first_argument: int) -> None:
    body = op.regions[0].blocks[0]
    for argument, tensor in zip(list(body.arguments)[first_argument:], carried, strict=False):
        if tensor is not None:
            argument.set_type(tensor.type(inference.context))
    if op.name == "onnx.Loop":
        inference.values[body.arguments[1]] = (1,)  # the body only runs while it is true
    inference.block(body)


def _results_of_carried(inference: Inference, op: ir.Operation, initial: Types, carried: Types) -> Types:
    """Result types of the carried values: what changes from trip to trip ends in a size that the node binds."""
    return [join(inference, op, f"{index}", a, b) for index, (a, b) in enumerate(zip(initial, carried, strict=True))]
