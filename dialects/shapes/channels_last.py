"""This file infers shapes of the internal windows that work channels last (see passes/to_nhwc.py)."""

from __future__ import annotations

from collections.abc import Sequence

from onnxc.dialects import dims
from onnxc.dialects.dims import Dim
from onnxc.dialects.shapes.registry import ShapeContext, infers
from onnxc.dialects.types import Tensor


@infers("kernel.conv")
def conv(c: ShapeContext) -> list[Tensor]:
    x, w = c.shape(0), c.shape(1)
    return [Tensor(c.elem(0), (x[0], *_windows(c, x[1:-1], w[:-2], False), w[-1]))]


@infers("kernel.depthwise_planes")
def depthwise_planes(c: ShapeContext) -> list[Tensor]:
    """Channels first, as an exception."""
    x, w = c.shape(0), c.shape(1)
    return [Tensor(c.elem(0), (*x[:2], *_windows(c, x[2:], w[2:], False)))]


@infers("kernel.conv_planes")
def conv_planes(c: ShapeContext) -> list[Tensor]:
    x, w = c.shape(0), c.shape(1)
    return [Tensor(c.elem(0), (x[0], w[0], *_windows(c, x[2:], w[1:-1], False)))]


@infers("kernel.max_pool", "kernel.average_pool")
def pool(c: ShapeContext) -> list[Tensor]:
    x = c.shape(0)
    sizes = _windows(c, x[1:-1], c.attr("kernel_shape", []), bool(c.attr("ceil_mode", 0)))
    return [Tensor(c.elem(0), (x[0], *sizes, x[-1]))]


@infers("kernel.conv_transpose")
def conv_transpose(c: ShapeContext) -> list[Tensor]:
    x, w = c.shape(0), c.shape(1)
    strides, dilations, pads = c.attr("strides", []), c.attr("dilations", []), c.attr("pads", [])
    extra, count = c.attr("output_padding", []), len(x) - 2
    sizes = [
        (x[1 + i] - 1) * strides[i] + (w[i] - 1) * dilations[i] + 1 + extra[i] - pads[i] - pads[i + count]
        for i in range(count)
    ]
    return [Tensor(c.elem(0), (x[0], *sizes, w[-1] * c.attr("group", 1)))]


def _windows(c: ShapeContext, sizes: Sequence[Dim], kernel: Sequence[Dim], ceil: bool) -> list[Dim]:
    strides, dilations, pads = c.attr("strides", []), c.attr("dilations", []), c.attr("pads", [])
    result: list[Dim] = []
    for i, size in enumerate(sizes):
        room = size + pads[i] + pads[i + len(sizes)] - (kernel[i] - 1) * dilations[i] - 1
        if ceil:  # a window that would start in the padding behind is left out
            result.append(dims.min(dims.ceildiv(room, strides[i]) + 1, dims.ceildiv(size + pads[i], strides[i])))
        else:
            result.append(dims.floordiv(room, strides[i]) + 1)
    return result
