"""This file spells out the internal channels-last ops with the onnx ops they stand for, for the interpreter."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

RunNode = Callable[..., list[np.ndarray]]
ONNX = {
    "kernel.conv": "onnx.Conv",
    "kernel.conv_transpose": "onnx.ConvTranspose",
    "kernel.max_pool": "onnx.MaxPool",
    "kernel.average_pool": "onnx.AveragePool",
}


def run(
    name: str, attrs: dict[str, object], operands: Sequence[np.ndarray | None], run_node: RunNode
) -> list[np.ndarray]:
    """A channels-last op on arrays: channels first, the onnx op, channels last again."""
    x, *rest = operands
    inputs = [np.ascontiguousarray(np.moveaxis(x, -1, 1))]
    if rest:
        rank = x.ndim
        perm = (rank - 1, rank - 2) if name == "kernel.conv" else (rank - 2, rank - 1)
        inputs += [np.ascontiguousarray(rest[0].transpose(*perm, *range(rank - 2))), *rest[1:]]
    (y,) = run_node(ONNX[name], attrs, inputs)
    return [np.ascontiguousarray(np.moveaxis(y, 1, -1))]
