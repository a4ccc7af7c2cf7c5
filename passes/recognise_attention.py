"""graph -> graph: softmax(Q·Kᵀ·scale + mask)·V is one op, on tensors with the heads still side by side where possible.

Before:  %q = "onnx.Transpose"("onnx.Reshape"(%q3, [B, S, H, D])) {perm = [0, 2, 1, 3]}        %k, %v likewise
         %1 = "onnx.MatMul"(%q, "onnx.Transpose"(%k) {perm = [0, 1, 3, 2]})
         %2 = "onnx.Add"("onnx.Mul"(%1, %scale), %mask)      %3 = "onnx.Softmax"(%2)      %4 = "onnx.MatMul"(%3, %v)
         %5 = "onnx.Reshape"("onnx.Transpose"(%4) {perm = [0, 2, 1, 3]}, [B, S, H·D])
After:   %5 = "onnx.Attention"(%q3, %k3, %v3, %mask) {scale, q_num_heads, kv_num_heads}
Or:      %4 = "onnx.Attention"(%q, %k, %v, %mask) {scale}, where some of them do not come from such a Reshape (a cache).
Keeps:   values up to rounding; what the kernel cannot take (fuse_attention.py); scores or weights that something else
         reads too. A Where by a mask with a number of at most -1e9 is an additive mask: adding that number loses the
         score in rounding.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from mlir import ir

from onnxc.dialects.levels import GRAPH
from onnxc.dialects.onnx import OnnxOp
from onnxc.dialects.types import Tensor
from onnxc.passes.contract import Program, transforms
from onnxc.passes.fuse_attention import takes_heads
from onnxc.passes.patterns.registry import product
from onnxc.passes.rewriting import Rewriter, rewrite

HEADS_FIRST = [0, 2, 1, 3]
MASKED = -1e9


@transforms(GRAPH, GRAPH)
def recognise_attention(program: Program) -> None:
    rewrite(program, {"MatMul": [attention], "Reshape": [joined_heads]})


@dataclass(frozen=True)
class Scores:
    """scale · Q·Kᵀ + mask, with K as it is multiplied (transposed)."""

    q: ir.Value
    transposed_k: ir.Value
    scale: float
    mask: ir.Value | None


def attention(op: OnnxOp, rw: Rewriter) -> ir.Value | None:
    weights, v = op.operands
    weights = _without_test(weights, rw)
    softmax = rw.producer(weights, "Softmax")
    rank = Tensor.of(v.type).rank
    if softmax is None or rank != 4 or Tensor.of(weights.type).rank != 4 or not rw.single_use(weights):
        return None
    if softmax.attr("axis", -1) not in (-1, 3) or not rw.single_use(softmax.operands[0]):
        return None
    scores = _scores(softmax.operands[0], rw)
    if scores is None or rw.keeps_its_own(op.node) or rw.keeps_its_own(softmax.node):
        return None
    k = _untransposed(scores.transposed_k, rw)
    heads = {Tensor.of(value.type).dims[1] for value in (scores.q, k, v)}
    if len(heads) != 1 or Tensor.of(k.type).dims[0] != Tensor.of(scores.q.type).dims[0]:
        return None  # broadcast operands
    if not takes_heads(*(Tensor.of(value.type) for value in (scores.q, k, v))):
        return None
    mask = [] if scores.mask is None or _number(scores.mask, rw) == 0 else [scores.mask]
    return rw.one("Attention", [scores.q, k, v, *mask], op.results[0].type, {"scale": scores.scale})


def _without_test(weights: ir.Value, rw: Rewriter) -> ir.Value:
    """The weights behind a Where that makes those of rows without any allowed key 0, where the mask forbids none.

    (The operator's definition has it, with a mask of zeros if none is given. Without keys there are no weights.)"""
    where = rw.producer(weights, "Where")
    shape = Tensor.of(weights.type).dims
    if where is None or not rw.single_use(weights) or Tensor.of(where.operands[2].type).dims != shape:
        return weights
    test = rw.producer(where.operands[0], "Equal")
    if test is None or rw.scalar(test.operands[1]) != -np.inf:
        return weights
    best = rw.producer(test.operands[0], "ReduceMax")
    number = None if best is None else _number(best.operands[0], rw)
    if best is None or number is None or not np.isfinite(number):
        return weights
    mask = Tensor.of(best.operands[0].type)
    keys = [axis % mask.rank for axis in best.values(1) or ()] == [mask.rank - 1] and mask.dims[-1] == shape[-1]
    return where.operands[2] if keys and best.attr("keepdims", 1) else weights


def _number(value: ir.Value, rw: Rewriter) -> float | None:
    """What every element of a ConstantOfShape is."""
    op = rw.producer(value, "ConstantOfShape")
    if op is None:
        return None
    given = op.attr("value", None)
    return 0.0 if given is None else float(np.asarray(given).reshape(-1)[0])


def _scores(value: ir.Value, rw: Rewriter) -> Scores | None:
    """Reads the scores backwards: a mask, a factor, the product of Q and Kᵀ."""
    mask, shape = None, Tensor.of(value.type).dims
    op = rw.producer(value, "Add", "Where")
    if op is not None:
        found = _masked(op, rw)
        if found is None or Tensor.of(found[1].type).dims[-1:] != shape[-1:]:
            return None
        value, mask = found
        if Tensor.of(value.type).dims != shape or not rw.single_use(value):
            return None
    scale, factors = product(value, rw)
    matmul = rw.producer(factors[0], "MatMul") if len(factors) == 1 else None
    if matmul is None or Tensor.of(factors[0].type).dims != shape or scale <= 0:
        return None
    if any(Tensor.of(operand.type).rank != 4 for operand in matmul.operands):
        return None
    if factors[0] != value and not rw.single_use(factors[0]):
        return None
    (q_scale, q), (k_scale, k) = (_unscaled(operand, rw) for operand in matmul.operands)
    return Scores(q, k, scale * q_scale * k_scale, mask)


def _unscaled(value: ir.Value, rw: Rewriter) -> tuple[float, ir.Value]:
    """`value` as a positive number times a tensor of its shape."""
    scale, factors = product(value, rw, root=False)
    if len(factors) != 1 or scale <= 0 or Tensor.of(factors[0].type).dims != Tensor.of(value.type).dims:
        return 1.0, value
    return scale, factors[0]


def _masked(op: OnnxOp, rw: Rewriter) -> tuple[ir.Value, ir.Value] | None:
    """(scores, what is added to them)"""
    if op.name == "Add":
        return next(
            ((value, other) for value, other in (op.operands, op.operands[::-1]) if _is_scores(value, rw)), None
        )
    condition, value, other = op.operands
    number = rw.scalar(other)
    if number is None or number > MASKED or not _is_scores(value, rw):
        return None
    elem = Tensor.of(value.type).elem
    none, all_of_it = (rw.constant_of(np.array(x), elem) for x in (0.0, number))
    return value, rw.one("Where", [condition, none, all_of_it], Tensor.of(condition.type).of_elem(elem))


def _is_scores(value: ir.Value, rw: Rewriter) -> bool:
    _, factors = product(value, rw)
    return len(factors) == 1 and rw.producer(factors[0], "MatMul") is not None


def _untransposed(transposed: ir.Value, rw: Rewriter) -> ir.Value:
    """K from Kᵀ: without the Transpose that swapped its last axes, else with one more."""
    op = rw.producer(transposed, "Transpose")
    if op is None:
        return rw.transpose(transposed, [0, 1, 3, 2])
    perm = list(op.attr("perm") or [3, 2, 1, 0])
    perm = [perm[0], perm[1], perm[3], perm[2]]
    return op.operands[0] if perm == [0, 1, 2, 3] else rw.transpose(op.operands[0], perm)


def joined_heads(op: OnnxOp, rw: Rewriter) -> ir.Value | None:
    """An Attention whose operands were split into heads, and whose result joins them: on rank 3."""
    heads_first = _behind_turn(op.operands[0], rw)
    inner = rw.producer(heads_first, "Attention")
    if inner is None or not (rw.single_use(op.operands[0]) and rw.single_use(heads_first)):
        return None
    tensor, result = Tensor.of(heads_first.type), Tensor.of(op.results[0].type)
    if tensor.rank != 4 or not isinstance(tensor.dims[1], int):
        return None
    batch, heads, rows, width = tensor.dims
    joined = tensor.of_shape([batch, rows, heads * width])
    if result.shape != joined.shape and not _is_view(tensor):
        return None
    flat = [_flat(value, rw) for value in inner.operands[:3]]
    if any(value is None for value in flat):
        return None
    attrs = {"scale": inner.attr("scale"), "q_num_heads": heads, "kv_num_heads": heads}
    attended = rw.one("Attention", [*flat, *inner.operands[3:]], joined, attrs)
    return attended if result.shape == joined.shape else rw.reshape(attended, result.dims)


def _is_view(tensor: Tensor) -> bool:
    """Whether heads beside rows are in memory as rows beside heads: the Transpose has become a Reshape."""
    return 1 in tensor.dims[1:3]


def _behind_turn(value: ir.Value, rw: Rewriter) -> ir.Value:
    """The [B, H, S, D] behind a [B, S, H, D]; `value` itself where nothing had to be turned."""
    turned = rw.producer(value, "Transpose")
    return turned.operands[0] if turned is not None and list(turned.attr("perm") or ()) == HEADS_FIRST else value


def _flat(value: ir.Value, rw: Rewriter) -> ir.Value | None:
    """[B, S, H·D] behind a [B, H, S, D] that was split into heads."""
    tensor = Tensor.of(value.type)
    batch, heads, rows, width = tensor.dims
    if _is_view(tensor):
        return rw.reshape(value, [batch, rows, heads * width])
    turned = rw.producer(value, "Transpose")
    if turned is None or list(turned.attr("perm") or ()) != HEADS_FIRST:
        return None
    split = rw.producer(turned.operands[0], "Reshape")
    if split is None:
        return None
    source = split.operands[0]
    if Tensor.of(source.type).shape == (batch, rows, heads * width):
        return source
    return rw.reshape(source, [batch, rows, heads * width])
