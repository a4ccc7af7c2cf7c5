"""This file is the table of evaluators: operator name → the function that computes it on numpy arrays.

An evaluator gets the node and its operands (None where absent) and returns its results, in the element types that the
operator says; `fold_constants` checks shape and type. What has no entry here goes to onnx's ReferenceEvaluator, if it
is in `REFERENCE`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import helper

from onnxc.dialects.onnx import OnnxOp
from onnxc.dialects.types import Tensor

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
    """Registers `f(op: Node, *operands) -> array or list of arrays` for these operators."""

    def register(function: Evaluator) -> Evaluator:
        EVALUATORS.update(dict.fromkeys(names, function))
        return function

    return register
