"""Activations that exporters spell out: Gelu, HardSwish, HardSigmoid, Swish, Mish, Sigmoid, Softplus."""

from __future__ import annotations

import math

from mlir import ir

from onnxc.dialects.onnx import OnnxOp
from onnxc.dialects.types import Tensor
from onnxc.passes.kernels.scalars import is_float
from onnxc.passes.patterns.registry import near, product, recognises, same_shape, shifted
from onnxc.passes.rewriting import Rewriter


@recognises("Mul", "Div")
def gated(op: OnnxOp, rw: Rewriter) -> ir.Value | None:
    """number · x · gate(x), in any order."""
    result = op.results[0]
    if not is_float(Tensor.of(result.type).elem):
        return None
    number, factors = product(result, rw)
    if len(factors) != 2:
        return None
    for x, gate in (factors, factors[::-1]):
        if same_shape(x, result):
            made = _gate(x, gate, number, rw, result.type)
            if made is not None:
                return made
    return None


def _gate(x: ir.Value, gate: ir.Value, number: float, rw: Rewriter, type: ir.Type) -> ir.Value | None:
    op = rw.producer(gate, "Add", "Sigmoid", "HardSigmoid", "Clip", "Tanh")
    if op is None:
        return None
    if op.name == "Sigmoid" and number == 1:
        alpha, inner = product(op.operands[0], rw, root=op.operands[0] != x)
        return rw.one("Swish", [x], type, {"alpha": float(alpha)}) if inner == [x] else None
    if op.name == "HardSigmoid" and number == 1 and op.operands[0] == x:
        is_swish = near(op.attr("alpha", 0.2), 1 / 6, 1e-6) and op.attr("beta", 0.5) == 0.5
        return rw.one("HardSwish", [x], type) if is_swish else None
    if op.name == "Clip" and near(number, 1 / 6, 1e-6):
        return rw.one("HardSwish", [x], type) if _is_clipped(op, x, rw) else None
    if op.name == "Tanh" and number == 1:
        soft = rw.producer(op.operands[0], "Softplus")
        return rw.one("Mish", [x], type) if soft is not None and soft.operands[0] == x else None
    return _gelu(op, x, rw, type) if op.name == "Add" and near(number, 0.5) else None


def _is_clipped(op: OnnxOp, x: ir.Value, rw: Rewriter) -> bool:
    """min(max(x + 3, 0), 6)"""
    if len(op.operands) < 3 or rw.scalar(op.operands[1]) != 0 or rw.scalar(op.operands[2]) != 6:
        return False
    return shifted(op.operands[0], rw) == (x, 3.0)


def _gelu(op: OnnxOp, x: ir.Value, rw: Rewriter, type: ir.Type) -> ir.Value | None:
    """1 + erf(x / √2), or 1 + tanh(√(2/π) · (x + 0.044715 · x³))."""
    shift = shifted(op.results[0], rw)
    inner = None if shift is None or shift[1] != 1 else rw.producer(shift[0], "Erf", "Tanh")
    if inner is None:
        return None
    number, factors = product(inner.operands[0], rw)
    if inner.name == "Erf":
        return rw.one("Gelu", [x], type) if factors == [x] and near(number, math.sqrt(0.5)) else None
    if not near(number, math.sqrt(2 / math.pi)) or not _is_cubic(factors, x, rw):
        return None
    return rw.one("Gelu", [x], type, {"approximate": "tanh"})


def _is_cubic(factors: list[ir.Value], x: ir.Value, rw: Rewriter) -> bool:
    """x + 0.044715 · x³, or x · (1 + 0.044715 · x²)."""
    if len(factors) == 1:
        op = rw.producer(factors[0], "Add")
        if op is None or x not in op.operands:
            return False
        number, cube = product(op.operands[1 if op.operands[0] == x else 0], rw)
        return near(number, 0.044715) and (cube == [x] * 3 or _is_power(cube, x, 3, rw))
    if len(factors) == 2 and x in factors:
        shift = shifted(factors[1 if factors[0] == x else 0], rw)
        if shift is None or shift[1] != 1:
            return False
        number, square = product(shift[0], rw)
        return near(number, 0.044715) and (square == [x] * 2 or _is_power(square, x, 2, rw))
    return False


def _is_power(factors: list[ir.Value], x: ir.Value, exponent: int, rw: Rewriter) -> bool:
    op = rw.producer(factors[0], "Pow") if len(factors) == 1 else None
    return op is not None and op.operands[0] == x and rw.scalar(op.operands[1]) == exponent


@recognises("Div", "Mul")
def hard_sigmoid(op: OnnxOp, rw: Rewriter) -> ir.Value | None:
    """clip(x + 3, 0, 6) / 6"""
    number, factors = product(op.results[0], rw)
    clip = rw.producer(factors[0], "Clip") if len(factors) == 1 and near(number, 1 / 6, 1e-6) else None
    shift = None if clip is None else shifted(clip.operands[0], rw)
    if shift is None or not _is_clipped(clip, shift[0], rw):
        return None
    if not same_shape(shift[0], op.results[0]) or not is_float(Tensor.of(op.results[0].type).elem):
        return None
    return rw.one("HardSigmoid", [shift[0]], op.results[0].type, {"alpha": 1 / 6, "beta": 0.5})


@recognises("Reciprocal")
def sigmoid(op: OnnxOp, rw: Rewriter) -> ir.Value | None:
    """1 / (1 + exp(-x))"""
    shift = shifted(op.operands[0], rw)
    exp = None if shift is None or shift[1] != 1 else rw.producer(shift[0], "Exp")
    neg = None if exp is None else rw.producer(exp.operands[0], "Neg")
    return None if neg is None else rw.one("Sigmoid", [neg.operands[0]], op.results[0].type)


@recognises("Log")
def softplus(op: OnnxOp, rw: Rewriter) -> ir.Value | None:
    """log(1 + exp(x))"""
    shift = shifted(op.operands[0], rw)
    exp = None if shift is None or shift[1] != 1 else rw.producer(shift[0], "Exp")
    return None if exp is None else rw.one("Softplus", [exp.operands[0]], op.results[0].type)
