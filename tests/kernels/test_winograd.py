"""The Winograd kernels: input and output transforms around a product in numpy; and the pass that puts them in."""

from dataclasses import replace

import numpy as np
import pytest

from onnxc.passes import conv_costs
from onnxc.passes.kernels.winograd_points import SIZES, transformed_weights
from onnxc.passes.kernels.winograd_units import scratch_shape
from onnxc.passes.use_winograd import use_winograd
from onnxc.targets import target_for

from .conv_by_algorithm import after_pass, all_in_one, result_of, spectra_of
from .test_conv import reference
from .test_matmul import numbers

CASES = [
    ((8, 12), 16, 16, [1, 1, 1, 1], 1), ((7, 7), 20, 33, [1, 1, 1, 1], 2), ((9, 6), 16, 8, [0, 0, 0, 0], 1),
    ((5, 5), 3, 17, [2, 0, 1, 1], 1),
]  # fmt: skip


@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize("size, c, m, pads, images", CASES)
@pytest.mark.parametrize("mcpu", ["native", "x86-64-v3"])
def test_transforms(tile, size, c, m, pads, images, mcpu):
    rng = np.random.default_rng(0)
    x, w, bias = numbers(rng, (images, *size, c)), numbers(rng, (3, 3, c, m)), numbers(rng, (m,))
    expected = np.maximum(reference(x, w, bias.astype(np.float64), [1, 1], [1, 1], pads, 1), 0)
    grid = [-(-d // tile) for d in expected.shape[1:3]]
    points, tiles = SIZES[tile] ** 2, images * grid[0] * grid[1]
    common = f"tile = {tile} : i64, tiles = array<i64: {grid[0]}, {grid[1]}>"
    spatial = f"pads = array<i64: {', '.join(map(str, pads))}>"
    v = spectra_of("winograd", x, f"{common}, {spatial}", (points, tiles, c), mcpu)
    result = result_of("winograd", np.matmul(v, transformed_weights(w, tile)), bias, common, expected.shape, mcpu)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=3e-5 * np.abs(expected).max())


@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize("size, c, m, pads, images", CASES)
@pytest.mark.parametrize("group", [1, 30])
def test_grouped(tile, size, c, m, pads, images, group):
    rng = np.random.default_rng(0)
    x, w, bias = numbers(rng, (images, *size, c)), numbers(rng, (3, 3, c, m)), numbers(rng, (m,))
    expected = np.maximum(reference(x, w, bias.astype(np.float64), [1, 1], [1, 1], pads, 1), 0)
    rows, columns = (-(-d // tile) for d in expected.shape[1:3])
    u, scratch = transformed_weights(w, tile), scratch_shape(images * rows * columns, SIZES[tile] ** 2, c, m)
    given = f"""tile = {tile} : i64, tiles = array<i64: {rows}, {columns}>, group = {group} : i64,
        pads = array<i64: {", ".join(map(str, pads))}>"""
    result = all_in_one("winograd", (x, u, bias), scratch, given, expected.shape)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=3e-5 * np.abs(expected).max())


@pytest.mark.parametrize("tile", [2, 4])
@pytest.mark.parametrize("size, c, m, taps, strides, dilations, pads, images", [
    ((5, 8, 12), 16, 16, 3, 1, 1, [1] * 6, 1), ((7, 7, 6), 5, 17, 3, 2, 1, [2, 1, 1, 0, 1, 1], 2),
    ((6, 5, 9), 20, 8, 2, 1, 3, [0, 0, 2, 3, 1, 1], 2), ((3, 9, 9), 17, 3, 1, 1, 1, [0, 1, 1, 0, 1, 1], 1),
])  # fmt: skip
def test_volumes(tile, size, c, m, taps, strides, dilations, pads, images):
    rng = np.random.default_rng(0)
    x, w, bias = numbers(rng, (images, *size, c)), numbers(rng, (taps, 3, 3, c, m)), numbers(rng, (m,))
    expected = reference(x, w, bias.astype(np.float64), [strides, 1, 1], [dilations, 1, 1], pads, 1)
    expected = np.maximum(expected, 0)
    depth, rows, columns = expected.shape[1], *(-(-d // tile) for d in expected.shape[2:4])
    u, tiles = transformed_weights(w, tile), images * depth * rows * columns
    attributes = f"""tile = {tile} : i64, tiles = array<i64: {rows}, {columns}>,
        depth = array<i64: {taps}, {depth}, {strides}, {dilations}, {pads[0]}>"""
    spatial = f"pads = array<i64: {pads[1]}, {pads[2]}, {pads[4]}, {pads[5]}>"
    scratch = scratch_shape(tiles, SIZES[tile] ** 2, taps * c, m)
    given = f"{attributes}, {spatial}, group = 20 : i64"
    together = all_in_one("winograd", (x, u, bias), scratch, given, expected.shape)
    v = spectra_of("winograd", x, f"{attributes}, {spatial}", (SIZES[tile] ** 2, tiles, taps * c))
    in_steps = result_of("winograd", np.matmul(v, u), bias, attributes, expected.shape)
    for result in (together, in_steps):
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=3e-5 * np.abs(expected).max())


TEXT = """
func.func @main(%x: tensor<1x56x56x64xf32>) -> tensor<1x56x56x64xf32> {
  %w = "onnx.Constant"() {weight = "w"} : () -> tensor<3x3x64x64xf32>
  %0 = "kernel.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>,
                              group = 1 : i64} : (tensor<1x56x56x64xf32>, tensor<3x3x64x64xf32>) -> tensor<1x56x56x64xf32>
  return %0 : tensor<1x56x56x64xf32>
}
"""


def rewritten(text, strict=False, l2_bytes=2 << 20, stored=()):
    """The module as text, the weights and the log."""
    target = replace(target_for("x86-64-v3"), l2_bytes=l2_bytes)
    weights = np.random.default_rng(0).standard_normal((3, 3, 64, 64), np.float32)
    return after_pass(use_winograd, text, weights, target, strict, stored)


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("mcpu", ["x86-64-v3", "large caches"])
def test_pass(strict, mcpu):
    text, weights, _ = rewritten(TEXT, strict, 512 << 10 if mcpu == "x86-64-v3" else 2 << 20)
    assert ("kernel.conv" in text) == strict
    if not strict:
        assert ("kernel.winograd_output" in text) == (mcpu == "x86-64-v3")  # its L2 does not hold these weights
        assert ("kernel.scratch" in text) == (mcpu != "x86-64-v3")
        assert weights.get("w:winograd4").shape == (36, 64, 64)


def test_the_attribute_goes_before_the_estimate():
    def asking(name, text=TEXT):
        return text.replace("group = 1", f'algorithm = "{name}", group = 1')

    assert "kernel.winograd" not in rewritten(asking("direct"))[0]
    assert rewritten(asking("winograd2"))[1].get("w:winograd2").shape == (16, 64, 64)
    assert rewritten(asking("winograd4"))[1].get("w:winograd4").shape == (36, 64, 64)


@pytest.mark.parametrize("name, strict", [("winograd4", True), ("winograd3", False)])
def test_an_attribute_that_cannot_be_obeyed_is_told(name, strict):
    text, _, log = rewritten(TEXT.replace("group = 1", f'algorithm = "{name}", group = 1'), strict)
    assert "algorithm" not in text
    assert ("kernel.winograd" in text) == (not strict)
    assert any(name in line for who, line in log if who == "conv_algorithms")


@pytest.mark.parametrize("side, stored, expected", [
    (8, [], "winograd2"), (8, ["winograd4"], "winograd4"), (8, ["winograd4", "winograd2"], "winograd2"),
    (56, ["winograd2"], "winograd4"), (8, ["fft8x8"], "winograd2"),
])  # fmt: skip
def test_what_another_variant_has_stored_is_taken_where_it_is_as_good(side, stored, expected, monkeypatch):
    """Over 8×8 pixels F(4×4) is estimated to take 1.01 times as long as F(2×2), over 56×56 half as long."""
    costs = {8: {2: 1000, 4: 1010}, 56: {2: 2000, 4: 1000}}[side]
    monkeypatch.setattr(conv_costs, "winograd", lambda shape, tile, machine: costs[tile])
    monkeypatch.setattr(conv_costs, "direct", lambda shape, machine: 5000)
    _, weights, _ = rewritten(TEXT.replace("56x56", f"{side}x{side}"), stored=stored)
    assert f"w:{expected}" in weights
