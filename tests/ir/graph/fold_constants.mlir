// RUN: onnxc-opt %s fold_constants remove_dead | filecheck %s

// Chains of constants become one; a static shape is one.
// CHECK-LABEL: func.func @main
// CHECK:         %[[C:.*]] = "onnx.Constant"() {value = dense<[3.000000e+00, 7.000000e+00]> : tensor<2xf32>}
// CHECK:         %[[Y:.*]] = "onnx.Mul"(%arg0, %[[C]])
// CHECK:         %[[S:.*]] = "onnx.Constant"() {value = dense<[3, 2]> : tensor<2xi64>}
// CHECK:         return %[[Y]], %[[S]]
func.func @main(%x: tensor<3x2xf32>) -> (tensor<3x2xf32>, tensor<2xi64>) {
  %0 = "onnx.Constant"() {value = dense<[1.0, 3.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %1 = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %2 = "onnx.Constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %3 = "onnx.Mul"(%0, %1) : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %4 = "onnx.Add"(%3, %2) : (tensor<2xf32>, tensor<f32>) -> tensor<2xf32>
  %5 = "onnx.Mul"(%x, %4) : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  %6 = "onnx.Shape"(%x) : (tensor<3x2xf32>) -> tensor<2xi64>
  return %5, %6 : tensor<3x2xf32>, tensor<2xi64>
}

// A decided If is its branch, a Loop without a trip its initial values and empty scans.
// CHECK-LABEL: func.func @control
// CHECK-NOT:     onnx.If
// CHECK-NOT:     onnx.Loop
// CHECK:         %[[E:.*]] = "onnx.Constant"() {value = dense<> : tensor<0x4xf32>}
// CHECK:         %[[Y:.*]] = "onnx.Exp"(%arg0)
// CHECK:         return %[[Y]], %arg0, %[[E]]
func.func @control(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<?x4xf32, ["n", 4]>) {
  %t = "onnx.Constant"() {value = dense<false> : tensor<i1>} : () -> tensor<i1>
  %z = "onnx.Constant"() {value = dense<0> : tensor<i64>} : () -> tensor<i64>
  %l:2 = "onnx.Loop"(%z, %t, %x) ({
  ^bb0(%i: tensor<i64>, %c: tensor<i1>, %v: tensor<4xf32>):
    %w = "onnx.Exp"(%v) : (tensor<4xf32>) -> tensor<4xf32>
    "onnx.Yield"(%c, %w, %w) : (tensor<i1>, tensor<4xf32>, tensor<4xf32>) -> ()
  }) : (tensor<i64>, tensor<i1>, tensor<4xf32>) -> (tensor<4xf32>, tensor<?x4xf32, ["n", 4]>)
  %0 = "onnx.If"(%t) ({
    "onnx.Yield"(%x) : (tensor<4xf32>) -> ()
  }, {
    %2 = "onnx.Exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    "onnx.Yield"(%2) : (tensor<4xf32>) -> ()
  }) : (tensor<i1>) -> tensor<4xf32>
  return %0, %l#0, %l#1 : tensor<4xf32>, tensor<4xf32>, tensor<?x4xf32, ["n", 4]>
}

// Neither a huge Expand nor a random draw is computed here.
// CHECK-LABEL: func.func @kept
// CHECK:         "onnx.Expand"
// CHECK:         "onnx.RandomNormalLike"
func.func @kept() -> (tensor<4096x4096xf32>, tensor<f32>) {
  %0 = "onnx.Constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %1 = "onnx.Constant"() {value = dense<4096> : tensor<2xi64>} : () -> tensor<2xi64>
  %2 = "onnx.Expand"(%0, %1) : (tensor<f32>, tensor<2xi64>) -> tensor<4096x4096xf32>
  %3 = "onnx.RandomNormalLike"(%0) : (tensor<f32>) -> tensor<f32>
  return %2, %3 : tensor<4096x4096xf32>, tensor<f32>
}
