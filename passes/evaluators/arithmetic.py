"""This file computes operators that calculate: element by element, products, reductions, conversions."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

import numpy as np

from onnxc.dialects.weights import dtype_of
from onnxc.passes.evaluators.registry import EVALUATORS, Evaluator, Node, evaluates


def _trunc_div(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """C's division for integers: rounds towards 0, and 0 where y is 0 (never folded to a trap)."""
    if x.dtype.kind not in "iu":
        return x / y
    safe = np.where(y == 0, 1, y).astype(y.dtype)
    quotient = np.floor_divide(x, safe)
    towards_zero = (quotient * safe != x) & ((x < 0) != (safe < 0))
    return np.where(y == 0, 0, quotient + towards_zero.astype(x.dtype)).astype(x.dtype)


for _name, _function in {
    "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Div": _trunc_div, "Equal": np.equal, "Less":
    np.less, "Greater": np.greater, "LessOrEqual": np.less_equal, "GreaterOrEqual": np.greater_equal, "And":
    np.logical_and, "Or": np.logical_or, "Xor": np.logical_xor, "Not": np.logical_not, "Neg": np.negative,
    "Abs": np.abs, "Sqrt": np.sqrt, "Exp": np.exp, "Log": np.log, "Floor": np.floor, "Ceil": np.ceil, "Round":
    np.rint, "Sign": np.sign, "Tanh": np.tanh, "Reciprocal": np.reciprocal, "MatMul": np.matmul,
}.items():  # fmt: skip
    EVALUATORS[_name] = lambda op, *arrays, function=_function: np.asarray(function(*arrays))


@evaluates("Gemm")
def _gemm(op: Node, a: np.ndarray, b: np.ndarray, c: np.ndarray | None = None) -> np.ndarray:
    elem, alpha, beta = a.dtype, op.attr("alpha", 1.0), op.attr("beta", 1.0)
    a, b = a.T if op.attr("transA", 0) else a, b.T if op.attr("transB", 0) else b
    if elem.itemsize < 4 and elem.kind not in "iu":
        a, b = a.astype(np.float32), b.astype(np.float32)
    total = np.matmul(a, b)
    total = total if alpha == 1 else total * total.dtype.type(alpha)
    if c is not None and beta != 0:
        c = c.astype(total.dtype)
        total = total + (c if beta == 1 else c * total.dtype.type(beta))
    return total.astype(elem)


@evaluates("Pow")
def _pow(op: Node, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    if x.dtype.kind in "iu" and y.dtype.kind in "iu" and (y < 0).any():
        return np.power(x.astype(np.float64), y).astype(x.dtype)
    return np.power(x, y).astype(x.dtype)


@evaluates("Mod")
def _mod(op: Node, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.fmod(x, y) if op.attr("fmod", 0) else np.mod(x, y)


@evaluates("Relu")
def _relu(op: Node, x: np.ndarray) -> np.ndarray:
    return np.maximum(x, x.dtype.type(0))


@evaluates("Sigmoid")
def _sigmoid(op: Node, x: np.ndarray) -> np.ndarray:
    return (1 / (1 + np.exp(-x.astype(np.float64)))).astype(x.dtype)


for _name, _function in {"Min": np.minimum, "Max": np.maximum, "Sum": np.add}.items():
    EVALUATORS[_name] = lambda op, *arrays, function=_function: reduce(function, arrays)


@evaluates("Where")
def _where(op: Node, condition: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.where(condition, x, y)


@evaluates("Cast")
def _cast(op: Node, x: np.ndarray) -> np.ndarray:
    target = dtype_of(op.results[0].elem)
    if x.dtype.kind == "f" and target.kind in "iu":  # out of range is undefined in C: fold only what is exact
        x = np.trunc(x)
        if not np.isfinite(x).all() or (x.size and (x.min() < np.iinfo(target).min or x.max() > np.iinfo(target).max)):
            raise OverflowError("cast out of range")
    return x.astype(target)


@evaluates("CastLike")
def _cast_like(op: Node, x: np.ndarray, like: np.ndarray) -> np.ndarray:
    return _cast(op, x)


def _reduction(function: Callable[..., np.ndarray]) -> Evaluator:
    def evaluator(op: Node, x: np.ndarray, axes: np.ndarray | None = None) -> np.ndarray:
        chosen = None if axes is None or not axes.size else tuple(int(a) for a in axes)
        if chosen is None and op.attr("noop_with_empty_axes", 0):
            return x
        return np.asarray(function(x, axis=chosen, keepdims=bool(op.attr("keepdims", 1)))).astype(x.dtype)

    return evaluator


for _name, _function in {
    "ReduceSum": np.sum, "ReduceProd": np.prod, "ReduceMax": np.max, "ReduceMin": np.min, "ReduceMean": np.mean,
}.items():  # fmt: skip
    EVALUATORS[_name] = _reduction(_function)


@evaluates("ArgMax", "ArgMin")
def _arg_extreme(op: Node, x: np.ndarray) -> np.ndarray:
    axis, find = op.attr("axis", 0), np.argmax if op.name == "ArgMax" else np.argmin
    if op.attr("select_last_index", 0):
        found = x.shape[axis] - 1 - find(np.flip(x, axis), axis=axis)
    else:
        found = find(x, axis=axis)
    return np.expand_dims(found, axis) if op.attr("keepdims", 1) else np.asarray(found)


@evaluates("DequantizeLinear")
def _dequantize_linear(op: Node, x: np.ndarray, scale: np.ndarray, zero: np.ndarray | None = None) -> np.ndarray:
    if op.attr("block_size", 0) or scale.ndim > 1:
        raise NotImplementedError
    along = [1] * x.ndim
    if scale.size > 1:
        along[op.attr("axis", 1)] = -1
    offset = 0 if zero is None else zero.astype(np.int32).reshape(along if zero.size > 1 else ())
    scale = scale.reshape(along if scale.size > 1 else ())
    return ((x.astype(np.int32) - offset).astype(np.float32) * scale.astype(np.float32)).astype(scale.dtype)
