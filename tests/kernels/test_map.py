"""The map kernel through the harness."""

import numpy as np
import pytest

from .harness import run

TEXT = """
func.func private @k(%x: tensor<?x5xf32, ["N", 5]>, %y: tensor<5xf32>) -> tensor<?x5xf32, ["N", 5]>
    attributes {kernel.kind = "map"} {
  %0 = "onnx.Add"(%x, %y) : (tensor<?x5xf32, ["N", 5]>, tensor<5xf32>) -> tensor<?x5xf32, ["N", 5]>
  return %0 : tensor<?x5xf32, ["N", 5]>
}
"""


def test_broadcast_add():
    rng = np.random.default_rng(0)
    for n in (0, 1, 7):
        x, y = rng.standard_normal((n, 5), np.float32), rng.standard_normal(5, np.float32)
        (result,) = run(TEXT, x, y)
        np.testing.assert_array_equal(result, x + y)


@pytest.mark.parametrize("row", [8, 16, 24, 32, 64, 128])
@pytest.mark.parametrize("mcpu", ["native", "x86-64-v3"])
def test_short_rows_and_what_is_broadcast_along_them(row, mcpu):
    rng = np.random.default_rng(0)
    x, y, z = (rng.standard_normal(shape, np.float32) for shape in ((3, 5, 1), (3, 1, row), (row,)))
    whole = f'tensor<?x5x{row}xf32, ["N", 5, {row}]>'
    a, b, c = 'tensor<?x5x1xf32, ["N", 5, 1]>', f'tensor<?x1x{row}xf32, ["N", 1, {row}]>', f"tensor<{row}xf32>"
    text = f"""
func.func private @k(%x: {a}, %y: {b}, %z: {c}) -> {whole} attributes {{kernel.kind = "map"}} {{
  %0 = "onnx.Tanh"(%x) : ({a}) -> {a}
  %1 = "onnx.Mul"(%0, %y) : ({a}, {b}) -> {whole}
  %2 = "onnx.Sub"(%1, %z) : ({whole}, {c}) -> {whole}
  return %2 : {whole}
}}
"""
    (result,) = run(text, x, y, z, mcpu=mcpu)
    np.testing.assert_allclose(result.reshape(3, 5, row), np.tanh(x) * y - z, rtol=1e-6, atol=1e-6)
