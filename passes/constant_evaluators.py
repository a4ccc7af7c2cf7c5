"""This file computes onnx ops on numpy arrays, for constant folding: one small function an operator.

An evaluator gets the node and its operands (None where absent) and returns its results, in the element types that the
operator says; `fold_constants` checks shape and type. What has no entry here goes to onnx's ReferenceEvaluator, if it
is in `REFERENCE`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

import numpy as np
from onnx import helper

from onnxc.dialects.onnx import OnnxOp
from onnxc.dialects.types import Tensor
from onnxc.dialects.weights import dtype_of

Arrays = Sequence["np.ndarray | None"]


@dataclass(frozen=True)
class Node:
    """An op without its operation, so that it may outlive it: name, attributes that are given, result types."""

    name: str
    attributes: dict[str, Any]
    results: tuple[Tensor, ...]

    @staticmethod
    def of(op: OnnxOp) -> Node:
        given = {name: op.attr(name) for name in op.op.attributes if name != "operand_values"}
        return Node(op.name, given, tuple(Tensor.of(result.type) for result in op.op.results))

    def attr(self, name: str, default: Any = None) -> Any:
        return self.attributes.get(name, default)


Evaluator = Callable[..., "np.ndarray | list[np.ndarray]"]

EVALUATORS: dict[str, Evaluator] = {}

# Ops without an evaluator of our own on which the ReferenceEvaluator agrees with onnxruntime at the latest opset.
REFERENCE = frozenset({
    "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitShift", "BitwiseAnd", "BitwiseNot", "BitwiseOr",
    "BitwiseXor", "Celu", "Clip", "Compress", "Cos", "Cosh", "CumSum", "DepthToSpace", "Det", "Elu", "EyeLike",
    "GatherElements", "GatherND", "Gelu", "HardSigmoid", "HardSwish", "IsInf", "IsNaN", "LeakyRelu",
    "LogSoftmax", "Mish", "NonZero", "OneHot", "PRelu", "ReduceL1", "ReduceL2", "ReduceLogSum",
    "ReduceLogSumExp", "ReduceSumSquare", "ReverseSequence", "ScatterElements", "ScatterND", "Selu", "Shrink",
    "Sin", "Sinh", "Softmax", "Softplus", "Softsign", "SpaceToDepth", "Tan", "ThresholdedRelu", "TopK", "Trilu",
    "Unique",
})  # fmt: skip


def evaluate(op: Node, operands: Arrays) -> list[np.ndarray] | None:
    """The results of the op, or None where nothing here can compute them."""
    evaluator = EVALUATORS.get(op.name)
    if evaluator is not None:
        with np.errstate(all="ignore"):
            results = evaluator(op, *operands)
        return [np.asarray(result) for result in (results if isinstance(results, list) else [results])]
    return _reference(op, operands) if op.name in REFERENCE else None


def _reference(op: Node, operands: Arrays) -> list[np.ndarray]:
    from onnx.reference import ReferenceEvaluator  # loading it takes long, and few models need it

    names = [f"i{i}" if array is not None else "" for i, array in enumerate(operands)]
    outputs = [f"o{i}" for i in range(len(op.results))]
    node = helper.make_node(op.name, names, outputs, **op.attributes)
    with np.errstate(all="ignore"):
        feeds = {name: array for name, array in zip(names, operands, strict=True) if array is not None}
        return [np.asarray(result) for result in ReferenceEvaluator(node).run(None, feeds)]


def evaluates(*names: str) -> Callable[[Evaluator], Evaluator]:
    def register(function: Evaluator) -> Evaluator:
        EVALUATORS.update(dict.fromkeys(names, function))
        return function

    return register


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


@evaluates("Identity")
def _identity(op: Node, x: np.ndarray) -> np.ndarray:
    return x


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


@evaluates("Reshape")
def _reshape(op: Node, x: np.ndarray, shape: np.ndarray) -> np.ndarray:
    sizes = [int(n) for n in shape]
    if not op.attr("allowzero", 0):
        sizes = [x.shape[i] if n == 0 else n for i, n in enumerate(sizes)]
    return x.reshape(sizes)


@evaluates("Flatten")
def _flatten(op: Node, x: np.ndarray) -> np.ndarray:
    axis = op.attr("axis", 1)
    axis = axis + x.ndim if axis < 0 else axis
    return x.reshape(int(np.prod(x.shape[:axis])), -1 if x.size else int(np.prod(x.shape[axis:])))


@evaluates("Transpose")
def _transpose(op: Node, x: np.ndarray) -> np.ndarray:
    return x.transpose(op.attr("perm"))


@evaluates("Unsqueeze")
def _unsqueeze(op: Node, x: np.ndarray, axes: np.ndarray) -> np.ndarray:
    return np.expand_dims(x, tuple(int(a) for a in axes.reshape(-1)))


@evaluates("Squeeze")
def _squeeze(op: Node, x: np.ndarray, axes: np.ndarray | None = None) -> np.ndarray:
    return x.squeeze(None if axes is None else tuple(int(a) for a in axes))


@evaluates("Concat")
def _concat(op: Node, *arrays: np.ndarray) -> np.ndarray:
    return np.concatenate(arrays, op.attr("axis"))


@evaluates("Split")
def _split(op: Node, x: np.ndarray, sizes: np.ndarray | None = None) -> list[np.ndarray]:
    axis = op.attr("axis", 0)
    if sizes is None:
        share = -(-x.shape[axis] // len(op.results))
        ends = [share * i for i in range(1, len(op.results))]
    else:
        ends = [int(n) for n in np.cumsum(sizes)[:-1]]
    return np.split(x, ends, axis)


@evaluates("Slice")
def _slice(op: Node, x: np.ndarray, starts: np.ndarray, ends: np.ndarray, axes=None, steps=None) -> np.ndarray:
    axes = range(len(starts)) if axes is None else axes
    steps = np.ones(len(starts), np.int64) if steps is None else steps
    index = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts.tolist(), ends.tolist(), list(axes), steps.tolist(), strict=True):
        size = x.shape[axis]
        if step < 0:  # Python's -1 means "last", ONNX's end clamps to "before the first"
            end = None if end < -size else end
        index[axis] = slice(start, end, step)
    return x[tuple(index)]


@evaluates("Gather")
def _gather(op: Node, x: np.ndarray, indices: np.ndarray) -> np.ndarray:
    return np.take(x, indices, axis=op.attr("axis", 0))


@evaluates("Shape")
def _shape(op: Node, x: np.ndarray) -> np.ndarray:
    return np.array(x.shape, np.int64)[op.attr("start", 0) : op.attr("end", None)]


@evaluates("Size")
def _size(op: Node, x: np.ndarray) -> np.ndarray:
    return np.array(x.size, np.int64)


@evaluates("ConstantOfShape")
def _constant_of_shape(op: Node, shape: np.ndarray) -> np.ndarray:
    return np.broadcast_to(np.reshape(op.attr("value", np.float32(0)), ()), tuple(int(n) for n in shape))


@evaluates("Expand")
def _expand(op: Node, x: np.ndarray, shape: np.ndarray) -> np.ndarray:
    return np.broadcast_to(x, np.broadcast_shapes(x.shape, tuple(int(n) for n in shape)))


@evaluates("Tile")
def _tile(op: Node, x: np.ndarray, repeats: np.ndarray) -> np.ndarray:
    return np.tile(x, tuple(int(n) for n in repeats))


@evaluates("Range")
def _range(op: Node, start: np.ndarray, limit: np.ndarray, delta: np.ndarray) -> np.ndarray:
    count = max(int(np.ceil((limit - start) / delta)), 0)
    return (start + np.arange(count).astype(start.dtype) * delta).astype(start.dtype)


@evaluates("Pad")
def _pad(op: Node, x: np.ndarray, pads: np.ndarray, value=None, axes=None) -> np.ndarray:
    if op.attr("mode", "constant") != "constant" or (pads < 0).any():
        raise NotImplementedError
    widths = [(0, 0)] * x.ndim
    axes = range(x.ndim) if axes is None else [int(a) for a in axes]
    for i, axis in enumerate(axes):
        widths[axis] = (int(pads[i]), int(pads[i + len(axes)]))
    return np.pad(x, widths, constant_values=0 if value is None else value.reshape(()))


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
