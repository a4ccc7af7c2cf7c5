"""The kernels of Fourier convolution: the butterflies, transforms around a product in numpy, and the pass."""

import numpy as np
import pytest

from onnxc.passes import conv_costs
from onnxc.passes.kernels.fft_points import LENGTHS, FftTile, transformed_weights
from onnxc.passes.kernels.point_products import block_elements
from onnxc.passes.kernels.real_fft import complex_fft, inverse_complex_fft, inverse_real_fft, real_fft
from onnxc.passes.kernels.scratch_pieces import PIECES
from onnxc.passes.use_fft import use_fft
from onnxc.targets import target_for

from .conv_by_algorithm import after_pass, all_in_one, result_of, spectra_of
from .test_conv import reference
from .test_matmul import numbers

RNG = np.random.default_rng(0)


class Floats:
    """The algebra of the butterflies on floats."""

    def add(self, a, b):
        return a + b

    def sub(self, a, b):
        return a - b

    def scale(self, factor, a):
        return factor * a

    def scale_add(self, factor, a, b):
        return factor * a + b


@pytest.mark.parametrize("n", [1, 2, 4, *LENGTHS])
def test_butterflies(n):
    x, z = RNG.standard_normal(n), RNG.standard_normal((2, n))
    bins = real_fft(Floats(), list(x))
    found = [re + 1j * (0 if im is None else im) for re, im in bins]
    np.testing.assert_allclose(found, np.fft.rfft(x), atol=1e-13)
    np.testing.assert_allclose(np.array(inverse_real_fft(Floats(), bins)) / n, x, atol=1e-13)
    bins = complex_fft(Floats(), list(zip(*z, strict=True)))
    np.testing.assert_allclose([re + 1j * im for re, im in bins], np.fft.fft(z[0] + 1j * z[1]), atol=1e-12)
    np.testing.assert_allclose(np.array(inverse_complex_fft(Floats(), bins)).T / n, z, atol=1e-13)


# size, channels, filters, window, pads, images, tile
CASES = [
    ((12, 15), 16, 16, (5, 5), [2, 2, 2, 2], 1, (8, 8)),
    ((7, 7), 20, 33, (7, 7), [3, 3, 3, 3], 2, (16, 16)),
    ((9, 30), 3, 17, (3, 9), [0, 1, 2, 0], 1, (8, 16)),
    ((9, 30), 5, 8, (1, 7), [0, 3, 0, 3], 2, (1, 16)),
    ((30, 9), 5, 8, (7, 1), [3, 0, 3, 0], 1, (16, 1)),
    ((40, 40), 4, 4, (11, 11), [5, 5, 5, 5], 1, (32, 32)),
    ((100,), 7, 18, (31,), [15, 15], 2, (64,)),
    ((20,), 17, 3, (5,), [4, 0], 1, (8,)),
    ((300,), 3, 5, (63,), [31, 31], 1, (128,)),
    ((40, 41), 3, 5, (5, 5), [2, 2, 2, 2], 1, (8, 8)),
]  # fmt: skip


def attributes(size, window, tile, out, pads=None):
    """The attributes of the ops, and the tile."""
    missing = [1] * (2 - len(size))
    whole = FftTile((*missing, *tile), (*missing, *window))
    grid = [-(-d // step) for d, step in zip((*missing, *out), whole.steps, strict=True)]
    entries = {"tile": whole.extents, "window": whole.window, **({"pads": pads} if pads else {})}
    return ", ".join(f"{k} = array<i64: {', '.join(map(str, v))}>" for k, v in entries.items()), whole, grid


@pytest.mark.parametrize("size, c, m, window, pads, images, tile", CASES)
@pytest.mark.parametrize("mcpu", ["native", "x86-64-v3"])
def test_transforms(size, c, m, window, pads, images, tile, mcpu):
    x, w, bias = numbers(RNG, (images, *size, c)), numbers(RNG, (*window, c, m)), numbers(RNG, (m,))
    ones = [1] * len(size)
    expected = np.maximum(reference(x, w, bias.astype(np.float64), ones, ones, pads, 1), 0)
    given, whole, grid = attributes(size, window, tile, expected.shape[1:-1], pads)
    v = spectra_of("fft", x, given, (whole.points, images * grid[0] * grid[1], c), mcpu)
    products = np.matmul(v, transformed_weights(w.reshape(*whole.window, c, m), whole))
    given, *_ = attributes(size, window, tile, expected.shape[1:-1])
    result = result_of("fft", products, bias, given, expected.shape, mcpu)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=2e-6 * np.abs(expected).max())


@pytest.mark.parametrize("size, c, m, window, pads, images, tile", CASES)
@pytest.mark.parametrize("group", [1, 5])
def test_grouped(size, c, m, window, pads, images, tile, group):
    x, w, bias = numbers(RNG, (images, *size, c)), numbers(RNG, (*window, c, m)), numbers(RNG, (m,))
    ones = [1] * len(size)
    expected = np.maximum(reference(x, w, bias.astype(np.float64), ones, ones, pads, 1), 0)
    given, whole, _ = attributes(size, window, tile, expected.shape[1:-1], pads)
    u = transformed_weights(w.reshape(*whole.window, c, m), whole)
    scratch = (PIECES, block_elements(whole.points, group, c, m))
    result = all_in_one("fft", (x, u, bias), scratch, f"{given}, group = {group} : i64", expected.shape)
    np.testing.assert_allclose(result, expected, rtol=1e-4, atol=2e-6 * np.abs(expected).max())


TEXT = """
func.func @main(%x: tensor<?x28x28x32xf32, ["N", 28, 28, 32]>) -> tensor<?x28x28x64xf32, ["N", 28, 28, 64]> {
  %w = "onnx.Constant"() {weight = "w"} : () -> tensor<7x7x32x64xf32>
  %0 = "kernel.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 3, 3, 3, 3>,
                              group = 1 : i64}
    : (tensor<?x28x28x32xf32, ["N", 28, 28, 32]>, tensor<7x7x32x64xf32>) -> tensor<?x28x28x64xf32, ["N", 28, 28, 64]>
  return %0 : tensor<?x28x28x64xf32, ["N", 28, 28, 64]>
}
"""


def rewritten(text, strict=False, stored=()):
    """The module as text, the weights and the log."""
    weights = RNG.standard_normal((7, 7, 32, 64), np.float32)
    return after_pass(use_fft, text, weights, target_for("x86-64-v3"), strict, stored)


def test_pass():
    text, weights, _ = rewritten(TEXT)
    assert "kernel.conv" not in text
    assert all(f"kernel.fft_{step}" in text for step in ("input", "output"))
    assert weights.get("w:fft16x16").shape == (FftTile((16, 16), (7, 7)).points, 32, 64)


@pytest.mark.parametrize("change", [
    dict(strict=True),
    dict(text=TEXT.replace("strides = array<i64: 1, 1>", "strides = array<i64: 2, 2>").replace("x28x64", "x14x64")),
    dict(text=TEXT.replace("group", 'algorithm = "direct", group')),
])  # fmt: skip
def test_pass_leaves_the_rest_alone(change):
    assert "kernel.conv" in rewritten(**{"text": TEXT, **change})[0]


@pytest.mark.parametrize("cost, expected", [(1.02, "fft8x16"), (1.2, "fft16x16")])
def test_a_tile_that_another_variant_has_stored_is_taken_where_it_is_as_good(cost, expected, monkeypatch):
    monkeypatch.setattr(conv_costs, "best_fft", lambda shape, machine: (100, FftTile((16, 16), (7, 7))))
    monkeypatch.setattr(conv_costs, "fft", lambda shape, tile, machine: 100 * cost)
    _, weights, _ = rewritten(TEXT, stored=["winograd4", "fft8x16"])
    assert f"w:{expected}" in weights
