"""This file is ONNX's multidirectional broadcasting of symbolic shapes."""

from __future__ import annotations

from collections.abc import Sequence

from onnxc.dialects import dims
from onnxc.dialects.dims import Dim
from onnxc.dialects.shapes.registry import ShapeContext


def broadcast_dims(c: ShapeContext, a: Dim, b: Dim) -> Dim:
    """One dim of a broadcast; refused if both are numbers that differ and neither is 1."""
    if a is b or a == b:
        return a
    c.require("broadcasts", a, b, "sizes of the operands")
    return dims.broadcast(a, b)


def broadcast_shapes(c: ShapeContext, *shapes: Sequence[Dim]) -> tuple[Dim, ...]:
    """The shape that all `shapes` broadcast to, aligned at their last axes."""
    result: list[Dim] = []
    for shape in shapes:
        if len(shape) > len(result):
            result = [1] * (len(shape) - len(result)) + result
        start = len(result) - len(shape)
        for axis, dim in enumerate(shape, start):
            other = result[axis]
            if other is not dim and other != dim:
                result[axis] = broadcast_dims(c, other, dim)
    return tuple(result)
