"""The packed right-hand side of a matrix product: panels of columns as wide as the register tile, terms in order.

The products of Winograd's and Fourier convolution have it too, a matrix for each point, whether they are an operator of
their own (a matmul kernel) or a step within a kernel: so both read one copy.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onnxc.dialects.types import Tensor
from onnxc.passes.kernels.kernel_function import KernelFunction
from onnxc.passes.kernels.matmul_problem import Matmul
from onnxc.passes.kernels.packing import Packing


def matrix_panels(kernel: KernelFunction, p: Matmul, width: int) -> Packing:
    """B, [batch…, K, N] or transposed, as [batch…][panel][k][column]."""
    return panels_of(p.b_position, Tensor.of(kernel.operands[p.b_position].type).shape, width, p.trans_b, widens=True)


def panels_of(
    position: int, shape: Sequence[int], width: int, transposed: bool = False, widens: bool = False
) -> Packing:
    """Operand `position`, matrices [batch…, K, N] or transposed."""
    *batch, k, n = shape
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
    return Packing(position, (*batch, panels, k, width), layout, make, width, widens)
