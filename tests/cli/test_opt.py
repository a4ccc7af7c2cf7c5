"""onnxc-opt applies passes by name, and tells what is wrong with a file or a name."""

from __future__ import annotations

import pytest

from onnxc.errors import OnnxcError
from onnxc.opt import apply_passes

DEAD = """func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %y = "onnx.Relu"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  return %x : tensor<2xf32>
}
"""


def test_passes_are_applied_in_order() -> None:
    assert "onnx.Relu" in apply_passes(DEAD, [])
    assert "onnx.Relu" not in apply_passes(DEAD, ["remove_dead"])


@pytest.mark.parametrize("name", ["no_such_pass", "a.b", "../x"])
def test_unknown_passes_are_named(name: str) -> None:
    with pytest.raises(OnnxcError, match="no pass is named"):
        apply_passes(DEAD, [name])


def test_what_is_not_mlir_is_refused() -> None:
    with pytest.raises(OnnxcError, match=r"m\.mlir: is not MLIR") as caught:
        apply_passes("nonsense", [], "m.mlir")
    assert caught.value.exit_code == 2
