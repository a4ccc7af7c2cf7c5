"""The map kernel through the harness."""

import numpy as np

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
