// RUN: onnxc-opt %s fold_batch_norm simplify merge_equal remove_dead | filecheck %s

// Into the convolution before it, bias made where there was none; what follows per channel goes the same way.
// CHECK-LABEL: func.func @conv
// CHECK:         %[[B:.*]] = "onnx.Constant"() {value = dense<[-3.500000e+00, -7.500000e+00]>
// CHECK:         %[[Y:.*]] = "onnx.Conv"(%arg0, %{{.*}}, %[[B]])
// CHECK-NEXT:    return %[[Y]]
func.func @conv(%x: tensor<1x1x4x4xf32>) -> tensor<1x2x4x4xf32> {
  %w = "onnx.Constant"() {value = dense<[[[[2.0]]], [[[3.0]]]]> : tensor<2x1x1x1xf32>} : () -> tensor<2x1x1x1xf32>
  %scale = "onnx.Constant"() {value = dense<[1.0, 2.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %bias = "onnx.Constant"() {value = dense<[0.5, 1.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %mean = "onnx.Constant"() {value = dense<[3.0, 4.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %var = "onnx.Constant"() {value = dense<[1.0, 4.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %two = "onnx.Constant"() {value = dense<2.0> : tensor<1xf32>} : () -> tensor<1xf32>
  %c = "onnx.Constant"() {value = dense<[[[1.5]], [[-1.5]]]> : tensor<2x1x1xf32>} : () -> tensor<2x1x1xf32>
  %0 = "onnx.Conv"(%x, %w) : (tensor<1x1x4x4xf32>, tensor<2x1x1x1xf32>) -> tensor<1x2x4x4xf32>
  %1 = "onnx.BatchNormalization"(%0, %scale, %bias, %mean, %var) {epsilon = 0.0 : f32}
    : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %2 = "onnx.Mul"(%two, %1) : (tensor<1xf32>, tensor<1x2x4x4xf32>) -> tensor<1x2x4x4xf32>
  %3 = "onnx.Add"(%2, %c) : (tensor<1x2x4x4xf32>, tensor<2x1x1xf32>) -> tensor<1x2x4x4xf32>
  return %3 : tensor<1x2x4x4xf32>
}

// A convolution with another reader keeps its weights; the normalisation is a Mul and an Add, the scale after it one more.
// CHECK-LABEL: func.func @shared
// CHECK:         %[[C:.*]] = "onnx.Conv"
// CHECK:         %[[M:.*]] = "onnx.Mul"(%[[C]]
// CHECK:         %[[A:.*]] = "onnx.Add"(%[[M]]
// CHECK:         return %[[C]], %[[A]]
func.func @shared(%x: tensor<1x1x4x4xf32>, %w: tensor<2x1x1x1xf32>) -> (tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>) {
  %p = "onnx.Constant"() {value = dense<[1.0, 2.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %two = "onnx.Constant"() {value = dense<2.0> : tensor<1xf32>} : () -> tensor<1xf32>
  %0 = "onnx.Conv"(%x, %w) : (tensor<1x1x4x4xf32>, tensor<2x1x1x1xf32>) -> tensor<1x2x4x4xf32>
  %1 = "onnx.BatchNormalization"(%0, %p, %p, %p, %p)
    : (tensor<1x2x4x4xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<1x2x4x4xf32>
  %2 = "onnx.Div"(%1, %two) : (tensor<1x2x4x4xf32>, tensor<1xf32>) -> tensor<1x2x4x4xf32>
  return %0, %2 : tensor<1x2x4x4xf32>, tensor<1x2x4x4xf32>
}

// Grouped transposed convolution, Gemm with its flags, and a MatMul with a scaled bias behind it.
// CHECK-LABEL: func.func @others
// CHECK:         %[[T:.*]] = "onnx.ConvTranspose"(%arg0, %{{.*}}, %{{.*}}) {group = 2 : i64}
// CHECK:         %[[G:.*]] = "onnx.Gemm"(%arg1, %{{.*}}, %{{.*}}) {alpha = 5.000000e-01 : f32, beta = 1.000000e+00 : f32, transB = 1 : i64}
// CHECK:         %[[M:.*]] = "onnx.MatMul"(%arg1
// CHECK:         %[[A:.*]] = "onnx.Add"(%[[M]]
// CHECK:         return %[[T]], %[[G]], %[[A]]
func.func @others(%x: tensor<1x2x3x3xf32>, %y: tensor<3x2xf32>) -> (tensor<1x4x3x3xf32>, tensor<3x2xf32>, tensor<3x2xf32>) {
  %w = "onnx.Constant"() {value = dense<[[[[1.0]], [[2.0]]], [[[3.0]], [[4.0]]]]> : tensor<2x2x1x1xf32>} : () -> tensor<2x2x1x1xf32>
  %c = "onnx.Constant"() {value = dense<[[[1.0]], [[2.0]], [[3.0]], [[4.0]]]> : tensor<4x1x1xf32>} : () -> tensor<4x1x1xf32>
  %m = "onnx.Constant"() {value = dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>} : () -> tensor<2x2xf32>
  %b = "onnx.Constant"() {value = dense<[3.0, 7.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %s = "onnx.Constant"() {value = dense<0.125> : tensor<f32>} : () -> tensor<f32>
  %0 = "onnx.ConvTranspose"(%x, %w) {group = 2 : i64} : (tensor<1x2x3x3xf32>, tensor<2x2x1x1xf32>) -> tensor<1x4x3x3xf32>
  %1 = "onnx.Mul"(%0, %c) : (tensor<1x4x3x3xf32>, tensor<4x1x1xf32>) -> tensor<1x4x3x3xf32>
  %2 = "onnx.Gemm"(%y, %m, %b) {alpha = 0.5 : f32, beta = 2.0 : f32, transB = 1 : i64} : (tensor<3x2xf32>, tensor<2x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  %3 = "onnx.Mul"(%2, %b) : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  %4 = "onnx.Sub"(%3, %b) : (tensor<3x2xf32>, tensor<2xf32>) -> tensor<3x2xf32>
  %5 = "onnx.MatMul"(%y, %m) : (tensor<3x2xf32>, tensor<2x2xf32>) -> tensor<3x2xf32>
  %6 = "onnx.Add"(%b, %5) : (tensor<2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>
  %7 = "onnx.Mul"(%6, %s) : (tensor<3x2xf32>, tensor<f32>) -> tensor<3x2xf32>
  return %1, %4, %7 : tensor<1x4x3x3xf32>, tensor<3x2xf32>, tensor<3x2xf32>
}

// Before a convolution: the factor goes into the weights; the term too where nothing is padded, else it is divided by the factor.
// CHECK-LABEL: func.func @before
// CHECK:         %[[A:.*]] = "onnx.Conv"(%arg0, %{{.*}}, %{{.*}}) {group = 2 : i64}
// CHECK:         %[[T:.*]] = "onnx.Add"(%arg0
// CHECK:         %[[B:.*]] = "onnx.Conv"(%[[T]], %{{.*}}) {group = 2 : i64, pads = array<i64: 1, 1, 1, 1>}
// CHECK:         return %[[A]], %[[B]]
func.func @before(%x: tensor<1x2x3x3xf32>) -> (tensor<1x4x2x2xf32>, tensor<1x4x4x4xf32>) {
  %w = "onnx.Constant"() {value = dense<[[[[1.0, 2.0], [3.0, 4.0]]], [[[5.0, 6.0], [7.0, 8.0]]], [[[-1.0, 2.0], [-3.0, 4.0]]], [[[0.0, 1.0], [1.0, 0.0]]]]> : tensor<4x1x2x2xf32>} : () -> tensor<4x1x2x2xf32>
  %b = "onnx.Constant"() {value = dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>} : () -> tensor<4xf32>
  %s = "onnx.Constant"() {value = dense<[[[2.0]], [[3.0]]]> : tensor<2x1x1xf32>} : () -> tensor<2x1x1xf32>
  %t = "onnx.Constant"() {value = dense<[[[0.5]], [[-1.5]]]> : tensor<2x1x1xf32>} : () -> tensor<2x1x1xf32>
  %0 = "onnx.Mul"(%x, %s) : (tensor<1x2x3x3xf32>, tensor<2x1x1xf32>) -> tensor<1x2x3x3xf32>
  %1 = "onnx.Add"(%0, %t) : (tensor<1x2x3x3xf32>, tensor<2x1x1xf32>) -> tensor<1x2x3x3xf32>
  %2 = "onnx.Conv"(%1, %w, %b) {group = 2 : i64} : (tensor<1x2x3x3xf32>, tensor<4x1x2x2xf32>, tensor<4xf32>) -> tensor<1x4x2x2xf32>
  %3 = "onnx.Mul"(%x, %s) : (tensor<1x2x3x3xf32>, tensor<2x1x1xf32>) -> tensor<1x2x3x3xf32>
  %4 = "onnx.Add"(%3, %t) : (tensor<1x2x3x3xf32>, tensor<2x1x1xf32>) -> tensor<1x2x3x3xf32>
  %5 = "onnx.Conv"(%4, %w) {group = 2 : i64, pads = array<i64: 1, 1, 1, 1>} : (tensor<1x2x3x3xf32>, tensor<4x1x2x2xf32>) -> tensor<1x4x4x4xf32>
  return %2, %5 : tensor<1x4x2x2xf32>, tensor<1x4x4x4xf32>
}

// Attention's scale goes through heads and bias into the projection of Q; a projection that is read twice keeps its weights.
// CHECK-LABEL: func.func @scores
// CHECK:         %[[W:.*]] = "onnx.Constant"() {value = dense<{{.}}[5.000000e-01, 1.000000e+00], [1.500000e+00, 2.000000e+00]]>
// CHECK:         "onnx.MatMul"(%arg0, %[[W]])
// CHECK:         %[[S:.*]] = "onnx.MatMul"
// CHECK-NEXT:    return %[[S]]
func.func @scores(%x: tensor<1x3x2xf32>, %k: tensor<1x2x1x3xf32>) -> tensor<1x2x3x3xf32> {
  %n = "onnx.None"() : () -> none
  %w = "onnx.Constant"() {value = dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>} : () -> tensor<2x2xf32>
  %b = "onnx.Constant"() {value = dense<[3.0, 7.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %two = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "onnx.MatMul"(%x, %w) : (tensor<1x3x2xf32>, tensor<2x2xf32>) -> tensor<1x3x2xf32>
  %1 = "onnx.Add"(%b, %0) : (tensor<2xf32>, tensor<1x3x2xf32>) -> tensor<1x3x2xf32>
  %2 = "onnx.Reshape"(%1, %n) {allowzero = 1 : i64, operand_values = {"1" = [1, 3, 2, 1]}} : (tensor<1x3x2xf32>, none) -> tensor<1x3x2x1xf32>
  %3 = "onnx.Transpose"(%2) {perm = array<i64: 0, 2, 1, 3>} : (tensor<1x3x2x1xf32>) -> tensor<1x2x3x1xf32>
  %4 = "onnx.MatMul"(%3, %k) : (tensor<1x2x3x1xf32>, tensor<1x2x1x3xf32>) -> tensor<1x2x3x3xf32>
  %5 = "onnx.Div"(%4, %two) : (tensor<1x2x3x3xf32>, tensor<f32>) -> tensor<1x2x3x3xf32>
  return %5 : tensor<1x2x3x3xf32>
}
