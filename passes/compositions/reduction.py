"""Reductions that are made of simpler ones, cumulative ones, and Hardmax."""

from __future__ import annotations

import numpy as np
from mlir import ir

from onnxc.dialects.onnx import OnnxOp
from onnxc.dialects.types import Tensor
from onnxc.passes.compositions.registry import composes
from onnxc.passes.kernels.scalars import is_float
from onnxc.passes.rewriting import Rewriter


@composes("ReduceL2", "ReduceLogSum")
def root_or_log(op: OnnxOp, g: Rewriter) -> ir.Value | None:
    """Of integers in f64: what is no integer is truncated once. Others are reductions of their own."""
    return None if is_float(Tensor.of(op.operands[0].type).elem) else _in_double(op, g)


def _in_double(op: OnnxOp, g: Rewriter) -> ir.Value:
    result, operands = Tensor.of(op.results[0].type), [g.cast(op.operands[0], "f64"), *op.operands[1:]]
    return g.cast(g.one(op.name, operands, result.of_elem("f64"), g.attributes(op)), result.elem)


@composes("ReduceLogSumExp")
def log_sum_exp(op: OnnxOp, g: Rewriter) -> ir.Value | None:
    """m + log(Σ exp(x − m)) with the maximum m, so that nothing overflows; an infinite maximum is not subtracted."""
    x, result = op.operands[0], Tensor.of(op.results[0].type)
    tensor = Tensor.of(x.type)
    if not is_float(tensor.elem):
        return _in_double(op, g)
    given = op.values(1)
    if given is None and len(op.operands) > 1 and op.operands[1] is not None:
        return None
    axes = [int(a) % len(tensor.dims) for a in given or ()]
    if not axes:
        if op.attr("noop_with_empty_axes", 0):
            return x
        axes = list(range(len(tensor.dims)))
    top = g.reduce("ReduceMax", x, axes)
    kept = Tensor.of(top.type)
    infinite = g.one("IsInf", [top], kept.of_elem("i1"))
    top = g.one("Where", [infinite, g.constant_of(np.zeros(()), tensor.elem), top], kept)
    powers = g.one("Exp", [g.one("Sub", [x, top], tensor)], tensor)
    y = g.one("Add", [top, g.one("Log", [g.reduce("ReduceSum", powers, axes)], kept)], kept)
    return y if kept.dims == result.dims else g.reshape(y, result.dims)


@composes("GlobalLpPool")
def global_lp_pool(op: OnnxOp, g: Rewriter) -> ir.Value:
    """(Σ |x|^p)^(1/p) over the spatial axes."""
    x, p = op.operands[0], op.attr("p", 2)
    tensor = Tensor.of(x.type)
    axes = list(range(2, len(tensor.dims)))
    if p in (1, 2):
        return g.reduce(f"ReduceL{p}", x, axes)
    exponent, root = (g.constant_of(np.array(e), tensor.elem) for e in (p, 1 / p))
    total = g.reduce("ReduceSum", g.one("Pow", [g.one("Abs", [x], tensor), exponent], tensor), axes)
    return g.one("Pow", [total, root], Tensor.of(total.type))


@composes("Hardmax")
def hardmax(op: OnnxOp, g: Rewriter) -> ir.Value:
    """1 at the first maximum along the axis, 0 elsewhere."""
    x, tensor = op.operands[0], Tensor.of(op.operands[0].type)
    rank = len(tensor.dims)
    axis = op.attr("axis", -1) % rank
    first = Tensor("i64", tuple(1 if i == axis else d for i, d in enumerate(tensor.dims)))
    best = g.one("ArgMax", [x], first, {"axis": axis, "keepdims": 1})
    positions = g.reshape(g.iota(tensor.dims[axis]), [tensor.dims[axis], *[1] * (rank - 1 - axis)])
    return g.cast(g.one("Equal", [best, positions], tensor.of_elem("i1")), tensor.elem)


@composes("CumSum", "CumProd")
def cumulative(op: OnnxOp, g: Rewriter) -> ir.Value:
    """The kernel knows its axis, or reads it at run time."""
    axis, tensor = op.values(1), Tensor.of(op.results[0].type)
    attributes = {
        "exclusive": op.attr("exclusive", 0),
        "reverse": op.attr("reverse", 0),
        "product": op.name == "CumProd",
    }
    if axis and isinstance(axis[0], int):
        attributes["axis"] = axis[0] % len(tensor.dims)
        return g.internal("cumulative", [op.operands[0]], tensor, attributes)
    return g.internal("cumulative", list(op.operands[:2]), tensor, attributes)
