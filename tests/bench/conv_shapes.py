"""Convolutions of all kinds, as networks have them: what the sweep of algorithms and tests of tuning measure."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


@dataclass(frozen=True)
class ConvShape:
    """One convolution with a bias over one image; `size` and `window` are spatial. SAME padding."""

    size: tuple[int, ...]
    channels: int
    filters: int
    window: tuple[int, ...]
    stride: int = 1
    dilation: int = 1

    def __str__(self) -> str:
        steps = (f"/{self.stride}" if self.stride > 1 else "") + (f" d{self.dilation}" if self.dilation > 1 else "")
        size, window = ("×".join(map(str, v)) for v in (self.size, self.window))
        return f"{size} {self.channels}→{self.filters} {window}{steps}"

    @property
    def pads(self) -> list[int]:
        reach = [(k - 1) * self.dilation for k in self.window]
        return [r // 2 for r in reach] + [r - r // 2 for r in reach]

    @property
    def out(self) -> list[int]:
        return [(d - 1) // self.stride + 1 for d in self.size]

    @property
    def flops(self) -> int:
        """Of the plain sum."""
        return 2 * prod(self.out) * prod(self.window) * self.channels * self.filters


def square(side: int, channels: int, filters: int, window: int, stride: int = 1, dilation: int = 1) -> ConvShape:
    return ConvShape((side, side), channels, filters, (window, window), stride, dilation)


def line(length: int, channels: int, filters: int, window: int, stride: int = 1, dilation: int = 1) -> ConvShape:
    return ConvShape((length,), channels, filters, (window,), stride, dilation)


SHAPES = (
    # the first layers of networks
    square(112, 3, 64, 7, 2), square(112, 3, 32, 3, 2), square(56, 3, 16, 5), square(56, 4, 96, 11, 4),
    square(64, 3, 64, 15, 2), square(112, 1, 32, 3), square(64, 3, 64, 9),
    # pointwise
    square(56, 64, 256, 1), square(28, 512, 128, 1), square(14, 256, 512, 1, 2), square(7, 512, 512, 1),
    # 3×3
    square(56, 16, 16, 3), square(56, 32, 32, 3), square(56, 64, 64, 3), square(28, 128, 128, 3),
    square(14, 256, 256, 3), square(7, 512, 512, 3), square(28, 64, 19, 3), square(28, 20, 40, 3),
    square(56, 64, 128, 3, 2), square(28, 128, 256, 3, 2), square(28, 64, 64, 3, 1, 2), square(14, 17, 33, 3, 1, 4),
    square(7, 96, 96, 3), square(112, 24, 24, 3),
    # and of large images
    square(256, 16, 16, 3), square(256, 3, 16, 3), square(160, 32, 32, 3), square(128, 64, 64, 3), square(80, 128, 128, 3),
    square(40, 256, 256, 3), square(160, 16, 24, 5), square(320, 8, 8, 3),
    # larger windows
    square(56, 16, 16, 5), square(28, 32, 64, 5), square(28, 96, 96, 5), square(14, 48, 128, 5), square(7, 160, 160, 5),
    square(56, 32, 32, 7), square(28, 64, 64, 7), square(14, 128, 128, 7), square(28, 24, 24, 7, 2),
    square(56, 32, 32, 9), square(28, 48, 48, 9), square(28, 32, 32, 11), square(64, 16, 3, 9),
    square(28, 32, 32, 15), square(56, 12, 12, 15), square(14, 64, 64, 11),
    # one axis only
    ConvShape((28, 28), 128, 128, (1, 7)), ConvShape((28, 28), 128, 128, (7, 1)), ConvShape((14, 14), 192, 192, (7, 1)),
    # speech and sound
    line(1000, 80, 256, 3), line(1000, 128, 128, 7), line(1000, 128, 128, 11), line(4000, 32, 32, 11),
    line(1000, 64, 64, 31), line(1000, 256, 256, 3), line(8000, 1, 64, 31), line(2000, 64, 64, 15, 2),
    line(1000, 64, 64, 7, 1, 9), line(8000, 16, 16, 63), line(500, 256, 256, 15),
    line(4000, 2, 256, 33, 1, 2), line(64000, 16, 16, 31),
)  # fmt: skip


def model(shape: ConvShape, rng: np.random.Generator) -> onnx.ModelProto:
    """Channels last outside, so that nothing but the convolution is left of it."""
    rank = len(shape.size)
    x = [1, *shape.size, shape.channels]
    y = [1, *shape.out, shape.filters]
    scale = (shape.channels * prod(shape.window)) ** -0.5
    w = rng.standard_normal((shape.filters, shape.channels, *shape.window), np.float32) * np.float32(scale)
    bias = rng.standard_normal(shape.filters, np.float32)
    nodes = [
        helper.make_node("Transpose", ["x"], ["first"], perm=[0, rank + 1, *range(1, rank + 1)]),
        helper.make_node("Conv", ["first", "w", "b"], ["made"], pads=shape.pads, strides=[shape.stride] * rank,
                         dilations=[shape.dilation] * rank),
        helper.make_node("Transpose", ["made"], ["y"], perm=[0, *range(2, rank + 2), 1]),
    ]  # fmt: skip
    inputs, outputs = (
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims)] for name, dims in (("x", x), ("y", y))
    )
    weights = [numpy_helper.from_array(w, "w"), numpy_helper.from_array(bias, "b")]
    graph = helper.make_graph(nodes, "conv", inputs, outputs, weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
