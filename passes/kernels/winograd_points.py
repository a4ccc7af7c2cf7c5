"""Winograd's minimal filtering F(m×m, 3×3): the transforms of weights, inputs and outputs in one dimension.

F(2) with points 0, ±1, ∞; F(4) with 0, ±√½, ±√2, ∞, which errs half as much as the usual 0, ±1, ±2. Rms errors in units
of the direct sum's, of 64, 128 and 512 channels: F(2) 0.7, 0.9, 1.7, F(4) 2.1, 2.8, 5.2 (direct sums of many channels
are added up in parts, so they err less); at most 5e-6 of the scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from mlir import ir

from onnxc.dialects import dims
from onnxc.dialects.onnx import OnnxOp
from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels import scalars
from onnxc.passes.kernels.contraction import Arithmetic
from onnxc.passes.kernels.tile_grid import TileGrid, result_extents

SIZES = {2: 4, 4: 6}  # results a tile and dimension → inputs
_A, _B = sqrt(0.5), sqrt(2.0)
WEIGHTS = {
    2: np.array([[1, 0, 0], [0.5, 0.5, 0.5], [0.5, -0.5, 0.5], [0, 0, 1]]),
    4: np.array(
        [
            [1, 0, 0],
            *([[1 / n, p / n, p * p / n] for p, n in ((_A, -1.5), (-_A, -1.5), (_B, 6.0), (-_B, 6.0))]),
            [0, 0, 1],
        ]
    ),
}


def grid_of(op: OnnxOp) -> TileGrid:
    """The tiles of a kernel.winograd, or of a step of one."""
    return TileGrid.over(result_extents(op, (3, 3)), (op.attr("tile"),) * 2)


@dataclass(frozen=True)
class Depth:
    """Of a convolution of volumes, attribute `depth`: a plane of the result adds up `taps` planes of x, whose channels
    are those of one image. Planes of the result are numbered through all volumes, `out` each."""

    taps: int
    out: int
    stride: int
    dilation: int
    pad: int  # before

    @classmethod
    def of(cls, op: OnnxOp) -> Depth:
        """Images are volumes of one plane, which adds up itself."""
        return cls(*op.attr("depth")) if op.has_attr("depth") else cls(1, 1, 1, 1, 0)

    def source(self, number: im.Index, tap: im.Index) -> tuple[im.Index, im.Index]:
        """The volume, and the plane of x in it, that plane `number` of the result adds up at a tap; maybe outside."""
        volume, plane = (number, 0) if self.out == 1 else (im.floordiv(number, self.out), im.mod(number, self.out))
        first = im.sub(im.mul(plane, self.stride), self.pad)
        return volume, im.add(first, im.mul(tap, self.dilation))


def images_of(op: OnnxOp) -> dims.Dim:
    """How many images, or planes of volumes, the result of a kernel.winograd or a last step has."""
    return dims.product(Tensor.of(op.results[0].type).shape[:-3])


def transformed_weights(weights: np.ndarray, tile: int) -> np.ndarray:
    """[3, 3, C, M] → [points², C, M]; of volumes [K, 3, 3, C, M] → [points², K·C, M]."""
    if weights.ndim == 5:
        weights = np.moveaxis(weights, 0, 2).reshape(3, 3, -1, weights.shape[-1])
    g = WEIGHTS[tile]
    rows = np.tensordot(g, weights.astype(np.float64), axes=(1, 0))  # [p, 3, C, M]
    both = np.tensordot(g, rows, axes=(1, 1))  # [p', p, C, M]
    points = SIZES[tile]
    return both.transpose(1, 0, 2, 3).reshape(points * points, *weights.shape[2:]).astype(weights.dtype)


class Transforms:
    """Emits the one-dimensional transforms on vectors."""

    def __init__(self, sums: Arithmetic, tile: int):
        self.sums, self.tile = sums, tile

    def _fma(self, factor: float, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.sums.multiply_add(scalars.constant_like(factor, a), a, b)

    def inputs(self, d: Sequence[ir.Value]) -> list[ir.Value]:
        """Bᵀ·d."""
        add, sub, fma = scalars.add, scalars.sub, self._fma
        if self.tile == 2:
            return [sub(d[0], d[2]), add(d[1], d[2]), sub(d[2], d[1]), sub(d[1], d[3])]
        even, odd = fma(-2.0, d[2], d[4]), fma(-2.0, d[1], d[3])
        even2, odd2 = fma(-0.5, d[2], d[4]), fma(-0.5, d[1], d[3])
        return [
            fma(-2.5, d[2], add(d[0], d[4])),
            fma(_A, odd, even),
            fma(-_A, odd, even),
            fma(_B, odd2, even2),
            fma(-_B, odd2, even2),
            fma(-2.5, d[3], add(d[1], d[5])),
        ]

    def outputs(self, m: Sequence[ir.Value]) -> list[ir.Value]:
        """Aᵀ·m."""
        add, sub, fma = scalars.add, scalars.sub, self._fma
        if self.tile == 2:
            return [add(add(m[0], m[1]), m[2]), sub(sub(m[1], m[2]), m[3])]
        even, odd, even2, odd2 = add(m[1], m[2]), sub(m[1], m[2]), add(m[3], m[4]), sub(m[3], m[4])
        scaled = scalars.mul(odd, scalars.constant_like(_A, odd))
        half = scalars.mul(scaled, scalars.constant_like(0.5, odd))
        return [
            add(add(m[0], even), even2),
            fma(_B, odd2, scaled),
            fma(2.0, even2, scalars.mul(even, scalars.constant_like(0.5, even))),
            fma(2.0 * _B, odd2, add(half, m[5])),
        ]

    def square(self, values: Sequence[Sequence[ir.Value]], line) -> list[list[ir.Value]]:
        """`line` along the columns, then along the rows of a square of vectors."""
        columns = [line(column) for column in zip(*values, strict=True)]
        return [line(row) for row in zip(*columns, strict=True)]
