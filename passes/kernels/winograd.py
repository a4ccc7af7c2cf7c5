"""Kernel kind `winograd`: a 3×3 convolution by Winograd's filtering, a few tiles at a time.

    kernel.winograd(x, u [points², C, M], scratch, bias?) {tile, tiles, pads, group}
Over images of known sizes in equal units (winograd_units.py); without `tiles` over images whose size only a run tells
(winograd_free.py). For weights that stay in cache, or for any where sizes are free; larger ones are better read once
for all tiles (winograd_input, a matmul, winograd_output).
"""

from __future__ import annotations

from types import ModuleType

from onnxc.passes.kernels import winograd_free, winograd_units
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.kernel_function import KernelFunction, Launch
from onnxc.passes.kernels.packing import Packing


def _emitter(kernel: KernelFunction) -> ModuleType:
    return winograd_units if kernel.root.has_attr("tiles") else winograd_free


def choose(kernel: KernelFunction, target, panel: int = 0) -> dict[str, int | str]:
    return _emitter(kernel).choose(kernel, target, panel)


def candidates(kernel: KernelFunction, target) -> list[dict[str, int | str]]:
    """Other register tiles of the products, the heuristic's first."""
    return _emitter(kernel).candidates(kernel, target)


def packings(kernel: KernelFunction) -> list[Packing]:
    return _emitter(kernel).packings(kernel)


def launch(kernel: KernelFunction) -> Launch:
    return _emitter(kernel).launch(kernel)


def emit(b: KernelBuilder) -> None:
    _emitter(b.kernel).emit(b)
