"""This file scales and shifts the result of a contraction by changing its constant weights and bias."""

from __future__ import annotations

import numpy as np
from mlir import ir

from onnxc.dialects.onnx import OnnxOp
from onnxc.dialects.types import Tensor
from onnxc.passes.rewriting import Rewriter

SCALABLE = ("Conv", "ConvTranspose", "Gemm", "MatMul")


def scaled(op: OnnxOp, factor: np.ndarray, term: np.ndarray, rw: Rewriter) -> ir.Value | None:
    """The contraction with `factor` and `term` (f64) in its weights; None where they are not one number a channel, or
    where the user wants it to keep its own weights."""
    weights = rw.array(op.operands[1])
    result = Tensor.of(op.results[0].type)
    if weights is None or result.shape is None or rw.keeps_its_own(op.node):
        return None
    channels = _channels(op, weights)
    axis = 1 if op.name.startswith("Conv") else len(result.shape) - 1
    factors, terms = (along_channels(array, len(result.shape), axis, channels) for array in (factor, term))
    if factors is None or terms is None:
        return None
    if op.name == "MatMul":
        return _matmul(op, weights, factors, terms, rw) if weights.ndim == 2 else None
    bias = op.operands[2] if len(op.operands) > 2 else None
    old = np.zeros(channels) if bias is None else rw.array(bias)
    if old is None or old.size not in (1, channels) or (old.ndim == 2 and old.shape[0] != 1) or old.ndim > 2:
        return None
    beta = op.attr("beta", 1.0) if op.name == "Gemm" and bias is not None else 1.0
    new = np.broadcast_to(old.astype(np.float64).reshape(-1) * beta, channels) * factors + terms
    attrs = {"beta": 1.0} if op.name == "Gemm" else {}
    return rw.again(op, [op.operands[0], _weights(op, weights, factors, rw), rw.constant_of(new, result.elem)], attrs)


def along_channels(array: np.ndarray, rank: int, axis: int, channels: int) -> np.ndarray | None:
    """One number a channel from an array that broadcasts to a tensor of that rank; None if it varies elsewhere."""
    if array.size == 1:
        return np.full(channels, array.reshape(()))
    shape = [1] * (rank - array.ndim) + list(array.shape)
    others = [size for i, size in enumerate(shape) if i != axis]
    return array.reshape(-1) if len(shape) == rank and all(size == 1 for size in others) else None


def _channels(op: OnnxOp, weights: np.ndarray) -> int:
    if op.name == "Conv":
        return weights.shape[0]
    if op.name == "ConvTranspose":
        return weights.shape[1] * op.attr("group", 1)
    return weights.shape[0] if op.name == "Gemm" and op.attr("transB", 0) else weights.shape[-1]


def _weights(op: OnnxOp, weights: np.ndarray, factors: np.ndarray, rw: Rewriter) -> ir.Value:
    """The weights times one factor a channel; their own constant when every factor is 1."""
    if (factors == 1).all():
        return op.operands[1]
    if op.name == "Conv" or (op.name == "Gemm" and op.attr("transB", 0)):
        shaped = factors.reshape(-1, *[1] * (weights.ndim - 1))
    elif op.name == "ConvTranspose":  # [C, M/g, …]: input channels of group i see its output channels
        groups = op.attr("group", 1)
        shaped = np.repeat(factors.reshape(groups, -1), weights.shape[0] // groups, axis=0)
        shaped = shaped.reshape(*shaped.shape, *[1] * (weights.ndim - 2))
    else:
        shaped = factors
    wide = np.float64 if weights.dtype == np.float64 else np.float32
    return rw.constant((weights.astype(wide, copy=False) * shaped.astype(wide)).astype(weights.dtype, copy=False))


def _matmul(op: OnnxOp, weights: np.ndarray, factors: np.ndarray, terms: np.ndarray, rw: Rewriter) -> ir.Value | None:
    """A MatMul has no bias: a term stays an Add behind it."""
    if (factors == 1).all():
        return None
    product = rw.again(op, [op.operands[0], _weights(op, weights, factors, rw)])
    if not terms.any():
        return product
    return rw.one("Add", [product, rw.constant_of(terms, Tensor.of(product.type).elem)], product.type)


def is_padded(op: OnnxOp) -> bool:
    """Whether a Conv reads zeros around its operand."""
    mode = op.attr("auto_pad", "NOTSET") or "NOTSET"
    return mode.startswith("SAME") or (mode == "NOTSET" and any(op.attr("pads") or ()))


def absorbed(op: OnnxOp, x: ir.Value, factor: np.ndarray, term: np.ndarray, rw: Rewriter) -> ir.Value | None:
    """A Conv of x * factor + term (f64) as one of x, or of x + term / factor where pads are zeros of the product."""
    weights, tensor = rw.array(op.operands[1]), Tensor.of(x.type)
    if weights is None or rw.keeps_its_own(op.node):
        return None
    channels, groups = weights.shape[1] * op.attr("group", 1), op.attr("group", 1)
    factors, terms = (along_channels(array, weights.ndim, 1, channels) for array in (factor, term))
    bias = op.operands[2] if len(op.operands) > 2 else None
    old = np.zeros(weights.shape[0]) if bias is None else rw.array(bias)
    if factors is None or terms is None or old is None or not factors.all():
        return None
    # [M, C/g, …]: output channels of group i read its input channels
    shaped = np.repeat(factors.reshape(groups, -1), weights.shape[0] // groups, axis=0)
    new = weights.astype(np.float64) * shaped.reshape(*shaped.shape, *[1] * (weights.ndim - 2))
    if terms.any() and is_padded(op):
        x = rw.one(
            "Add", [x, rw.constant_of((terms / factors).reshape(-1, *[1] * (weights.ndim - 2)), tensor.elem)], tensor
        )
    elif terms.any():
        sums = weights.astype(np.float64).reshape(*weights.shape[:2], -1).sum(axis=2)
        seen = np.repeat(terms.reshape(groups, -1), weights.shape[0] // groups, axis=0)
        old = old.astype(np.float64) + (sums * seen).sum(axis=1)
    made = [rw.constant_of(new, tensor.elem), rw.constant_of(old, tensor.elem)]
    return rw.again(op, [x, *made] if bias is not None or old.any() else [x, made[0]])
