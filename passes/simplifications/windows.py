"""Simplification of windows: a Pad before a convolution or a pool becomes pads of its own."""

from __future__ import annotations

import numpy as np
from mlir import ir

from onnxc.dialects.onnx import OnnxOp
from onnxc.dialects.types import Tensor
from onnxc.passes.rewriting import Rewriter
from onnxc.passes.simplifications.registry import simplifies


@simplifies("Conv", "ConvInteger", "AveragePool", "MaxPool")
def pad_before_window(op: OnnxOp, rw: Rewriter) -> ir.Value | None:
    """A constant Pad of spatial axes with the filler that the window itself uses: 0, for MaxPool -inf."""
    inner = rw.producer(op.operands[0], "Pad")
    if inner is None or len(op.results) > 1 or inner.attr("mode", "constant") != "constant":
        return None
    if (op.attr("auto_pad", "NOTSET") or "NOTSET") not in ("NOTSET", "VALID") or not _filled(op, inner, rw):
        return None
    pads = _spatial_pads(inner)
    if pads is None or (op.name == "AveragePool" and not _counts_pads(op)):
        return None
    own = op.attr("pads") or [0] * len(pads)
    attrs: dict[str, object] = {"auto_pad": "NOTSET", "pads": [a + b for a, b in zip(own, pads, strict=True)]}
    if op.name == "AveragePool":
        attrs["count_include_pad"] = 1
    return rw.again(op, [inner.operands[0], *op.operands[1:]], attrs)


def _filled(op: OnnxOp, inner: OnnxOp, rw: Rewriter) -> bool:
    value = inner.operands[2] if len(inner.operands) > 2 else None
    filler = 0 if value is None else rw.scalar(value)
    if op.name == "ConvInteger":
        zero = op.operands[2] if len(op.operands) > 2 else None
        return filler is not None and filler == (0 if zero is None else rw.scalar(zero))
    return filler == (-np.inf if op.name == "MaxPool" else 0)


def _spatial_pads(inner: OnnxOp) -> list[int] | None:
    """Pads of the spatial axes as a window has them; None if others are padded, or some are negative or not known."""
    pads, rank = inner.values(1), Tensor.of(inner.operands[0].type).rank
    if pads is None or rank is None or len(pads) != 2 * rank:
        return None
    if not all(isinstance(pad, int) and pad >= 0 for pad in pads) or any(pads[i] for i in (0, 1, rank, rank + 1)):
        return None
    return [*pads[2:rank], *pads[rank + 2 :]]


def _counts_pads(op: OnnxOp) -> bool:
    """Whether an AveragePool divides by the whole window at the border, once it counts its pads."""
    return not op.attr("ceil_mode", 0) and (bool(op.attr("count_include_pad", 0)) or not any(op.attr("pads") or [0]))
