"""Quantised operators as arithmetic on i32 and f32, which is fused into few kernels."""

from __future__ import annotations

import numpy as np
from mlir import ir

from onnxc.dialects.onnx import OnnxOp
from onnxc.dialects.types import Tensor
from onnxc.dialects.weights import dtype_of
from onnxc.passes.compositions.registry import composes
from onnxc.passes.rewriting import Rewriter

NARROW = ("i8", "ui8", "i16", "ui16")  # what i32 and f32 hold exactly


def operand(op: OnnxOp, i: int) -> ir.Value | None:
    return op.operands[i] if i < len(op.operands) else None


def along(g: Rewriter, v: ir.Value, axis: int, rank: int) -> ir.Value:
    """A scale or zero point: one for all elements, or one for each position of an axis of a tensor of that rank."""
    tensor = Tensor.of(v.type)
    if tensor.rank != 1 or tensor.dims[0] == 1:
        return g.reshape(v, []) if tensor.rank == 1 else v
    return g.reshape(v, [tensor.dims[0], *[1] * (rank - 1 - axis % rank)])


def shifted(g: Rewriter, x: ir.Value, zero: ir.Value | None) -> ir.Value:
    """x - zero, in i32."""
    wide = Tensor.of(x.type).of_elem("i32")
    x = g.cast(x, "i32")
    return x if zero is None else g.one("Sub", [x, g.cast(zero, "i32")], wide)


def quantised(g: Rewriter, x: ir.Value, scale: ir.Value, zero: ir.Value | None, elem: str) -> ir.Value:
    """x / scale rounded to even, plus zero, within the limits of `elem`."""
    tensor = Tensor.of(x.type)
    y = g.one("Round", [g.one("Div", [x, scale], tensor)], tensor)
    if zero is not None:
        y = g.one("Add", [y, g.cast(zero, tensor.elem)], tensor)
    limits = np.iinfo(dtype_of(elem))
    bounds = [g.constant_of(np.array(v), tensor.elem) for v in (limits.min, limits.max)]
    return g.cast(g.one("Clip", [y, *bounds], tensor), elem)


@composes("QuantizeLinear")
def quantize_linear(op: OnnxOp, g: Rewriter) -> ir.Value | None:
    x, scale, zero = operand(op, 0), operand(op, 1), operand(op, 2)
    rank, elem = Tensor.of(x.type).rank, Tensor.of(op.results[0].type).elem
    if elem not in NARROW or Tensor.of(scale.type).rank > 1:
        return None
    x = x if Tensor.of(x.type).elem == "f32" else g.cast(x, "f32")
    scale = scale if Tensor.of(scale.type).elem == "f32" else g.cast(scale, "f32")
    scale, zero = (None if v is None else along(g, v, op.attr("axis", 1), rank) for v in (scale, zero))
    return quantised(g, x, scale, zero, elem)


@composes("DequantizeLinear")
def dequantize_linear(op: OnnxOp, g: Rewriter) -> ir.Value | None:
    x, scale, zero = operand(op, 0), operand(op, 1), operand(op, 2)
    source, result = Tensor.of(x.type), Tensor.of(op.results[0].type)
    if source.elem not in (*NARROW, "i32") or Tensor.of(scale.type).rank > 1:
        return None
    axis = op.attr("axis", 1)
    difference = shifted(g, x, None if zero is None else along(g, zero, axis, source.rank))
    scale = along(g, scale, axis, source.rank)
    return g.one("Mul", [g.cast(difference, result.elem), scale], result)


def per_row(g: Rewriter, zero: ir.Value | None) -> ir.Value | None:
    """The zero points of a left matrix: one for each row, where there are several."""
    if zero is None or Tensor.of(zero.type).rank != 1 or Tensor.of(zero.type).dims[0] == 1:
        return zero
    return g.reshape(zero, [Tensor.of(zero.type).dims[0], 1])


def integer_product(g: Rewriter, a: ir.Value, b: ir.Value, zeros: list[ir.Value | None], result: Tensor) -> ir.Value:
    left, right = shifted(g, a, per_row(g, zeros[0])), shifted(g, b, zeros[1])
    return g.one("MatMul", [left, right], result.of_elem("i32"))


@composes("MatMulInteger")
def matmul_integer(op: OnnxOp, g: Rewriter) -> ir.Value:
    zeros = [operand(op, 2), operand(op, 3)]
    return integer_product(g, op.operands[0], op.operands[1], zeros, Tensor.of(op.results[0].type))


@composes("QLinearMatMul")
def qlinear_matmul(op: OnnxOp, g: Rewriter) -> ir.Value:
    """Operands: a, its scale and zero point, b, its scale and zero point, the result's scale and zero point."""
    a, a_scale, a_zero, b, b_scale, b_zero, scale, zero = op.operands
    result = Tensor.of(op.results[0].type)
    total = g.cast(integer_product(g, a, b, [a_zero, b_zero], result), "f32")
    wide = result.of_elem("f32")
    for factor in (per_row(g, a_scale), b_scale):
        total = g.one("Mul", [total, factor], wide)
    return quantised(g, total, along(g, scale, -1, 1), along(g, zero, -1, 1), result.elem)


def integer_conv(g: Rewriter, op: OnnxOp, x: ir.Value, w: ir.Value, zeros: list[ir.Value | None], bias) -> ir.Value:
    """A Conv on i32. What is padded is 0 after the zero point was subtracted, as the standard says."""
    rank = Tensor.of(x.type).rank
    w_zero = None if zeros[1] is None else along(g, zeros[1], 0, rank)
    operands = [shifted(g, x, along(g, zeros[0], 0, 1) if zeros[0] is not None else None), shifted(g, w, w_zero)]
    result = Tensor.of(op.results[0].type).of_elem("i32")
    return g.one("Conv", [*operands, bias] if bias is not None else operands, result, g.attributes(op))


@composes("ConvInteger")
def conv_integer(op: OnnxOp, g: Rewriter) -> ir.Value:
    return integer_conv(g, op, op.operands[0], op.operands[1], [operand(op, 2), operand(op, 3)], None)


@composes("QLinearConv")
def qlinear_conv(op: OnnxOp, g: Rewriter) -> ir.Value:
    """Operands: x, scale, zero point, w, scale, zero point, the result's scale and zero point, bias in i32."""
    x, x_scale, x_zero, w, w_scale, w_zero, scale, zero = op.operands[:8]
    result = Tensor.of(op.results[0].type)
    wide = result.of_elem("f32")
    total = g.cast(integer_conv(g, op, x, w, [x_zero, w_zero], operand(op, 8)), "f32")
    for factor in (along(g, x_scale, 1, result.rank), along(g, w_scale, 1, result.rank)):
        total = g.one("Mul", [total, factor], wide)
    return quantised(g, total, along(g, scale, -1, 1), along(g, zero, -1, 1), result.elem)
