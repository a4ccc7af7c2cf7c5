"""This file tests what is known of a model's free sizes: that it reaches every type, and what then disappears."""

from __future__ import annotations

from mlir import ir

from onnxc.dialects.dims import Facts
from onnxc.dialects.onnx import new_context
from onnxc.passes.apply_facts import apply_facts
from onnxc.passes.contract import Program
from onnxc.passes.infer_shapes import infer_shapes

POOLS = """
func.func @main(%x: tensor<?x3x?x?xf32, ["N", 3, "h", "w"]>) -> tensor<*xf32>
    attributes {input_names = ["x"], output_names = ["y"]} {
  %0 = "onnx.MaxPool"(%x) {kernel_shape = array<i64: 2, 2>, strides = array<i64: 2, 2>, ceil_mode = 1 : i64} : (tensor<?x3x?x?xf32, ["N", 3, "h", "w"]>) -> tensor<*xf32>
  %1 = "onnx.Add"(%0, %0) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
  return %1 : tensor<*xf32>
}
"""


def inferred(text: str, facts: Facts) -> str:
    context = new_context()
    with context, ir.Location.unknown():
        program = Program(ir.Module.parse(text), facts=facts)
    apply_facts(program)
    infer_shapes(program)
    return str(program.module)


def test_facts_stand_in_the_types():
    text = inferred(POOLS, Facts({"N": (1, 8), "w": (224, 224)}, {"h": 32}))
    assert """tensor<?x3x?x224xf32, ["N:1..8", 3, "32*'h/32'", 224]>) ->""" in text
    assert """-> tensor<?x3x?x112xf32, ["N:1..8", 3, "16*'h/32'", 112]>""" in text


def test_without_facts_nothing_changes():
    assert '["N", 3, "(h+1)//2", "(w+1)//2"]' in inferred(POOLS, Facts())
