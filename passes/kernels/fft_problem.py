"""What the kernels of Fourier convolution read of their op: the tile, the grid of tiles, images as rows and columns.

A tensor of one spatial axis is an image of one row.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import memref

from onnxc.dialects.onnx import OnnxOp
from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels import scalars
from onnxc.passes.kernels.builder import Buffer
from onnxc.passes.kernels.contraction import Arithmetic
from onnxc.passes.kernels.fft_points import FftTile


@dataclass(frozen=True)
class TileGrid:
    """The tiles of each image: `rows` × `columns`, numbered image by image and row by row."""

    tile: FftTile
    rows: int
    columns: int

    @classmethod
    def of(cls, op: OnnxOp) -> TileGrid:
        tile = FftTile(tuple(op.attr("tile")), tuple(op.attr("window")))
        return cls(tile, *op.attr("tiles"))

    @property
    def tiles(self) -> int:
        """Of an image."""
        return self.rows * self.columns

    def corner(self, number: im.Index) -> tuple[im.Index, list[im.Index]]:
        """The image of a tile, and the row and column at which its results begin."""
        image, row, column = im.unflattened(number, [0, self.rows, self.columns])
        return image, [im.mul(i, step) for i, step in zip((row, column), self.tile.steps, strict=True)]


@dataclass(frozen=True)
class Images:
    """A channels-last tensor as images of two axes."""

    extents: list[im.Index]
    strides: list[im.Index]
    image_stride: im.Index
    spatial: int  # axes that the tensor has

    @classmethod
    def of(cls, buffer: Buffer) -> Images:
        spatial = len(buffer.shape) - 2
        missing = 2 - spatial
        return cls([1] * missing + buffer.shape[1:-1], [0] * missing + buffer.strides[1:-1], buffer.strides[0], spatial)

    def point(self, image: im.Index, place: list[im.Index], channel: im.Index) -> list[im.Index]:
        return [image, *place[-self.spatial :], channel]


def channels_of(v: ir.Value) -> int:
    return Tensor.of(v.type).shape[-1]


def line_buffer(sums: Arithmetic, vectors: int) -> Buffer:
    """Room for so many vectors on the stack."""
    size = vectors * sums.lanes
    type_ = ir.MemRefType.get([size], scalars.element_type(sums.compute))
    return Buffer(memref.alloca(type_, [], [], alignment=64), sums.compute, [size], [1])
