"""Depthwise convolution channels first, against the channels-last reference."""

import numpy as np
import pytest

from .harness import run
from .test_conv import reference
from .test_matmul import close, numbers, spell


@pytest.mark.parametrize("size, window, strides, dilations, pads, images", [
    ((9, 20), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 2), ((9, 112), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 1),
    ((7, 150), (5, 3), (2, 1), (2, 1), (2, 0, 1, 3), 1), ((1, 1), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 1),
    ((13, 40), (5, 3), (2, 1), (1, 1), (2, 1, 1, 1), 2), ((3, 300), (3, 3), (1, 1), (1, 1), (1, 1, 1, 1), 1),
    ((20, 33), (3, 5), (3, 1), (1, 2), (0, 4, 0, 4), 1), ((5, 16), (3, 3), (1, 1), (1, 1), (0, 0, 0, 0), 1),
    ((7, 7), (5, 5), (2, 2), (1, 1), (2, 2, 2, 2), 2), ((13, 150), (3, 3), (1, 2), (1, 1), (1, 1, 1, 1), 1),
    ((6, 201), (2, 3), (2, 2), (1, 3), (0, 3, 1, 4), 1), ((5, 90), (3, 4), (1, 2), (2, 1), (2, 2, 2, 1), 1),
])  # fmt: skip
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("mcpu", ["native", "x86-64-v3"])
def test_planes(size, window, strides, dilations, pads, images, dynamic, mcpu):
    rng = np.random.default_rng(0)
    channels = 5
    x, w, bias = (
        numbers(rng, (images, channels, *size)),
        numbers(rng, (channels, 1, *window)),
        numbers(rng, (channels,)),
    )
    last = reference(
        x.transpose(0, 2, 3, 1), w.transpose(2, 3, 1, 0), bias.astype(np.float64), strides, dilations, pads, channels
    )
    expected = np.maximum(last.transpose(0, 3, 1, 2), 0)
    source = ("N", channels, "H", "W") if dynamic else x.shape
    target = ("N", channels, "OH", "OW") if dynamic else expected.shape
    given, out, weights = f"tensor<{spell(source)}>", f"tensor<{spell(target)}>", f"tensor<{spell(w.shape)}>"
    lists = ", ".join(
        f"{n} = array<i64: {', '.join(map(str, v))}>"
        for n, v in (("strides", strides), ("dilations", dilations), ("pads", pads))
    )
    text = f"""func.func private @k(%x: {given}, %w: {weights}, %b: tensor<{channels}xf32>) -> {out}
        attributes {{kernel.kind = "depthwise_planes", kernel.root = "kernel.depthwise_planes"}} {{
      %0 = "kernel.depthwise_planes"(%x, %w, %b) {{{lists}}} : ({given}, {weights}, tensor<{channels}xf32>) -> {out}
      %1 = "onnx.Relu"(%0) : ({out}) -> {out}
      return %1 : {out} }}"""
    (result,) = run(text, x, w, bias, mcpu=mcpu, OH=expected.shape[2], OW=expected.shape[3])
    close(result, expected, k=w[0].size)
