"""Packing the weights of a whole module."""

import numpy as np
from mlir import ir

from onnxc.dialects import onnx
from onnxc.dialects.weights import WeightStore
from onnxc.passes.choose_schedules import choose_schedules
from onnxc.passes.contract import Options, Program
from onnxc.passes.pack_weights import pack_weights
from onnxc.targets import target_for

TEXT = """
func.func private @k(%x: tensor<3x20xf32>, %w: tensor<20x5xf32>) -> tensor<3x5xf32>
    attributes {kernel.kind = "matmul", kernel.root = "onnx.MatMul", kernel.constants = array<i64: 1>} {
  %0 = "onnx.MatMul"(%x, %w) : (tensor<3x20xf32>, tensor<20x5xf32>) -> tensor<3x5xf32>
  return %0 : tensor<3x5xf32>
}
func.func @main(%x: tensor<3x20xf32>) -> (tensor<3x5xf32>, tensor<3x5xf32>) {
  %w = "onnx.Constant"() {weight = "w"} : () -> tensor<20x5xf32>
  %0 = "kernel.call"(%x, %w) {callee = @k} : (tensor<3x20xf32>, tensor<20x5xf32>) -> tensor<3x5xf32>
  %1 = "kernel.call"(%x, %w) {callee = @k} : (tensor<3x20xf32>, tensor<20x5xf32>) -> tensor<3x5xf32>
  return %0, %1 : tensor<3x5xf32>, tensor<3x5xf32>
}
"""


def test_two_calls_share_one_packed_entry():
    weights = WeightStore()
    w = np.arange(100, dtype=np.float32).reshape(20, 5)
    assert weights.add(w, "w") == "w"
    with onnx.new_context(), ir.Location.unknown():
        program = Program(ir.Module.parse(TEXT), weights, Options(target=target_for("x86-64-v3"), verify=False))
        choose_schedules(program)
        pack_weights(program)
        program.module.operation.verify()
        text = str(program.module)
    assert 'weight = "w"}' not in text
    (packed,) = [key for key in weights if key != "w"]
    panels = weights.get(packed)
    assert panels.shape[0] * panels.shape[2] >= 5 and panels.shape[1] == 20
    np.testing.assert_array_equal(panels[0, :, : min(5, panels.shape[2])], w[:, : panels.shape[2]])
