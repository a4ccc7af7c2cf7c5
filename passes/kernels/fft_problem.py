"""What the kernels of Fourier convolution read of their op: the tile, how many an image has, images of two axes.

A tensor of one spatial axis is an image of one row.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from onnxc.dialects.onnx import OnnxOp
from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels.builder import Buffer
from onnxc.passes.kernels.fft_points import FftTile
from onnxc.passes.kernels.tile_grid import TileGrid, result_extents


def tile_of(op: OnnxOp) -> FftTile:
    return FftTile(tuple(op.attr("tile")), tuple(op.attr("window")))


def grid_of(op: OnnxOp) -> TileGrid:
    """The tiles of a kernel.fft, or of a step of one."""
    tile = tile_of(op)
    return TileGrid.over(result_extents(op, tile.window), tile.steps)


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
