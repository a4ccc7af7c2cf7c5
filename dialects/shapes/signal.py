"""This file infers shapes of signal processing: windows, Fourier transforms, mel weights."""

from __future__ import annotations

from onnxc.dialects import dims
from onnxc.dialects.shapes.registry import ShapeContext, infers
from onnxc.dialects.types import Tensor


@infers("BlackmanWindow", "HammingWindow", "HannWindow")
def window(c: ShapeContext) -> list[Tensor]:
    return [Tensor(c.element("output_datatype", 1), c.sizes(0))]


@infers("MelWeightMatrix")
def mel_weight_matrix(c: ShapeContext) -> list[Tensor]:
    (bins,), (length,) = c.sizes(0), c.sizes(1)
    return [Tensor(c.element("output_datatype", 1), (dims.floordiv(length, 2) + 1, bins))]


@infers("DFT")
def dft(c: ShapeContext) -> list[Tensor]:
    x = list(c.shape(0))
    axis = c.axis(c.constants(2, "axis")[0] if c.has(2) else -2, len(x))
    length = c.sizes(1)[0] if c.has(1) else x[axis]
    onesided, inverse = c.attr("onesided", 0), c.attr("inverse", 0)
    if onesided and inverse:
        length = c.sizes(1)[0] if c.has(1) else (x[axis] - 1) * 2
    x[axis] = dims.floordiv(length, 2) + 1 if onesided and not inverse else length
    x[-1] = 1 if onesided and inverse else 2
    return [Tensor(c.elem(0), tuple(x))]


@infers("STFT")
def stft(c: ShapeContext) -> list[Tensor]:
    batch, length, *_ = c.ranked(0, 2, 3)
    (step,) = c.sizes(1)
    frame = c.sizes(3)[0] if c.has(3) else c.ranked(2, 1)[0]
    bins = dims.floordiv(frame, 2) + 1 if c.attr("onesided", 1) else frame
    return [Tensor(c.elem(0), (batch, dims.floordiv(length - frame, step) + 1, bins, 2))]


@infers("Det")
def det(c: ShapeContext) -> list[Tensor]:
    x = c.shape(0)
    c.same(x[-1], x[-2], "rows and columns")
    return [Tensor(c.elem(0), x[:-2])]
