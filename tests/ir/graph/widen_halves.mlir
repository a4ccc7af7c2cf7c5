// RUN: onnxc-opt %s widen_halves | filecheck %s

// Sums and exponentials of halves are computed in f32, and what follows them; each op rounds, but for Relu, of halves a
// half. f32 itself and what comes before are left alone.
// CHECK-LABEL: func.func @main
// CHECK:         %[[ABS:.*]] = "onnx.Abs"(%arg0) : (tensor<3x5xf16>)
// CHECK-NEXT:    %[[WIDE:.*]] = "onnx.Cast"(%[[ABS]]) {to = 1 : i64} : (tensor<3x5xf16>) -> tensor<3x5xf32>
// CHECK-NEXT:    %[[Y:.*]] = "onnx.Softmax"(%[[WIDE]]) {axis = 1 : i64} : (tensor<3x5xf32>) -> tensor<3x5xf32>
// CHECK-NEXT:    %[[NARROW:.*]] = "onnx.Cast"(%[[Y]]) {to = 10 : i64} : (tensor<3x5xf32>) -> tensor<3x5xf16>
// CHECK-NEXT:    %[[ROUNDED:.*]] = "onnx.Cast"(%[[NARROW]]) {to = 1 : i64} : (tensor<3x5xf16>) -> tensor<3x5xf32>
// CHECK-NEXT:    %[[RELU:.*]] = "onnx.Relu"(%[[ROUNDED]]) : (tensor<3x5xf32>) -> tensor<3x5xf32>
// CHECK-NEXT:    %{{.*}} = "onnx.Cast"(%[[RELU]]) {to = 10 : i64}
// CHECK-NEXT:    %[[EXP:.*]] = "onnx.Exp"(%[[RELU]]) : (tensor<3x5xf32>) -> tensor<3x5xf32>
// CHECK-NEXT:    %[[OUT:.*]] = "onnx.Cast"(%[[EXP]]) {to = 10 : i64}
// CHECK-NEXT:    "onnx.Softmax"(%arg1) {{.*}} : (tensor<4xf32>)
// CHECK-NEXT:    return %[[OUT]]
func.func @main(%x: tensor<3x5xf16>, %z: tensor<4xf32>) -> (tensor<3x5xf16>, tensor<4xf32>) {
  %a = "onnx.Abs"(%x) : (tensor<3x5xf16>) -> tensor<3x5xf16>
  %0 = "onnx.Softmax"(%a) {axis = 1 : i64} : (tensor<3x5xf16>) -> tensor<3x5xf16>
  %1 = "onnx.Relu"(%0) : (tensor<3x5xf16>) -> tensor<3x5xf16>
  %2 = "onnx.Exp"(%1) : (tensor<3x5xf16>) -> tensor<3x5xf16>
  %3 = "onnx.Softmax"(%z) {axis = 0 : i64} : (tensor<4xf32>) -> tensor<4xf32>
  return %2, %3 : tensor<3x5xf16>, tensor<4xf32>
}

// A product of what is computed in f32 is, too, and moving it; one with a cache that a caller gives is not, nor is joining
// the cache.
// CHECK-LABEL: func.func @cache
// CHECK:         %[[P:.*]] = "onnx.Softmax"(%{{.*}}) {axis = 1 : i64} : (tensor<2x32xf32>) -> tensor<2x32xf32>
// CHECK-NEXT:    %[[HALF:.*]] = "onnx.Cast"(%[[P]]) {to = 10 : i64}
// CHECK-NEXT:    %[[WIDE:.*]] = "onnx.Cast"(%[[HALF]]) {to = 1 : i64}
// CHECK-NEXT:    %[[T:.*]] = "onnx.Transpose"(%[[WIDE]]) {perm = array<i64: 1, 0>} : (tensor<2x32xf32>) -> tensor<32x2xf32>
// CHECK:         "onnx.MatMul"(%[[WIDE]], %[[T]]) : (tensor<2x32xf32>, tensor<32x2xf32>) -> tensor<2x2xf32>
// CHECK:         %[[ALL:.*]] = "onnx.Concat"(%arg1, %[[HALF]]) {axis = 0 : i64} : (tensor<8x32xf16>, tensor<2x32xf16>)
// CHECK-NEXT:    "onnx.MatMul"(%arg2, %[[ALL]]) : (tensor<1x10xf16>, tensor<10x32xf16>)
func.func @cache(%x: tensor<2x32xf16>, %past: tensor<8x32xf16>, %p: tensor<1x10xf16>) -> (tensor<2x2xf16>, tensor<1x32xf16>) {
  %0 = "onnx.Softmax"(%x) {axis = 1 : i64} : (tensor<2x32xf16>) -> tensor<2x32xf16>
  %1 = "onnx.Transpose"(%0) {perm = array<i64: 1, 0>} : (tensor<2x32xf16>) -> tensor<32x2xf16>
  %2 = "onnx.MatMul"(%0, %1) : (tensor<2x32xf16>, tensor<32x2xf16>) -> tensor<2x2xf16>
  %3 = "onnx.Concat"(%past, %0) {axis = 0 : i64} : (tensor<8x32xf16>, tensor<2x32xf16>) -> tensor<10x32xf16>
  %4 = "onnx.MatMul"(%p, %3) : (tensor<1x10xf16>, tensor<10x32xf16>) -> tensor<1x32xf16>
  return %2, %4 : tensor<2x2xf16>, tensor<1x32xf16>
}
