"""What kernels that work on tiles of images read of their op: how many tiles an image has, and where each lies.

A tensor of one spatial axis is an image of one row. Extents may be known at run time only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlir import ir

from onnxc.dialects import dims
from onnxc.dialects.onnx import OnnxOp
from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels.builder import KernelBuilder


def result_extents(op: OnnxOp, window: tuple[int, int]) -> tuple[dims.Dim, dims.Dim]:
    """Rows and columns of what a convolution makes: `op` is one, with a window of two axes, or a step of one."""
    if not op.name.endswith("_input"):
        return _two_axes(Tensor.of(op.results[0].type).shape[1:-1], 1)
    pads, spatial = op.attr("pads"), Tensor.of(op.operands[0].type).shape[1:-1]
    axes = len(spatial)
    around = _two_axes([pads[i] + pads[axes + i] for i in range(axes)], 0)
    rows, columns = (d + p - (k - 1) for d, p, k in zip(_two_axes(spatial, 1), around, window, strict=True))
    return rows, columns


def _two_axes(values: Sequence[dims.Dim], missing: int) -> tuple[dims.Dim, dims.Dim]:
    rows, columns = (missing,) * (2 - len(values)) + tuple(values)
    return rows, columns


@dataclass(frozen=True)
class TileGrid:
    """The tiles of each image: `rows` × `columns`, numbered image by image and row by row; a tile's results begin
    `steps` after those of the one before it, along either axis."""

    steps: tuple[int, int]
    rows: dims.Dim
    columns: dims.Dim

    @classmethod
    def over(cls, extents: tuple[dims.Dim, dims.Dim], steps: tuple[int, int]) -> TileGrid:
        rows, columns = (dims.floordiv(d + (step - 1), step) for d, step in zip(extents, steps, strict=True))
        return cls(steps, rows, columns)

    @property
    def tiles(self) -> dims.Dim:
        """Of an image."""
        return self.rows * self.columns

    def walk(
        self,
        b: KernelBuilder,
        first: im.Index,
        count: im.Index,
        visit: Callable[[im.Index, im.Index, list[im.Index]], None],
    ) -> None:
        """Emits `visit(i, image, [row, column])` for tile `first` + i of all images, i in [0, count): rows and columns
        are counted, for divisions by run-time numbers take as long as a small tile's arithmetic."""
        rows, columns = b.dim(self.rows), b.dim(self.columns)
        start = [im.value(i) for i in im.unflattened(first, [0, rows, columns])] if count != 0 else []

        def step(i: ir.Value, image: ir.Value, row: ir.Value, column: ir.Value) -> list[ir.Value]:
            visit(i, image, [row, column])
            after = im.add(column, 1)
            line = im.compare(after, "==", columns)
            below = im.select(line, im.add(row, 1), row)
            whole = im.compare(below, "==", rows)
            nexts = im.select(whole, im.add(image, 1), image), im.select(whole, 0, below), im.select(line, 0, after)
            return [im.value(n) for n in nexts]

        b.reduce(0, count, 1, start, step)
