"""Vectors of a row of a plane: which of their lanes lie inside it, and every n-th element of several."""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith, vector

from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels import scalars


def inside(lanes: int, first: im.Index, extent: im.Index) -> ir.Value | None:
    """Which lanes, those of elements `first` and on, lie in [0, extent); None: all."""
    type_ = ir.VectorType.get([lanes], ir.IntegerType.get_signless(1))
    if isinstance(first, int) and isinstance(extent, int):
        if first >= 0 and first + lanes <= extent:
            return None
        bits = [ir.BoolAttr.get(0 <= first + i < extent) for i in range(lanes)]
        return arith.constant(type_, ir.DenseElementsAttr.get(bits, type_))
    bounds = [im.value(im.maximum(at, 0)) for at in (im.sub(extent, first), im.sub(0, first))]
    before, skipped = (vector.create_mask(type_, [at]) for at in bounds)
    return arith.andi(before, arith.xori(skipped, scalars.constant(1, type_)))


def every(vectors: list[ir.Value], stride: int, phase: int) -> ir.Value:
    """Of the elements of `vectors`, one behind the other, number `phase` and every `stride`-th from there."""
    lanes = ir.VectorType(vectors[0].type).shape[0]
    found = vectors[0]
    for number, v in enumerate(vectors):
        wanted = [(i * stride + phase) // lanes for i in range(lanes)]
        lane = [(i * stride + phase) % lanes for i in range(lanes)]
        if number:
            found = vector.shuffle(found, v, [lanes + lane[i] if wanted[i] == number else i for i in range(lanes)])
        elif stride > 1:
            found = vector.shuffle(v, v, [lane[i] if wanted[i] == 0 else 0 for i in range(lanes)])
    return found
