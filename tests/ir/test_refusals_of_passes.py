"""Passes that refuse operators name all of them at once, each with its node."""

from __future__ import annotations

import pytest

from onnxc.errors import Refusals
from onnxc.opt import apply_passes

TWO_UNKNOWN = """func.func @main(%x: tensor<4xf32>, %c: tensor<i1>) -> tensor<4xf32> {
  %0 = "onnx.Bernoulli"(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("draw")
  %1 = "onnx.If"(%c) ({
    %2 = "onnx.Det"(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("det")
    "onnx.Yield"(%2) : (tensor<4xf32>) -> ()
  }, {
    %2 = "onnx.Relu"(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("relu")
    "onnx.Yield"(%2) : (tensor<4xf32>) -> ()
  }) : (tensor<i1>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}
"""
RESIZE = """func.func @main(%x: tensor<1x1x4x4xf32>) -> (tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>) {
  %n = "onnx.None"() : () -> none
  %0 = "onnx.Resize"(%x, %n, %n, %n) {antialias = 1 : i64, mode = "linear"}
    : (tensor<1x1x4x4xf32>, none, none, none) -> tensor<1x1x2x2xf32> loc("smooth")
  %1 = "onnx.Resize"(%x, %n, %n, %n) {coordinate_transformation_mode = "tf_crop_and_resize"}
    : (tensor<1x1x4x4xf32>, none, none, none) -> tensor<1x1x2x2xf32> loc("crop")
  return %0, %1 : tensor<1x1x2x2xf32>, tensor<1x1x2x2xf32>
}
"""
STRINGS = """func.func @main(%x: tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>> {
  %0 = "onnx.Transpose"(%x) : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>> loc("turn")
  return %0 : tensor<4xcomplex<f32>>
}
"""
TYPES = """func.func @main(%x: tensor<4xi32>, %y: tensor<4xf32>, %c: tensor<i1>) -> (tensor<4xi32>, tensor<4xf32>) {
  %0 = "onnx.Sqrt"(%x) : (tensor<4xi32>) -> tensor<4xi32> loc("root")
  %1 = "onnx.If"(%c) ({
    %2 = "onnx.Add"(%y, %x) : (tensor<4xf32>, tensor<4xi32>) -> tensor<4xf32> loc("mixed")
    "onnx.Yield"(%2) : (tensor<4xf32>) -> ()
  }, {
    "onnx.Yield"(%y) : (tensor<4xf32>) -> ()
  }) : (tensor<i1>) -> tensor<4xf32> loc("choose")
  return %0, %1 : tensor<4xi32>, tensor<4xf32>
}
"""
TEXTS = """func.func @main(%x: tensor<4x!onnx.string>, %n: tensor<i64>, %c: tensor<i1>)
    -> (tensor<1x4x!onnx.string>, tensor<4x!onnx.string>, tensor<4x!onnx.string>) {
  %axes = "onnx.Constant"() {value = dense<0> : tensor<1xi64>} : () -> tensor<1xi64>
  %0 = "onnx.Unsqueeze"(%x, %axes) : (tensor<4x!onnx.string>, tensor<1xi64>) -> tensor<1x4x!onnx.string> loc("view")
  %1 = "onnx.If"(%c) ({
    "onnx.Yield"(%x) : (tensor<4x!onnx.string>) -> ()
  }, {
    "onnx.Yield"(%x) : (tensor<4x!onnx.string>) -> ()
  }) : (tensor<i1>) -> tensor<4x!onnx.string> loc("choose")
  %2 = "onnx.Loop"(%n, %c, %x) ({
  ^bb0(%i: tensor<i64>, %more: tensor<i1>, %kept: tensor<4x!onnx.string>):
    "onnx.Yield"(%more, %kept) : (tensor<i1>, tensor<4x!onnx.string>) -> ()
  }) : (tensor<i64>, tensor<i1>, tensor<4x!onnx.string>) -> tensor<4x!onnx.string> loc("carry")
  return %0, %1, %2 : tensor<1x4x!onnx.string>, tensor<4x!onnx.string>, tensor<4x!onnx.string>
}
"""


@pytest.mark.parametrize(
    ("text", "name", "nodes"),
    [
        (TYPES, "check_types", ["root", "mixed"]),
        (TWO_UNKNOWN, "group_operators", ["draw", "det"]),
        (STRINGS, "group_operators", ["turn"]),
        (TEXTS, "group_operators", ["view", "choose", "carry"]),
        (RESIZE, "expand_resize", ["smooth", "crop"]),
    ],
    ids=["types", "operators", "elements", "strings", "resize"],
)
def test_all_are_named(text: str, name: str, nodes: list[str]) -> None:
    with pytest.raises(Refusals) as caught:
        apply_passes(text, [name])
    assert [error.node for error in caught.value.errors] == nodes
