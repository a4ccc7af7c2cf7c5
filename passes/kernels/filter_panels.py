"""The packed weights of a convolution: panels of filters as wide as the register tile, terms in the sum's order."""

from __future__ import annotations

import numpy as np
from mlir import ir

from onnxc.passes.kernels.conv_problem import Conv
from onnxc.passes.kernels.kernel_function import KernelFunction
from onnxc.passes.kernels.packing import Packing


def filter_panels(kernel: KernelFunction, p: Conv, width: int) -> Packing:
    """The root's weights as [group][panel][tap][channel][column]. The kernel notes the window, which they lose."""
    position, panels = kernel.operands.index(kernel.root.operands[1]), -(-p.filters // width)
    shape = (p.group, panels, p.taps, p.channels, width)
    kernel.func.attributes["kernel.window"] = ir.DenseI64ArrayAttr.get(list(p.kernel))

    def make(array: np.ndarray) -> np.ndarray:
        taps = array.reshape(p.taps, p.channels, p.group, p.filters)
        padded = np.zeros((p.taps, p.channels, p.group, panels * width), array.dtype)
        padded[..., : p.filters] = taps
        return padded.reshape(p.taps, p.channels, p.group, panels, width).transpose(2, 3, 0, 1, 4)

    return Packing(position, shape, f"filters{p.group}x{width}", make, width, widens=True)
