// RUN: onnxc-opt %s widen_halves | filecheck %s

// Sums and exponentials of halves are computed in f32; f32 itself and element-wise ops are left alone.
// CHECK-LABEL: func.func @main
// CHECK:         %[[WIDE:.*]] = "onnx.Cast"(%arg0) {to = 1 : i64} : (tensor<3x5xf16>) -> tensor<3x5xf32>
// CHECK-NEXT:    %[[Y:.*]] = "onnx.Softmax"(%[[WIDE]]) {axis = 1 : i64} : (tensor<3x5xf32>) -> tensor<3x5xf32>
// CHECK-NEXT:    %[[NARROW:.*]] = "onnx.Cast"(%[[Y]]) {to = 10 : i64} : (tensor<3x5xf32>) -> tensor<3x5xf16>
// CHECK-NEXT:    "onnx.Relu"(%[[NARROW]])
// CHECK-NEXT:    "onnx.Softmax"(%arg1) {{.*}} : (tensor<4xf32>)
func.func @main(%x: tensor<3x5xf16>, %z: tensor<4xf32>) -> (tensor<3x5xf16>, tensor<4xf32>) {
  %0 = "onnx.Softmax"(%x) {axis = 1 : i64} : (tensor<3x5xf16>) -> tensor<3x5xf16>
  %1 = "onnx.Relu"(%0) : (tensor<3x5xf16>) -> tensor<3x5xf16>
  %2 = "onnx.Softmax"(%z) {axis = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return %1, %2 : tensor<3x5xf16>, tensor<4xf32>
}
