"""This file infers shapes of reductions, scans along an axis, and TopK."""

from __future__ import annotations

from onnxc.dialects.shapes.registry import IllegalShape, ShapeContext, infers
from onnxc.dialects.types import Tensor

REDUCTIONS = ["L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"]


@infers(*(f"Reduce{kind}" for kind in REDUCTIONS))
def reduce(c: ShapeContext) -> list[Tensor]:
    x = c.shape(0)
    axes = reduced_axes(c)
    if c.attr("keepdims", 1):
        return [Tensor(c.elem(0), tuple(1 if axis in axes else dim for axis, dim in enumerate(x)))]
    return [Tensor(c.elem(0), tuple(dim for axis, dim in enumerate(x) if axis not in axes))]


def reduced_axes(c: ShapeContext) -> list[int]:
    """The axes that a reduction is over: operand 1, or all."""
    rank = len(c.shape(0))
    axes = c.axes(c.constants(1, "axes"), rank) if c.has(1) else []
    if not axes and not c.attr("noop_with_empty_axes", 0):
        return list(range(rank))
    return axes


@infers("ArgMax", "ArgMin")
def arg_reduce(c: ShapeContext) -> list[Tensor]:
    x = list(c.shape(0))
    axis = c.axis(c.attr("axis", 0), len(x))
    if x[axis] == 0:
        raise IllegalShape(f"axis {axis} has no elements")
    x[axis : axis + 1] = [1] if c.attr("keepdims", 1) else []
    return [Tensor("i64", tuple(x))]


@infers("CumSum", "CumProd")
def cumulate(c: ShapeContext) -> list[Tensor]:
    """An axis that is computed at run time stays an operand: the shape does not depend on it."""
    if c.known(1) is not None:
        for axis in c.constants(1, "axis"):
            c.axis(axis, len(c.shape(0)))
    return [c.tensor(0)]


@infers("TopK")
def top_k(c: ShapeContext) -> list[Tensor]:
    x = list(c.shape(0))
    axis = c.axis(c.attr("axis", -1), len(x))
    (count,) = c.sizes(1)
    c.require(">=", x[axis], count, f"the size of axis {axis} and k")
    x[axis] = count
    return [Tensor(c.elem(0), tuple(x)), Tensor("i64", tuple(x))]
