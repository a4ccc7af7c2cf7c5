"""The packed right-hand side of a matrix product: panels of columns as wide as the register tile, terms in order."""

from __future__ import annotations

import numpy as np

from onnxc.dialects.types import Tensor
from onnxc.passes.kernels.kernel_function import KernelFunction
from onnxc.passes.kernels.matmul_problem import Matmul
from onnxc.passes.kernels.packing import Packing


def matrix_panels(kernel: KernelFunction, p: Matmul, width: int) -> Packing:
    """B, [batch…, K, N] or transposed, as [batch…][panel][k][column]."""
    transposed = p.trans_b
    *batch, k, n = Tensor.of(kernel.operands[p.b_position].type).shape
    if transposed:
        k, n = n, k
    panels = -(-n // width)

    def make(array: np.ndarray) -> np.ndarray:
        matrix = array.reshape(*batch, *((n, k) if transposed else (k, n)))
        matrix = np.swapaxes(matrix, -1, -2) if transposed else matrix
        if panels * width > n:
            padded = np.zeros((*batch, k, panels * width), array.dtype)
            padded[..., :n] = matrix
            matrix = padded
        return np.moveaxis(matrix.reshape(*batch, k, panels, width), -3, -2)

    layout = f"{'transposed' if transposed else 'panels'}{width}"
    return Packing(p.b_position, (*batch, panels, k, width), layout, make, width, widens=True)
