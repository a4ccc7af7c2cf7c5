"""Simplification of ops that only rename elements: Reshape and its kin, Transpose, Identity, Dropout, Cast, blocks; and
of reductions of such."""

from __future__ import annotations

import numpy as np
from mlir import ir

from onnxc.dialects import dims
from onnxc.dialects.onnx import OnnxOp
from onnxc.dialects.types import Tensor
from onnxc.passes.recorded_values import ATTRIBUTE, values_attribute
from onnxc.passes.rewriting import Rewriter
from onnxc.passes.simplifications.registry import simplifies

# Element types whose every value the listed types hold exactly.
_WIDER = {
    "i1": "i8 i16 i32 i64 ui8 ui16 ui32 ui64 f16 bf16 f32 f64",
    "i8": "i16 i32 i64 f16 bf16 f32 f64",
    "ui8": "i16 i32 i64 ui16 ui32 ui64 f16 bf16 f32 f64",
    "i16": "i32 i64 f32 f64",
    "ui16": "i32 i64 ui32 ui64 f32 f64",
    "i32": "i64 f64",
    "ui32": "i64 ui64 f64",
    "f16": "f32 f64",
    "bf16": "f32 f64",
    "f32": "f64",
}
EXACT = {(narrow, wide) for narrow, wides in _WIDER.items() for wide in wides.split()}


@simplifies("Identity")
def identity(op: OnnxOp, rw: Rewriter) -> ir.Value:
    return op.operands[0]


@simplifies("Dropout")
def dropout(op: OnnxOp, rw: Rewriter) -> list[ir.Value] | None:
    """Without training it is the identity, and its mask all true."""
    training = op.operands[2] if len(op.operands) > 2 else None
    if training is not None and rw.scalar(training) is not False:
        return None
    if len(op.results) == 1:
        return [op.operands[0]]
    mask = Tensor.of(op.results[1].type)
    return [op.operands[0], rw.expand(rw.constant(np.array(True)), mask.dims)]


@simplifies("CastLike")
def cast_like(op: OnnxOp, rw: Rewriter) -> ir.Value:
    return rw.cast(op.operands[0], Tensor.of(op.results[0].type).elem)


@simplifies("Cast")
def cast(op: OnnxOp, rw: Rewriter) -> ir.Value | None:
    x, to = op.operands[0], Tensor.of(op.results[0].type).elem
    elem = Tensor.of(x.type).elem
    if elem == to:
        return x
    inner = rw.producer(x, "Cast")
    if inner is not None and (Tensor.of(inner.operands[0].type).elem, elem) in EXACT:
        return rw.cast(inner.operands[0], to)
    return None


@simplifies("Reshape", "Flatten", "Squeeze", "Unsqueeze")
def reshape(op: OnnxOp, rw: Rewriter) -> ir.Value | None:
    """One Reshape from the first of a chain, with the result's own dims for a shape."""
    x, result = op.operands[0], Tensor.of(op.results[0].type)
    source = rw.producer(x, "Reshape", "Flatten", "Squeeze", "Unsqueeze")
    root = x if source is None else source.operands[0]
    if result.shape is None:
        return None
    if Tensor.of(root.type).shape == result.shape:
        return root
    normal = op.name == "Reshape" and op.attr("allowzero", 0) == 1 and op.values(1) == list(result.shape)
    return None if normal and source is None else rw.reshape(root, result.shape)


@simplifies("Transpose")
def transpose(op: OnnxOp, rw: Rewriter) -> ir.Value | None:
    x = op.operands[0]
    tensor = Tensor.of(x.type)
    if tensor.shape is None:
        return None
    perm = permutation(op, len(tensor.shape))
    moved = [axis for axis in perm if tensor.shape[axis] != 1]
    if perm == sorted(perm):
        return x
    if moved == sorted(moved):  # only dims of size 1 move: no element does
        return rw.reshape(x, [tensor.shape[axis] for axis in perm])
    inner = rw.producer(x, "Transpose")
    if inner is not None:
        first = permutation(inner, len(perm))
        return rw.transpose(inner.operands[0], [first[axis] for axis in perm])
    return None


@simplifies(
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum",
    "ReduceLogSumExp", "ReduceSumSquare",
)  # fmt: skip
def reduce_transposed(op: OnnxOp, rw: Rewriter) -> ir.Value | None:
    """A reduction of a Transpose that nothing else reads: reduces first, and turns what is left."""
    inner = rw.producer(op.operands[0], "Transpose")
    given = op.values(1)
    if inner is None or not given or not all(isinstance(axis, int) for axis in given):
        return None
    x, result = inner.operands[0], Tensor.of(op.results[0].type)
    tensor = Tensor.of(x.type)
    if tensor.shape is None or result.shape is None or not rw.single_use(op.operands[0]):
        return None
    perm = permutation(inner, len(tensor.shape))
    axes = sorted(perm[axis % len(perm)] for axis in given)
    keeps = op.attr("keepdims", 1)
    turned = [axis for axis in perm if keeps or axis not in axes]  # the result's axes, by x's numbers
    left = sorted(turned)
    shape = [1 if axis in axes else tensor.shape[axis] for axis in left]
    attrs = rw.attributes(op) | {ATTRIBUTE: values_attribute({1: axes}, x.context)}
    reduced = rw.one(op.name, [x, rw.absent()], result.of_shape(shape), attrs)
    return rw.transpose(reduced, [left.index(axis) for axis in turned])


def permutation(op: OnnxOp, rank: int) -> list[int]:
    """The `perm` of a Transpose, or its default."""
    return list(op.attr("perm") or range(rank - 1, -1, -1))


@simplifies("DepthToSpace")
def depth_to_space(op: OnnxOp, rw: Rewriter) -> ir.Value | None:
    """Reshape, Transpose, Reshape: the blocks' axes are split off the channels and put behind rows and columns."""
    tensor, block = Tensor.of(op.operands[0].type), op.attr("blocksize")
    if tensor.rank != 4:
        return None
    batch, channels, height, width = tensor.dims
    depth = dims.floordiv(channels, block * block)
    if op.attr("mode", "DCR") == "DCR":
        split, perm = [batch, block, block, depth, height, width], [0, 3, 4, 1, 5, 2]
    else:
        split, perm = [batch, depth, block, block, height, width], [0, 1, 4, 2, 5, 3]
    moved = rw.transpose(rw.reshape(op.operands[0], split), perm)
    return rw.reshape(moved, [batch, depth, height * block, width * block])


@simplifies("SpaceToDepth")
def space_to_depth(op: OnnxOp, rw: Rewriter) -> ir.Value | None:
    tensor, block = Tensor.of(op.operands[0].type), op.attr("blocksize")
    if tensor.rank != 4:
        return None
    batch, channels, height, width = tensor.dims
    rows, columns = dims.floordiv(height, block), dims.floordiv(width, block)
    split = rw.reshape(op.operands[0], [batch, channels, rows, block, columns, block])
    perm = [0, 3, 5, 1, 2, 4] if op.attr("mode", "DCR") == "DCR" else [0, 1, 3, 5, 2, 4]
    return rw.reshape(rw.transpose(split, perm), [batch, channels * block * block, rows, columns])
