"""This file spells out the internal ops of convolutions and pools with the onnx ops they stand for."""

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
# Those that are channels first already: their weights as onnx has them.
PLANES = {
    "kernel.conv_planes": lambda w: np.ascontiguousarray(np.moveaxis(w, -1, 1)),
    "kernel.depthwise_planes": lambda w: w,
}


def run(
    name: str, attrs: dict[str, object], operands: Sequence[np.ndarray | None], run_node: RunNode
) -> list[np.ndarray]:
    """An internal op on arrays; a channels-last one: channels first, the onnx op, channels last again."""
    x, *rest = operands
    if name in PLANES:
        return run_node("onnx.Conv", {"group": x.shape[1], **attrs}, [x, PLANES[name](rest[0]), *rest[1:]])
    inputs = [np.ascontiguousarray(np.moveaxis(x, -1, 1))]
    if rest:
        rank = x.ndim
        perm = (rank - 1, rank - 2) if name == "kernel.conv" else (rank - 2, rank - 1)
        inputs += [np.ascontiguousarray(rest[0].transpose(*perm, *range(rank - 2))), *rest[1:]]
    (y,) = run_node(ONNX[name], attrs, inputs)
    return [np.ascontiguousarray(np.moveaxis(y, 1, -1))]
