// RUN: onnxc-opt %s decompose | filecheck %s

// Each channel of each image is one row of a LayerNormalization; then scale and bias per channel.
// CHECK-LABEL: func.func @instance_normalization
// CHECK:         %[[ROWS:.*]] = "onnx.Reshape"(%arg0
// CHECK-SAME:      tensor<?x3x20xf32, ["N", 3, 20]>
// CHECK:         %[[NORMAL:.*]] = "onnx.LayerNormalization"(%[[ROWS]]
// CHECK-SAME:      epsilon = 0.00999999977 : f32
// CHECK:         %[[BACK:.*]] = "onnx.Reshape"(%[[NORMAL]]
// CHECK:         %[[MUL:.*]] = "onnx.Mul"(%[[BACK]]
// CHECK:         "onnx.Add"(%[[MUL]]
func.func @instance_normalization(%x: tensor<?x3x4x5xf32, ["N", 3, 4, 5]>, %s: tensor<3xf32>, %b: tensor<3xf32>)
    -> tensor<?x3x4x5xf32, ["N", 3, 4, 5]> {
  %0 = "onnx.InstanceNormalization"(%x, %s, %b) {epsilon = 0.01 : f32}
      : (tensor<?x3x4x5xf32, ["N", 3, 4, 5]>, tensor<3xf32>, tensor<3xf32>) -> tensor<?x3x4x5xf32, ["N", 3, 4, 5]>
  return %0 : tensor<?x3x4x5xf32, ["N", 3, 4, 5]>
}

// The largest element is subtracted before exp and added after log: nothing overflows.
// CHECK-LABEL: func.func @log_sum_exp
// CHECK:         %[[TOP:.*]] = "onnx.ReduceMax"(%arg0
// CHECK:         %[[SAFE:.*]] = "onnx.Where"({{.*}}, {{.*}}, %[[TOP]])
// CHECK:         %[[SHIFTED:.*]] = "onnx.Sub"(%arg0, %[[SAFE]])
// CHECK:         "onnx.Exp"(%[[SHIFTED]])
// CHECK:         "onnx.ReduceSum"
// CHECK:         "onnx.Log"
func.func @log_sum_exp(%x: tensor<3x5xf32>) -> tensor<3xf32> {
  %axes = "onnx.Constant"() {value = dense<1> : tensor<1xi64>} : () -> tensor<1xi64>
  %0 = "onnx.ReduceLogSumExp"(%x, %axes) {keepdims = 0 : i64} : (tensor<3x5xf32>, tensor<1xi64>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// Labels of both sides that the result has are the batch, the others are summed by the matrix product.
// CHECK-LABEL: func.func @einsum
// CHECK:         "onnx.Transpose"(%arg1) {perm = array<i64: 0, 2, 1>}
// CHECK:         "onnx.MatMul"
// CHECK-SAME:      (tensor<2x3x4xf32>, tensor<2x4x5xf32>) -> tensor<2x3x5xf32>
func.func @einsum(%a: tensor<2x3x4xf32>, %b: tensor<2x5x4xf32>) -> tensor<2x3x5xf32> {
  %0 = "onnx.Einsum"(%a, %b) {equation = "bik,bjk->bij"} : (tensor<2x3x4xf32>, tensor<2x5x4xf32>) -> tensor<2x3x5xf32>
  return %0 : tensor<2x3x5xf32>
}

// Rounded to even, moved by the zero point, kept within the limits of the type.
// CHECK-LABEL: func.func @quantize
// CHECK:         "onnx.Div"
// CHECK:         "onnx.Round"
// CHECK:         "onnx.Add"
// CHECK:         "onnx.Clip"
// CHECK:         "onnx.Cast"
func.func @quantize(%x: tensor<3x5xf32>, %zero: tensor<ui8>) -> tensor<3x5xui8> {
  %scale = "onnx.Constant"() {value = dense<0.01> : tensor<f32>} : () -> tensor<f32>
  %0 = "onnx.QuantizeLinear"(%x, %scale, %zero) : (tensor<3x5xf32>, tensor<f32>, tensor<ui8>) -> tensor<3x5xui8>
  return %0 : tensor<3x5xui8>
}
