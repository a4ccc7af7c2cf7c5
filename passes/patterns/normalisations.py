"""Normalisations that exporters spell out: LayerNormalization, RMSNormalization, Softmax."""

from __future__ import annotations

import numpy as np
from mlir import ir

from onnxc.dialects.onnx import OnnxOp
from onnxc.dialects.types import Tensor
from onnxc.passes.kernels.scalars import is_float
from onnxc.passes.patterns.registry import recognises, same_shape, shifted
from onnxc.passes.rewriting import Rewriter


@recognises("Div", "Mul")
def normalisation(op: OnnxOp, rw: Rewriter) -> ir.Value | None:
    """x / √(mean(x²) + ε), and with x - mean(x) for x; the scale is 1 until `scaled` finds one."""
    result = op.results[0]
    for x, other in ((0, 1), (1, 0)) if op.name == "Mul" else ((0, 1),):
        value, root = op.operands[x], op.operands[other]
        if op.name == "Mul":
            inverse = rw.producer(root, "Reciprocal")
            if inverse is None:
                continue
            root = inverse.operands[0]
        found = _root_of_mean_square(root, value, rw)
        if found is not None and same_shape(value, result) and is_float(Tensor.of(value.type).elem):
            return _built(value, *found, rw, result.type)
    return None


def _root_of_mean_square(root: ir.Value, x: ir.Value, rw: Rewriter) -> tuple[int, float] | None:
    """(first axis, ε) where `root` is √(mean of x² over the last axes + ε)."""
    sqrt = rw.producer(root, "Sqrt")
    shift = None if sqrt is None else shifted(sqrt.operands[0], rw)
    mean = None if shift is None else rw.producer(shift[0], "ReduceMean")
    square = None if mean is None else rw.producer(mean.operands[0], "Mul", "Pow")
    if square is None or square.operands[0] != x:
        return None
    if square.operands[1] != x if square.name == "Mul" else rw.scalar(square.operands[1]) != 2:
        return None
    axis = _last_axes(mean)
    return None if axis is None else (axis, shift[1])


def _last_axes(mean: OnnxOp) -> int | None:
    """The first of the axes that a reduction with `keepdims` is over, if they are the last ones."""
    rank, axes = Tensor.of(mean.operands[0].type).rank, mean.values(1)
    if rank is None or not axes or not mean.attr("keepdims", 1) or not all(isinstance(axis, int) for axis in axes):
        return None
    axes = sorted(axis % rank for axis in axes)
    return axes[0] if axes == list(range(axes[0], rank)) else None


def _built(x: ir.Value, axis: int, epsilon: float, rw: Rewriter, type: ir.Type) -> ir.Value | None:
    centred = rw.producer(x, "Sub")
    mean = None if centred is None else rw.producer(centred.operands[1], "ReduceMean")
    tensor = Tensor.of(x.type)
    if not all(isinstance(dim, int) for dim in tensor.dims[axis:]):
        return None  # no constant of ones
    ones = rw.constant_of(np.ones(tensor.dims[axis:]), tensor.elem)
    attrs = {"axis": axis - len(tensor.dims), "epsilon": epsilon}
    if mean is not None and mean.operands[0] == centred.operands[0] and _last_axes(mean) == axis:
        return rw.one("LayerNormalization", [centred.operands[0], ones], type, attrs)
    return rw.one("RMSNormalization", [x, ones], type, attrs)


@recognises("Mul")
def scaled(op: OnnxOp, rw: Rewriter) -> ir.Value | None:
    """The product with a tensor of the normalised axes is the scale of a normalisation that has none."""
    for value, other in (op.operands, op.operands[::-1]):
        inner = _normalised(value, other, rw)
        if inner is None or (len(inner.operands) > 2 and inner.operands[2] is not None):
            continue
        ones = rw.array(inner.operands[1])
        if ones is not None and (ones == 1).all():
            return rw.again(inner, [inner.operands[0], other])
    return None


@recognises("Add")
def biased(op: OnnxOp, rw: Rewriter) -> ir.Value | None:
    """The sum with a tensor of the normalised axes is the bias of a LayerNormalization that has none."""
    for value, other in (op.operands, op.operands[::-1]):
        inner = _normalised(value, other, rw)
        if inner is not None and inner.name == "LayerNormalization" and len(inner.operands) == 2:
            return rw.again(inner, [*inner.operands, other])
    return None


def _normalised(value: ir.Value, other: ir.Value, rw: Rewriter) -> OnnxOp | None:
    """The normalisation that makes `value` for one reader only, if `other` has the shape of its scale."""
    inner = rw.producer(value, "LayerNormalization", "RMSNormalization")
    if inner is None or len(inner.results) > 1 or not rw.single_use(value):
        return None
    axis = inner.attr("axis", -1)
    tensor = Tensor.of(value.type)
    return (
        inner
        if Tensor.of(other.type).shape == tensor.dims[axis:] and Tensor.of(other.type).elem == tensor.elem
        else None
    )


@recognises("Div")
def softmax(op: OnnxOp, rw: Rewriter) -> ir.Value | None:
    """exp(x) / sum(exp(x)), where x may be y - max(y): of y then. Softmax subtracts the maximum itself."""
    exp, total = rw.producer(op.operands[0], "Exp"), rw.producer(op.operands[1], "ReduceSum")
    if exp is None or total is None or total.operands[0] != op.operands[0] or not total.attr("keepdims", 1):
        return None
    axes, x = total.values(1), exp.operands[0]
    if axes is None or len(axes) != 1 or not isinstance(axes[0], int):
        return None
    centred = rw.producer(x, "Sub")
    peak = None if centred is None else rw.producer(centred.operands[1], "ReduceMax")
    if peak is not None and peak.operands[0] == centred.operands[0] and peak.values(1) == axes:
        x = peak.operands[0]
    return rw.one("Softmax", [x], op.results[0].type, {"axis": axes[0]})
