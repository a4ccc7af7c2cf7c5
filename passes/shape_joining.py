"""This file joins what shape inference finds in regions: types of a value that comes from one place or another.

A size that differs between branches, or changes from trip to trip, becomes a fresh symbol: bound by the node where it
is a size of a result, by the block argument where it is one of a carried value.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mlir import ir

from onnxc.dialects import dims
from onnxc.dialects.dims import Dim
from onnxc.dialects.shapes import IllegalShape, UnknownOperandRank, UnknownRank
from onnxc.dialects.shapes.requirements import Requirement
from onnxc.dialects.types import Tensor
from onnxc.passes.shape_binding import bound_symbols

if TYPE_CHECKING:
    from onnxc.passes.infer_shapes import Inference

Types = list["Tensor | None"]  # None: no tensor


def require_one(inference: Inference, op: ir.Operation, value: ir.Value, what: str) -> None:
    """A condition or a trip count is a scalar or has one element; more or none are refused, or checked at run time."""
    tensor = inference.type_of(value)
    if tensor is None or tensor.shape is None:
        return
    requirement = Requirement("==", tensor.numel, 1, what)
    if (holds := requirement.holds()) is False:
        raise IllegalShape(str(requirement))
    if holds is None:
        inference.requirements.write([requirement], ir.InsertionPoint(op), op.location)


def join(
    inference: Inference,
    op: ir.Operation,
    key: str,
    a: Tensor | None,
    b: Tensor | None,
    inner: frozenset[str] = frozenset(),
) -> Tensor | None:
    """The type of a value that is `a` or `b`. Sizes that differ become symbols of `op`,
    and so do sizes that hold symbols of `inner`."""
    if a is None or b is None:
        return a or b
    if a.elem != b.elem:
        raise IllegalShape(f"a value is of {a.elem} in one place and of {b.elem} in another")
    if a.shape is None or b.shape is None or len(a.shape) != len(b.shape):
        return Tensor(a.elem, None)
    shape: list[Dim] = []
    for axis, (x, y) in enumerate(zip(a.shape, b.shape, strict=True)):
        stays = (x is y or x == y) and inner.isdisjoint(dims.symbols(x))
        shape.append(x if stays else inference.symbols.of_result(inference, op, f"{key}.{axis}"))
    return Tensor(a.elem, tuple(shape))


def visible(inference: Inference, op: ir.Operation, key: str, tensor: Tensor, inner: frozenset[str]) -> Tensor:
    """`tensor` with sizes that hold symbols of the body replaced by symbols of the node."""
    joined = join(inference, op, key, tensor, tensor, inner)
    return tensor if joined is None else joined


def inner_symbols(op: ir.Operation) -> frozenset[str]:
    """The symbols that are bound inside `op`, its carried values included."""
    found: set[str] = set()

    def visit(inner: ir.Operation) -> ir.WalkResult:
        found.update(bound_symbols(inner))
        return ir.WalkResult.ADVANCE

    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                inner.operation.walk(visit)
    found.update(bound_symbols(op, "carried"))
    return frozenset(found)


def yielded(block: ir.Block) -> list[ir.Value]:
    return list(block.operations[len(block.operations) - 1].operation.operands)


def set_results(inference: Inference, op: ir.Operation, types: Types, values: Sequence[ir.Value]) -> None:
    for index, (result, tensor) in enumerate(zip(op.results, types, strict=True)):
        if tensor is not None:
            type_ = tensor.type(inference.context)
        elif index < len(values):
            type_ = values[index].type
        else:
            continue
        if result.type != type_:
            result.set_type(type_)
    unranked = [index for index, tensor in enumerate(types) if tensor is not None and tensor.shape is None]
    if unranked and inference.unknown:
        raise UnknownOperandRank("a rank inside is not known")  # its cause is noted already
    if unranked:
        raise UnknownRank(f"result {unranked[0]} has another rank in each branch or trip")


def forget(inference: Inference, top: ir.Operation) -> None:
    """Erases an operation, and what was noted of its values: their addresses may be used again."""

    def visit(op: ir.Operation) -> ir.WalkResult:
        for result in op.results:
            inference.forget(result)
        for region in op.regions:
            for block in region.blocks:
                for argument in block.arguments:
                    inference.forget(argument)
        return ir.WalkResult.ADVANCE

    top.walk(visit)
    top.erase()
