"""Kernel kind `fft`: a convolution by Fourier transforms, a group of tiles at a time (tile_groups.py).

    kernel.fft(x, u [points, C, M], scratch [PIECES, …], bias?) {tile, window, pads, group}
For weights that stay in cache beside a group's spectra, and for images whose size only a run tells; else weights are
better read once for all tiles (fft_input, a matmul, fft_output).
"""

from __future__ import annotations

from onnxc.passes.kernels import tile_groups
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.fft_input import InputTransform
from onnxc.passes.kernels.fft_output import OutputTransform
from onnxc.passes.kernels.fft_problem import grid_of, tile_of
from onnxc.passes.kernels.kernel_function import ELEMENT, KernelFunction, Launch
from onnxc.passes.kernels.scratch_pieces import BIAS
from onnxc.passes.kernels.tile_groups import candidates, choose, packings

__all__ = ["candidates", "choose", "emit", "launch", "packings"]


def launch(kernel: KernelFunction) -> Launch:
    tile = tile_of(kernel.root)
    return tile_groups.launch(kernel, grid_of(kernel.root), ELEMENT * tile.height * tile.width)


def emit(b: KernelBuilder) -> None:
    op = b.kernel.root
    into = InputTransform(b)
    back = OutputTransform(b, op.operands[BIAS] if len(op.operands) > BIAS else None, into.lines)
    tile_groups.emit(b, grid_of(op), into.sums, into.apply, back.apply)
