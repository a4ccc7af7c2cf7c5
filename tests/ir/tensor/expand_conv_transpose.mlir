// RUN: onnxc-opt %s expand_conv_transpose | filecheck %s

// Two filters of 4 channels with 4 taps, of which 2 meet each pixel of the result: a filter for each phase, with the
// last tap first. From q = 0 to 4, so 5 places, whose 10 elements begin one before the result.
// CHECK-LABEL: func.func @few
// CHECK:         %[[W:.*]] = "onnx.Constant"() {{.*}} : () -> tensor<4x4x2xf32>
// CHECK:         %[[B:.*]] = "onnx.Constant"() {value = dense<[1.000000e+00, 1.000000e+00, 2.000000e+00, 2.000000e+00]> : tensor<4xf32>}
// CHECK:         %[[Y:.*]] = "onnx.Conv"(%arg0, %[[W]], %[[B]]) {kernel_shape = array<i64: 2>, pads = array<i64: 1, 1>} : (tensor<1x4x4xf32>, tensor<4x4x2xf32>, tensor<4xf32>) -> tensor<1x4x5xf32>
// CHECK:         %[[P:.*]] = "onnx.Reshape"(%[[Y]], {{.*}}) {{.*}} -> tensor<1x2x2x5xf32>
// CHECK:         %[[T:.*]] = "onnx.Transpose"(%[[P]]) {perm = array<i64: 0, 1, 3, 2>} : (tensor<1x2x2x5xf32>) -> tensor<1x2x5x2xf32>
// CHECK:         %[[R:.*]] = "onnx.Reshape"(%[[T]], {{.*}}) {{.*}} -> tensor<1x2x10xf32>
// CHECK:         "onnx.Slice"(%[[R]], {{.*}}) {{.*}} -> tensor<1x2x8xf32>
// CHECK-NOT:     onnx.ConvTranspose
func.func @few(%x: tensor<1x4x4xf32>) -> tensor<1x2x8xf32> {
  %w = "onnx.Constant"() {value = dense<0.5> : tensor<4x2x4xf32>} : () -> tensor<4x2x4xf32>
  %b = "onnx.Constant"() {value = dense<[1.0, 2.0]> : tensor<2xf32>} : () -> tensor<2xf32>
  %y = "onnx.ConvTranspose"(%x, %w, %b) {strides = array<i64: 2>, pads = array<i64: 1, 1>} : (tensor<1x4x4xf32>, tensor<4x2x4xf32>, tensor<2xf32>) -> tensor<1x2x8xf32>
  return %y : tensor<1x2x8xf32>
}

// Eight filters fill a vector as they are.
// CHECK-LABEL: func.func @many
// CHECK:         "onnx.ConvTranspose"
func.func @many(%x: tensor<1x1x4xf32>) -> tensor<1x8x8xf32> {
  %w = "onnx.Constant"() {value = dense<0.5> : tensor<1x8x4xf32>} : () -> tensor<1x8x4xf32>
  %y = "onnx.ConvTranspose"(%x, %w) {strides = array<i64: 2>, pads = array<i64: 1, 1>} : (tensor<1x1x4xf32>, tensor<1x8x4xf32>) -> tensor<1x8x8xf32>
  return %y : tensor<1x8x8xf32>
}

// An axis of one pixel: whatever the stride, a product with all taps.
// CHECK-LABEL: func.func @one
// CHECK:         "onnx.Conv"{{.*}} {kernel_shape = array<i64: 1>, pads = array<i64: 0, 0>} : (tensor<1x1x1xf32>, tensor<32x1x1xf32>) -> tensor<1x32x1xf32>
func.func @one(%x: tensor<1x1x1xf32>) -> tensor<1x8x4xf32> {
  %w = "onnx.Constant"() {value = dense<0.5> : tensor<1x8x4xf32>} : () -> tensor<1x8x4xf32>
  %y = "onnx.ConvTranspose"(%x, %w) {strides = array<i64: 1>} : (tensor<1x1x1xf32>, tensor<1x8x4xf32>) -> tensor<1x8x4xf32>
  return %y : tensor<1x8x4xf32>
}
