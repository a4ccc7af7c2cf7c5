"""graph -> graph: factors and terms that are constant for each channel go into the weights before them.

Before:  %0 = "onnx.Conv"(%x, %w, %b)      %1 = "onnx.BatchNormalization"(%0, %scale, %bias, %mean, %var)
After:   %1 = "onnx.Conv"(%x, %w', %b')
Also:    a Mul, Div, Add or Sub by such a constant; after Conv, ConvTranspose, Gemm and MatMul, and before a Conv; the
         scale of attention's scores into the projection of Q. A BatchNormalization after something else is a Mul and
         an Add by constants, and runs of those are one of each.
Keeps:   values up to rounding (constants are combined in f64, once); a contraction whose result others read too.
Leaves:  no BatchNormalization that does not train.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from mlir import ir

from onnxc.dialects.levels import GRAPH
from onnxc.dialects.onnx import OnnxOp
from onnxc.dialects.types import Tensor
from onnxc.passes.contract import Program, transforms
from onnxc.passes.rewriting import Rewriter, rewrite
from onnxc.passes.weight_scaling import SCALABLE, absorbed, is_padded, scaled

LIMIT = 1 << 16  # elements of a constant that may be a factor of each channel
FLOATS = ("f16", "bf16", "f32", "f64")


@transforms(GRAPH, GRAPH)
def fold_batch_norm(program: Program) -> None:
    rules = {name: [fold_affine, merge_affine, fold_score_scale] for name in ("Mul", "Div", "Add", "Sub")}
    rewrite(program, {**rules, "BatchNormalization": [batch_norm], "Conv": [fold_affine_before]})


@dataclass(frozen=True)
class Affine:
    """x * factor + term, both f64 arrays that broadcast to x."""

    x: ir.Value
    factor: np.ndarray
    term: np.ndarray

    @property
    def finite(self) -> bool:
        return bool(np.isfinite(self.factor).all() and np.isfinite(self.term).all())


def affine(op: OnnxOp | None, rw: Rewriter) -> Affine | None:
    """What a Mul, Div, Add or Sub by a constant does to a tensor of the result's shape."""
    if op is None or op.name not in ("Mul", "Div", "Add", "Sub") or Tensor.of(op.results[0].type).elem not in FLOATS:
        return None
    shape = Tensor.of(op.results[0].type).shape
    for x, other in ((0, 1), (1, 0)) if op.name in ("Mul", "Add") else ((0, 1),):
        constant = rw.array(op.operands[other], limit=LIMIT)
        if constant is None or rw.is_constant(op.operands[x]) or Tensor.of(op.operands[x].type).shape != shape:
            continue
        value, one, zero = constant.astype(np.float64), np.ones(()), np.zeros(())
        with np.errstate(all="ignore"):
            factor = {"Mul": value, "Div": 1 / value}.get(op.name, one)
        found = Affine(op.operands[x], factor, {"Add": value, "Sub": -value}.get(op.name, zero))
        return found if found.finite else None
    return None


def batch_norm(op: OnnxOp, rw: Rewriter) -> list[ir.Value] | None:
    """scale * (x - mean) / sqrt(var + epsilon) + bias"""
    if op.attr("training_mode", 0) or len(op.results) > 1:
        return None
    x, *rest = op.operands
    rank = Tensor.of(x.type).rank
    if rank is None:
        return None
    along = [1] * (rank - 2)
    arrays = [rw.array(value) for value in rest]
    if all(array is not None for array in arrays):
        scale, bias, mean, var = (array.astype(np.float64).reshape(-1, *along) for array in arrays)
        factor = scale / np.sqrt(var + op.attr("epsilon", 1e-5))
        return [_apply(x, factor, bias - mean * factor, rw)]
    return [_computed(op, along, rw)]


def _computed(op: OnnxOp, along: list[int], rw: Rewriter) -> ir.Value:
    """The same with parameters that are not constant."""
    x, scale, bias, mean, var = op.operands
    kind = Tensor.of(var.type)
    epsilon = rw.constant(np.array(op.attr("epsilon", 1e-5), np.float32))
    epsilon = epsilon if kind.elem == "f32" else rw.cast(epsilon, kind.elem)
    root = rw.one("Sqrt", [rw.one("Add", [var, epsilon], kind)], kind)
    elem = Tensor.of(x.type).elem
    scale, bias, mean, root = (
        rw.reshape(value if Tensor.of(value.type).elem == elem else rw.cast(value, elem), [kind.dims[0], *along])
        for value in (scale, bias, mean, root)
    )
    factor = rw.one("Div", [scale, root], scale.type)
    type = op.results[0].type
    centred = rw.one("Sub", [x, mean], type)
    return rw.one("Add", [rw.one("Mul", [centred, factor], type), bias], type)


def fold_affine(op: OnnxOp, rw: Rewriter) -> ir.Value | None:
    """Into the weights of a contraction that only this op reads."""
    found = affine(op, rw)
    if found is None or not rw.single_use(found.x):
        return None
    inner = rw.producer(found.x, *SCALABLE)
    return None if inner is None else scaled(inner, found.factor, found.term, rw)


def fold_score_scale(op: OnnxOp, rw: Rewriter) -> ir.Value | None:
    """The one factor of a product of two computed matrices (attention's 1 / √d) goes into what projected the first."""
    found = affine(op, rw)
    if found is None or found.factor.size != 1 or found.term.any() or not rw.single_use(found.x):
        return None
    product = rw.producer(found.x, "MatMul")
    if product is None or rw.is_constant(product.operands[1]):
        return None
    first = _projected(product.operands[0], found.factor, rw)
    return None if first is None else rw.again(product, [first, product.operands[1]])


def _projected(value: ir.Value, factor: np.ndarray, rw: Rewriter) -> ir.Value | None:
    """`value` times `factor`, where only views and a bias lie between it and constant weights."""
    op = rw.producer(value, "Transpose", "Reshape", "Add", *SCALABLE)
    if op is None or not rw.single_use(value):
        return None
    if op.name in SCALABLE:
        return scaled(op, factor, np.zeros(()), rw)
    if op.name == "Add":
        term = affine(op, rw)
        inner = None if term is None else _projected(term.x, factor, rw)
        if inner is None:
            return None
        return rw.one("Add", [inner, rw.constant_of(term.term * factor, Tensor.of(value.type).elem)], value.type)
    inner = _projected(op.operands[0], factor, rw)
    return None if inner is None else rw.again(op, [inner, *op.op.operands[1:]])


def fold_affine_before(op: OnnxOp, rw: Rewriter) -> ir.Value | None:
    """A factor of each input channel goes into the weights. So does a term, where no pads would need it."""
    found = affine(rw.producer(op.operands[0]), rw) if rw.single_use(op.operands[0]) else None
    if found is None or Tensor.of(op.operands[0].type).rank is None:
        return None
    rest = affine(rw.producer(found.x), rw) if _is_term(found) and rw.single_use(found.x) else None
    if rest is not None and not _is_term(rest):  # x * a + b
        found = Affine(rest.x, rest.factor, found.term)
    if _is_term(found) and is_padded(op):
        return None
    return absorbed(op, found.x, found.factor, found.term, rw)


def merge_affine(op: OnnxOp, rw: Rewriter) -> ir.Value | None:
    """(x * a + b) * c + d is x * (a * c) + (b * c + d), when the first two steps are for this one alone."""
    outer = affine(op, rw)
    if outer is None or not rw.single_use(outer.x):
        return None
    inner = affine(rw.producer(outer.x), rw)
    if inner is None:
        return None
    before = affine(rw.producer(inner.x), rw) if rw.single_use(inner.x) else None
    foldable = rw.producer(inner.x, *SCALABLE) is not None and rw.single_use(inner.x)
    if not foldable and op.name in ("Mul", "Div") and _is_term(inner) and (before is None or _is_term(before)):
        return None  # (x + b) * c is as short as it gets
    if op.name in ("Add", "Sub") and not _is_term(inner):
        return None  # x * a + b is
    return _apply(inner.x, inner.factor * outer.factor, inner.term * outer.factor + outer.term, rw)


def _is_term(found: Affine) -> bool:
    return found.factor.ndim == 0 and found.factor == 1


def _apply(x: ir.Value, factor: np.ndarray, term: np.ndarray, rw: Rewriter) -> ir.Value:
    """x * factor + term, in x's type."""
    tensor = Tensor.of(x.type)
    if (factor != 1).any():
        x = rw.one("Mul", [x, rw.constant_of(factor, tensor.elem)], tensor)
    if (term != 0).any():
        x = rw.one("Add", [x, rw.constant_of(term, tensor.elem)], tensor)
    return x
