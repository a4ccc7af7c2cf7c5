// RUN: onnxc-opt %s innermost_softmax | filecheck %s

// The axis changes places with the innermost one, and back.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %[[T:.*]] = "onnx.Transpose"(%arg0) {perm = array<i64: 0, 2, 1>} : (tensor<2x3x?xf32, [2, 3, "N"]>) -> tensor<2x?x3xf32, [2, "N", 3]>
// CHECK-NEXT:    %[[S:.*]] = "onnx.Softmax"(%[[T]]) {axis = -1 : i64}
// CHECK-NEXT:    "onnx.Transpose"(%[[S]]) {perm = array<i64: 0, 2, 1>}
func.func @main(%x: tensor<2x3x?xf32, [2, 3, "N"]>) -> tensor<2x3x?xf32, [2, 3, "N"]> {
  %0 = "onnx.Softmax"(%x) {axis = -2 : i64} : (tensor<2x3x?xf32, [2, 3, "N"]>) -> tensor<2x3x?xf32, [2, 3, "N"]>
  return %0 : tensor<2x3x?xf32, [2, 3, "N"]>
}

// An innermost axis, however it is written, stays; so does a scalar's.
// CHECK-LABEL: func.func @innermost
// CHECK-NOT:     Transpose
// CHECK:         return
func.func @innermost(%x: tensor<2x3xf32>, %s: tensor<f32>) -> (tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>) {
  %0 = "onnx.Softmax"(%x) {axis = 1 : i64} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = "onnx.LogSoftmax"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = "onnx.Softmax"(%s) {axis = 0 : i64} : (tensor<f32>) -> tensor<f32>
  return %0, %1, %2 : tensor<2x3xf32>, tensor<2x3xf32>, tensor<f32>
}
