// RUN: onnxc-opt %s expand_recurrent | filecheck %s

// The input's part of all gates is one matmul over all steps, with both biases; the recurrent weights are padded from
// 3 hidden units to a block of 8 and put in order of use: [dirs, blocks, H·gates·block].
// CHECK-LABEL: func.func @lstm
// CHECK:         %[[P:.*]] = "onnx.MatMul"({{.*}}) : (tensor<?x5xf32, ["2*S", 5]>, tensor<5x12xf32>) -> tensor<?x12xf32, ["2*S", 12]>
// CHECK:         %[[BIAS:.*]] = "onnx.Add"({{.*}}) : (tensor<1x4x3xf32>, tensor<1x4x3xf32>)
// CHECK:         "onnx.Add"(%[[P]], {{.*}})
// CHECK:         %[[T:.*]] = "onnx.Transpose"({{.*}}) {perm = array<i64: 0, 2, 4, 1, 3>} : (tensor<1x4x1x8x3xf32>) -> tensor<1x1x3x4x8xf32>
// CHECK:         %[[R:.*]] = "onnx.Reshape"(%[[T]]
// CHECK:         "kernel.recurrent"({{.*}}, %[[R]], {{.*}}) {activation_alpha = array<f32>, activation_beta = array<f32>, activations = ["Sigmoid", "Tanh", "Tanh"], block = 8 : i64, cell = "LSTM", directions = 1 : i64, hidden = 3 : i64
// CHECK-NOT:     onnx.LSTM
func.func @lstm(%x: tensor<?x2x5xf32, ["S", 2, 5]>, %w: tensor<1x12x5xf32>, %r: tensor<1x12x3xf32>, %b: tensor<1x24xf32>) -> tensor<?x1x2x3xf32, ["S", 1, 2, 3]> {
  %n = "onnx.None"() : () -> none
  %0:3 = "onnx.LSTM"(%x, %w, %r, %b, %n, %n, %n, %n) {hidden_size = 3 : i64} : (tensor<?x2x5xf32, ["S", 2, 5]>, tensor<1x12x5xf32>, tensor<1x12x3xf32>, tensor<1x24xf32>, none, none, none, none) -> (tensor<?x1x2x3xf32, ["S", 1, 2, 3]>, tensor<1x2x3xf32>, tensor<1x2x3xf32>)
  return %0#0 : tensor<?x1x2x3xf32, ["S", 1, 2, 3]>
}

// With linear_before_reset the last gate's recurrent bias goes inside the product: it is kept out of the projection
// (times 0) and handed to the kernel. A GRU needs room to work: 2·H a row. Its steps have two rounds, and the weights of
// each stand together: those of z and r, then those of the last gate.
// CHECK-LABEL: func.func @gru
// CHECK:         "onnx.Mul"
// CHECK:         %[[ZR:.*]] = "onnx.Reshape"({{.*}}) {{.*}} : (tensor<1x1x8x2x8xf32>, none) -> tensor<1x1x128xf32>
// CHECK:         %[[H:.*]] = "onnx.Reshape"({{.*}}) {{.*}} : (tensor<1x1x8x1x8xf32>, none) -> tensor<1x1x64xf32>
// CHECK:         %[[R:.*]] = "onnx.Concat"(%[[ZR]], %[[H]]) {axis = 2
// CHECK:         %[[RB:.*]] = "onnx.Reshape"({{.*}}) {{.*}} : (tensor<1x1x8xf32>, none) -> tensor<1x8xf32>
// CHECK:         "kernel.recurrent"({{.*}}, %[[R]], {{.*}}, %[[RB]])
// CHECK-SAME:      linear_before_reset = 1
// CHECK-SAME:      -> (tensor<4x1x2x8xf32>, tensor<1x2x8xf32>, tensor<2x1x2x8xf32>)
func.func @gru(%x: tensor<4x2x5xf32>, %w: tensor<1x24x5xf32>, %r: tensor<1x24x8xf32>, %b: tensor<1x48xf32>) -> tensor<1x2x8xf32> {
  %n = "onnx.None"() : () -> none
  %0:2 = "onnx.GRU"(%x, %w, %r, %b, %n, %n) {hidden_size = 8 : i64, linear_before_reset = 1 : i64} : (tensor<4x2x5xf32>, tensor<1x24x5xf32>, tensor<1x24x8xf32>, tensor<1x48xf32>, none, none) -> (tensor<4x1x2x8xf32>, tensor<1x2x8xf32>)
  return %0#1 : tensor<1x2x8xf32>
}

// Batch first (layout = 1): x and the results are transposed.
// CHECK-LABEL: func.func @batch_first
// CHECK:         "onnx.Transpose"(%arg0) {perm = array<i64: 1, 0, 2>} : (tensor<2x4x5xf32>) -> tensor<4x2x5xf32>
// CHECK:         %[[Y:.*]]:3 = "kernel.recurrent"
// CHECK:         "onnx.Transpose"(%[[Y]]#0) {perm = array<i64: 2, 0, 1, 3>}
func.func @batch_first(%x: tensor<2x4x5xf32>, %w: tensor<1x8x5xf32>, %r: tensor<1x8x8xf32>) -> tensor<2x4x1x8xf32> {
  %n = "onnx.None"() : () -> none
  %0:2 = "onnx.RNN"(%x, %w, %r, %n, %n, %n) {hidden_size = 8 : i64, layout = 1 : i64} : (tensor<2x4x5xf32>, tensor<1x8x5xf32>, tensor<1x8x8xf32>, none, none, none) -> (tensor<2x4x1x8xf32>, tensor<2x1x8xf32>)
  return %0#0 : tensor<2x4x1x8xf32>
}
