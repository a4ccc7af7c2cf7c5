"""Kernel kind `winograd` over images whose size only a run tells: a group of tiles at a time (tile_groups.py).

kernel.winograd(x, u [points², C, M], scratch [PIECES, …], bias?) {tile, pads, group}
"""

from __future__ import annotations

from onnxc.passes.kernels import contraction, pointers, tile_groups, winograd_input
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.kernel_function import ELEMENT, KernelFunction, Launch
from onnxc.passes.kernels.scratch_pieces import BIAS
from onnxc.passes.kernels.tile_groups import candidates, choose, packings
from onnxc.passes.kernels.winograd_output import OutputTransform
from onnxc.passes.kernels.winograd_points import SIZES, grid_of

__all__ = ["candidates", "choose", "emit", "launch", "packings"]


def launch(kernel: KernelFunction) -> Launch:
    return tile_groups.launch(kernel, grid_of(kernel.root), ELEMENT * SIZES[kernel.root.attr("tile")] ** 2 // 16)


def emit(b: KernelBuilder) -> None:
    op = b.kernel.root
    x = b.inputs[op.operands[0]]
    sums = contraction.arithmetic(x.elem, b.target)
    base, zeros = pointers.pointer(x.memory), pointers.zeros(b, x, x.shape[3])
    back = OutputTransform(b, op.operands[BIAS] if len(op.operands) > BIAS else None)
    tile_groups.emit(
        b,
        grid_of(op),
        sums,
        lambda i, image, place, out: winograd_input.transform_tile(b, sums, base, zeros, out, i, image, *place),
        lambda i, image, place, out: back.tile(out, i, [image, *place]),
    )
