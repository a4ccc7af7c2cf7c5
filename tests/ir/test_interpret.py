"""This file checks the interpreter that other IR tests trust."""

from __future__ import annotations

import numpy as np
from mlir import ir

from onnxc.dialects.onnx import new_context
from onnxc.dialects.weights import WeightStore

from .interpret import interpret

LOOP = """
func.func @main(%x: tensor<?xf32, ["n"]>, %t: tensor<i64>) -> (tensor<?xf32, ["n"]>, tensor<?x?xf32, ["k", "n"]>) {
  %none = "onnx.None"() : () -> none
  %r:2 = "onnx.Loop"(%t, %none, %x) ({
  ^bb0(%i: tensor<i64>, %c: tensor<i1>, %v: tensor<?xf32, ["n"]>):
    %w = "onnx.Add"(%v, %x) : (tensor<?xf32, ["n"]>, tensor<?xf32, ["n"]>) -> tensor<?xf32, ["n"]>
    "onnx.Yield"(%c, %w, %w) : (tensor<i1>, tensor<?xf32, ["n"]>, tensor<?xf32, ["n"]>) -> ()
  }) : (tensor<i64>, none, tensor<?xf32, ["n"]>) -> (tensor<?xf32, ["n"]>, tensor<?x?xf32, ["k", "n"]>)
  return %r#0, %r#1 : tensor<?xf32, ["n"]>, tensor<?x?xf32, ["k", "n"]>
}
"""

RECORDED = """
func.func @main(%x: tensor<?x4xf32, ["n", 4]>) -> tensor<?x2xf32, ["2*n", 2]> {
  %none = "onnx.None"() : () -> none
  %0 = "onnx.Reshape"(%x, %none) {operand_values = {"1" = ["2*n", 2]}}
    : (tensor<?x4xf32, ["n", 4]>, none) -> tensor<?x2xf32, ["2*n", 2]>
  return %0 : tensor<?x2xf32, ["2*n", 2]>
}
"""


def _run(text: str, *inputs: np.ndarray) -> list[np.ndarray]:
    with new_context(), ir.Location.unknown():
        return interpret(ir.Module.parse(text), WeightStore(), inputs)


def test_loop_carries_captures_and_scans() -> None:
    x = np.array([1, 2], np.float32)
    last, all_trips = _run(LOOP, x, np.array(3))
    np.testing.assert_array_equal(last, 4 * x)
    np.testing.assert_array_equal(all_trips, [2 * x, 3 * x, 4 * x])


def test_recorded_values_stand_for_an_operand() -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(_run(RECORDED, x)[0], x.reshape(6, 2))
