"""Simplification of arithmetic: neutral operands, doubled signs, powers, n-ary sums, trivial reductions.

Every rule is exact in IEEE arithmetic: x + 0 is not x when x is -0, so only x + (-0) and x - 0 go.
"""

from __future__ import annotations

import math

import numpy as np
from mlir import ir

from onnxc.dialects.onnx import OnnxOp
from onnxc.dialects.types import Tensor
from onnxc.passes.recorded_values import ATTRIBUTE, values_attribute
from onnxc.passes.rewriting import Rewriter
from onnxc.passes.simplifications.registry import simplifies

SMALL = 4096  # elements of a constant that are looked at
NON_NEGATIVE = ("Exp", "Sigmoid", "Abs", "ReduceL2", "ReduceL1", "ReduceSumSquare")


@simplifies("Mul", "Add", "Sub", "Div", "Pow")
def neutral_operand(op: OnnxOp, rw: Rewriter) -> ir.Value | None:
    for x, other in ((0, 1), (1, 0)) if op.name in ("Mul", "Add") else ((0, 1),):
        value = op.operands[x]
        if Tensor.of(value.type).shape != Tensor.of(op.results[0].type).shape:
            continue
        constant = rw.array(op.operands[other], limit=SMALL)
        if constant is not None and constant.size and _is_neutral(op.name, constant):
            return value
    return None


def _is_neutral(name: str, constant: np.ndarray) -> bool:
    if name in ("Mul", "Div", "Pow"):
        return bool((constant == 1).all())
    if constant.dtype.kind in "iu" or name == "Sub":
        return bool((constant == 0).all() and not np.signbit(constant.astype(np.float64)).any())
    return bool((constant == 0).all() and np.signbit(constant.astype(np.float64)).all())


@simplifies("Neg", "Not", "BitwiseNot")
def twice(op: OnnxOp, rw: Rewriter) -> ir.Value | None:
    inner = rw.producer(op.operands[0], op.name)
    return None if inner is None else inner.operands[0]


@simplifies("Relu", "Abs", "Floor", "Ceil", "Round", "Sign")
def idempotent(op: OnnxOp, rw: Rewriter) -> ir.Value | None:
    return op.operands[0] if rw.producer(op.operands[0], op.name) is not None else None


@simplifies("Add", "Sub")
def negated_operand(op: OnnxOp, rw: Rewriter) -> ir.Value | None:
    """x + (-y) is x - y, x - (-y) is x + y."""
    inner = rw.producer(op.operands[1], "Neg")
    if inner is None:
        return None
    return rw.one({"Add": "Sub", "Sub": "Add"}[op.name], [op.operands[0], inner.operands[0]], op.results[0].type)


@simplifies("Div")
def division(op: OnnxOp, rw: Rewriter) -> ir.Value | None:
    """By a power of two: a product with its reciprocal, which is exact. Of 1: the Reciprocal."""
    result = Tensor.of(op.results[0].type)
    if result.elem not in ("f32", "f64", "f16"):
        return None
    divisor = rw.array(op.operands[1], limit=SMALL)
    if divisor is not None and divisor.size and _has_exact_reciprocal(divisor):
        return rw.one("Mul", [op.operands[0], rw.constant(np.asarray(1 / divisor, divisor.dtype))], op.results[0].type)
    if rw.scalar(op.operands[0]) == 1 and Tensor.of(op.operands[1].type).shape == result.shape:
        return rw.one("Reciprocal", [op.operands[1]], op.results[0].type)
    return None


def _has_exact_reciprocal(divisor: np.ndarray) -> bool:
    with np.errstate(all="ignore"):
        mantissa, _ = np.frexp(divisor.astype(np.float64))
        reciprocal = 1 / divisor
        tiny = np.finfo(divisor.dtype).tiny
    normal = (np.abs(divisor) >= tiny) & (np.abs(reciprocal) >= tiny) & np.isfinite(reciprocal)
    return bool(((np.abs(mantissa) == 0.5) & normal).all())


@simplifies("Pow")
def power(op: OnnxOp, rw: Rewriter) -> ir.Value | None:
    x, type = op.operands[0], op.results[0].type
    exponent = rw.scalar(op.operands[1])
    if exponent is None or Tensor.of(x.type).shape != Tensor.of(type).shape:
        return None
    if exponent == 2:
        return rw.one("Mul", [x, x], type)
    if exponent == 3:
        return rw.one("Mul", [rw.one("Mul", [x, x], type), x], type)
    if Tensor.of(type).elem[0] in "bf" and exponent == -1:
        return rw.one("Reciprocal", [x], type)
    if exponent in (0.5, -0.5) and _non_negative(x, rw):  # Sqrt of -0 and -inf is another value than Pow's
        root = rw.one("Sqrt", [x], type)
        return root if exponent > 0 else rw.one("Reciprocal", [root], type)
    return None


def _non_negative(value: ir.Value, rw: Rewriter, depth: int = 6) -> bool:
    """Whether no element is negative or -0 (false: not known)."""
    op = rw.producer(value)
    if op is None or depth == 0:
        return False
    if op.name in NON_NEGATIVE:
        return True
    if op.name == "Constant":
        array = rw.array(value, limit=SMALL)
        return array is not None and bool((array >= 0).all() and not np.signbit(array.astype(np.float64)).any())
    if op.name == "Mul" and op.operands[0] == op.operands[1]:
        return True
    if op.name in ("ReduceMean", "ReduceSum", "Sqrt", "Reshape", "Transpose", "Cast"):
        return _non_negative(op.operands[0], rw, depth - 1)
    if op.name in ("Add", "Mul", "Max"):
        return all(_non_negative(operand, rw, depth - 1) for operand in op.operands)
    return False


@simplifies("Sum", "Max", "Min", "Mean")
def variadic(op: OnnxOp, rw: Rewriter) -> ir.Value | None:
    """One operand is the result; a Sum is a chain of Adds, in order."""
    if len(op.operands) == 1:
        return op.operands[0]
    if op.name != "Sum":
        return None
    from onnxc.passes.simplifications.movement import broadcast

    total = op.operands[0]
    for operand in op.operands[1:]:
        shape = broadcast([Tensor.of(total.type).shape, Tensor.of(operand.type).shape])
        total = rw.one("Add", [total, operand], Tensor.of(total.type).of_shape(shape))
    return total


@simplifies("Clip")
def clip(op: OnnxOp, rw: Rewriter) -> ir.Value | None:
    """Without effective bounds nothing; from 0 upwards a Relu."""
    low, high = (rw.scalar(op.operands[i]) if len(op.operands) > i else None for i in (1, 2))
    given = [len(op.operands) > i and op.operands[i] is not None for i in (1, 2)]
    unbounded_low = not given[0] or low == -math.inf
    unbounded_high = not given[1] or high == math.inf
    if unbounded_low and unbounded_high:
        return op.operands[0]
    if unbounded_high and low == 0 and Tensor.of(op.results[0].type).elem in ("f32", "f64", "f16", "bf16"):
        return rw.one("Relu", [op.operands[0]], op.results[0].type)
    return None


@simplifies("ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceSum")
def reduction_of_one(op: OnnxOp, rw: Rewriter) -> ir.Value | None:
    """Over axes of size 1 (or none): the operand in another shape."""
    tensor, result = Tensor.of(op.operands[0].type), Tensor.of(op.results[0].type)
    if tensor.shape is None or result.shape is None:
        return None
    kept = [dim for dim in tensor.shape if dim != 1]
    if kept != [dim for dim in result.shape if dim != 1]:
        return None
    return op.operands[0] if tensor.shape == result.shape else rw.reshape(op.operands[0], result.shape)


@simplifies("GlobalAveragePool", "GlobalMaxPool")
def global_pool(op: OnnxOp, rw: Rewriter) -> ir.Value | None:
    """The reduction over the spatial axes that it is."""
    rank = Tensor.of(op.operands[0].type).rank
    if rank is None:
        return None
    name = {"GlobalAveragePool": "ReduceMean", "GlobalMaxPool": "ReduceMax"}[op.name]
    attrs = {"keepdims": 1, ATTRIBUTE: values_attribute({1: list(range(2, rank))}, op.op.context)}
    return rw.one(name, [op.operands[0], rw.absent()], op.results[0].type, attrs)


@simplifies("Where")
def decided_where(op: OnnxOp, rw: Rewriter) -> ir.Value | None:
    """A constant condition of one value chooses now."""
    condition = rw.array(op.operands[0], limit=SMALL)
    if condition is None or not condition.size or (condition.any() and not condition.all()):
        return None
    chosen, result = op.operands[1 if condition.all() else 2], Tensor.of(op.results[0].type)
    if result.shape is None:
        return None
    return chosen if Tensor.of(chosen.type).shape == result.shape else rw.expand(chosen, result.shape)
