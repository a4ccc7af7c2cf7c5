// RUN: onnxc-opt %s to_nhwc infer_shapes fold_constants simplify merge_equal remove_dead | filecheck %s

// A chain of convolutions and element-wise ops: one Transpose at either end, none inside; a per-channel constant moves.
// CHECK-LABEL: func.func @chain
// CHECK:         %[[T:.*]] = "onnx.Transpose"(%arg0) {perm = array<i64: 0, 2, 3, 1>}
// CHECK:         %[[C:.*]] = "kernel.conv"(%[[T]], %{{.*}}, %{{.*}}) {dilations = array<i64: 1, 1>, group = 1 : i64,
// CHECK-SAME:      pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>} : (tensor<1x8x8x2xf32>, tensor<3x3x2x4xf32>, tensor<4xf32>) -> tensor<1x4x4x4xf32>
// CHECK:         "onnx.Mul"(%[[C]], %{{.*}}) : (tensor<1x4x4x4xf32>, tensor<1x1x1x4xf32>)
// CHECK:         "kernel.max_pool"
// CHECK:         %[[E:.*]] = "onnx.Transpose"(%{{.*}}) {perm = array<i64: 0, 3, 1, 2>}
// CHECK:         return %[[E]]
func.func @chain(%x: tensor<1x2x8x8xf32>, %w: tensor<4x2x3x3xf32>) -> tensor<1x4x3x3xf32> {
  %b = "onnx.Constant"() {value = dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>} : () -> tensor<4xf32>
  %s = "onnx.Constant"() {value = dense<[[[1.0]], [[2.0]], [[3.0]], [[4.0]]]> : tensor<4x1x1xf32>} : () -> tensor<4x1x1xf32>
  %0 = "onnx.Conv"(%x, %w, %b) {pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>}
    : (tensor<1x2x8x8xf32>, tensor<4x2x3x3xf32>, tensor<4xf32>) -> tensor<1x4x4x4xf32>
  %1 = "onnx.Mul"(%0, %s) : (tensor<1x4x4x4xf32>, tensor<4x1x1xf32>) -> tensor<1x4x4x4xf32>
  %2 = "onnx.Relu"(%1) : (tensor<1x4x4x4xf32>) -> tensor<1x4x4x4xf32>
  %3 = "onnx.MaxPool"(%2) {kernel_shape = array<i64: 2, 2>} : (tensor<1x4x4x4xf32>) -> tensor<1x4x3x3xf32>
  return %3 : tensor<1x4x3x3xf32>
}

// A detection head: the model's own Transpose to channels last is what we have already.
// CHECK-LABEL: func.func @head
// CHECK-COUNT-1: "onnx.Transpose"
// CHECK:         "kernel.conv"
// CHECK:         "kernel.conv"
// CHECK-NOT:     "onnx.Transpose"
// CHECK:         "onnx.Concat"(%{{.*}}, %{{.*}}) {axis = 1 : i64}
// CHECK-NOT:     "onnx.Transpose"
func.func @head(%x: tensor<1x2x4x4xf32>, %w: tensor<6x2x1x1xf32>) -> tensor<1x64x3xf32> {
  %n = "onnx.None"() : () -> none
  %0 = "onnx.Conv"(%x, %w) : (tensor<1x2x4x4xf32>, tensor<6x2x1x1xf32>) -> tensor<1x6x4x4xf32>
  %1 = "onnx.Transpose"(%0) {perm = array<i64: 0, 2, 3, 1>} : (tensor<1x6x4x4xf32>) -> tensor<1x4x4x6xf32>
  %2 = "onnx.Reshape"(%1, %n) {operand_values = {"1" = [1, 32, 3]}} : (tensor<1x4x4x6xf32>, none) -> tensor<1x32x3xf32>
  %3 = "onnx.Conv"(%x, %w) {dilations = array<i64: 2, 2>} : (tensor<1x2x4x4xf32>, tensor<6x2x1x1xf32>) -> tensor<1x6x4x4xf32>
  %4 = "onnx.Transpose"(%3) {perm = array<i64: 0, 2, 3, 1>} : (tensor<1x6x4x4xf32>) -> tensor<1x4x4x6xf32>
  %5 = "onnx.Reshape"(%4, %n) {operand_values = {"1" = [1, 32, 3]}} : (tensor<1x4x4x6xf32>, none) -> tensor<1x32x3xf32>
  %6 = "onnx.Concat"(%2, %5) {axis = 1 : i64} : (tensor<1x32x3xf32>, tensor<1x32x3xf32>) -> tensor<1x64x3xf32>
  return %6 : tensor<1x64x3xf32>
}

// Transformer blocks between convolutions: flattening the image to rows of channels moves nothing, either way.
// CHECK-LABEL: func.func @tokens
// CHECK:         "onnx.Transpose"(%arg0) {perm = array<i64: 0, 2, 3, 1>}
// CHECK:         "kernel.conv"
// CHECK-NOT:     onnx.Transpose
// CHECK:         "onnx.MatMul"
// CHECK-NOT:     onnx.Transpose
// CHECK:         "kernel.conv"
// CHECK:         "onnx.Transpose"(%{{.*}}) {perm = array<i64: 0, 3, 1, 2>}
func.func @tokens(%x: tensor<?x2x4x4xf32, ["n", 2, 4, 4]>, %w: tensor<2x2x1x1xf32>, %m: tensor<2x2xf32>)
    -> tensor<?x2x4x4xf32, ["n", 2, 4, 4]> {
  %n = "onnx.None"() : () -> none
  %0 = "onnx.Conv"(%x, %w) : (tensor<?x2x4x4xf32, ["n", 2, 4, 4]>, tensor<2x2x1x1xf32>) -> tensor<?x2x4x4xf32, ["n", 2, 4, 4]>
  %1 = "onnx.Reshape"(%0, %n) {operand_values = {"1" = ["n", 2, 16]}}
    : (tensor<?x2x4x4xf32, ["n", 2, 4, 4]>, none) -> tensor<?x2x16xf32, ["n", 2, 16]>
  %2 = "onnx.Transpose"(%1) {perm = array<i64: 0, 2, 1>} : (tensor<?x2x16xf32, ["n", 2, 16]>) -> tensor<?x16x2xf32, ["n", 16, 2]>
  %3 = "onnx.MatMul"(%2, %m) : (tensor<?x16x2xf32, ["n", 16, 2]>, tensor<2x2xf32>) -> tensor<?x16x2xf32, ["n", 16, 2]>
  %4 = "onnx.Transpose"(%3) {perm = array<i64: 0, 2, 1>} : (tensor<?x16x2xf32, ["n", 16, 2]>) -> tensor<?x2x16xf32, ["n", 2, 16]>
  %5 = "onnx.Reshape"(%4, %n) {operand_values = {"1" = ["n", 2, 4, 4]}}
    : (tensor<?x2x16xf32, ["n", 2, 16]>, none) -> tensor<?x2x4x4xf32, ["n", 2, 4, 4]>
  %6 = "onnx.Conv"(%5, %w) : (tensor<?x2x4x4xf32, ["n", 2, 4, 4]>, tensor<2x2x1x1xf32>) -> tensor<?x2x4x4xf32, ["n", 2, 4, 4]>
  return %6 : tensor<?x2x4x4xf32, ["n", 2, 4, 4]>
}

// A channel shuffle: the one Transpose in the middle works on channels last.
// CHECK-LABEL: func.func @shuffle
// CHECK:         "kernel.conv"
// CHECK:         "onnx.Transpose"(%{{.*}}) {perm = array<i64: 0, 1, 2, 4, 3>} : (tensor<1x3x3x2x3xf32>) -> tensor<1x3x3x3x2xf32>
// CHECK-NOT:     onnx.Transpose
// CHECK:         "kernel.conv"
func.func @shuffle(%x: tensor<1x6x3x3xf32>, %w: tensor<6x2x1x1xf32>) -> tensor<1x6x3x3xf32> {
  %n = "onnx.None"() : () -> none
  %0 = "onnx.Conv"(%x, %w) {group = 3 : i64} : (tensor<1x6x3x3xf32>, tensor<6x2x1x1xf32>) -> tensor<1x6x3x3xf32>
  %1 = "onnx.Reshape"(%0, %n) {operand_values = {"1" = [1, 2, 3, 3, 3]}} : (tensor<1x6x3x3xf32>, none) -> tensor<1x2x3x3x3xf32>
  %2 = "onnx.Transpose"(%1) {perm = array<i64: 0, 2, 1, 3, 4>} : (tensor<1x2x3x3x3xf32>) -> tensor<1x3x2x3x3xf32>
  %3 = "onnx.Reshape"(%2, %n) {operand_values = {"1" = [1, 6, 3, 3]}} : (tensor<1x3x2x3x3xf32>, none) -> tensor<1x6x3x3xf32>
  %4 = "onnx.Conv"(%3, %w) {group = 3 : i64} : (tensor<1x6x3x3xf32>, tensor<6x2x1x1xf32>) -> tensor<1x6x3x3xf32>
  return %4 : tensor<1x6x3x3xf32>
}

// Ops with axes: renumbered. A reduction that leaves no order to speak of ends the matter, and a softmax over channels is last.
// CHECK-LABEL: func.func @axes
// CHECK-COUNT-1: "onnx.Transpose"
// CHECK:         "kernel.average_pool"
// CHECK:         "onnx.Pad"(%{{.*}}) {mode = "constant", operand_values = {"1" = [0, 1, 0, 0, 0, 0, 2, 0]}}
// CHECK:         "onnx.Slice"(%{{.*}}) {operand_values = {"1" = [1], "2" = [3], "3" = [3], "4" = [1]}}
// CHECK:         "onnx.Softmax"(%{{.*}}) {axis = 3 : i64}
// CHECK:         "onnx.Resize"
// CHECK:         "onnx.ReduceMean"(%{{.*}}) {keepdims = 0 : i64, operand_values = {"1" = [1, 2]}}
// CHECK-NOT:     onnx.Transpose
// CHECK:         return
func.func @axes(%x: tensor<2x3x5x5xf32>) -> tensor<2x2xf32> {
  %n = "onnx.None"() : () -> none
  %k = "onnx.Constant"() {value = dense<[1.0, 1.0, 2.0, 2.0]> : tensor<4xf32>} : () -> tensor<4xf32>
  %0 = "onnx.AveragePool"(%x) {kernel_shape = array<i64: 3, 3>, auto_pad = "SAME_UPPER", strides = array<i64: 2, 2>}
    : (tensor<2x3x5x5xf32>) -> tensor<2x3x3x3xf32>
  %1 = "onnx.Pad"(%0, %n) {operand_values = {"1" = [0, 0, 1, 0, 0, 0, 0, 2]}} : (tensor<2x3x3x3xf32>, none) -> tensor<2x3x4x5xf32>
  %2 = "onnx.Slice"(%1, %n, %n, %n) {operand_values = {"1" = [1], "2" = [3], "3" = [1]}}
    : (tensor<2x3x4x5xf32>, none, none, none) -> tensor<2x2x4x5xf32>
  %3 = "onnx.Softmax"(%2) {axis = 1 : i64} : (tensor<2x2x4x5xf32>) -> tensor<2x2x4x5xf32>
  %4 = "onnx.Resize"(%3, %n, %k) {mode = "nearest"} : (tensor<2x2x4x5xf32>, none, tensor<4xf32>) -> tensor<2x2x8x10xf32>
  %5 = "onnx.ReduceMean"(%4, %n) {keepdims = 0 : i64, operand_values = {"1" = [2, 3]}} : (tensor<2x2x8x10xf32>, none) -> tensor<2x2xf32>
  return %5 : tensor<2x2xf32>
}

// A transposed convolution, and SAME pads that depend on the run-time size (an explicit Pad); 1-D works like 2-D.
// CHECK-LABEL: func.func @others
// CHECK:         "onnx.Pad"
// CHECK:         "kernel.conv"(%{{.*}}) {dilations = array<i64: 1>, group = 1 : i64, pads = array<i64: 0, 0>, strides = array<i64: 2>}
// CHECK:         "kernel.conv_transpose"(%{{.*}}) {dilations = array<i64: 1>, group = 1 : i64, output_padding = array<i64: 1>, pads = array<i64: 1, 0>, strides = array<i64: 2>}
func.func @others(%x: tensor<1x2x?xf32, [1, 2, "t"]>, %w: tensor<4x2x3xf32>, %v: tensor<4x2x2xf32>)
    -> tensor<1x2x?xf32, [1, 2, "2*((t+1)//2)"]> {
  %0 = "onnx.Conv"(%x, %w) {auto_pad = "SAME_UPPER", strides = array<i64: 2>}
    : (tensor<1x2x?xf32, [1, 2, "t"]>, tensor<4x2x3xf32>) -> tensor<1x4x?xf32, [1, 4, "(t+1)//2"]>
  %1 = "onnx.ConvTranspose"(%0, %v) {strides = array<i64: 2>, pads = array<i64: 1, 0>, output_padding = array<i64: 1>}
    : (tensor<1x4x?xf32, [1, 4, "(t+1)//2"]>, tensor<4x2x2xf32>) -> tensor<1x2x?xf32, [1, 2, "2*((t+1)//2)"]>
  return %1 : tensor<1x2x?xf32, [1, 2, "2*((t+1)//2)"]>
}

// Between planes on both sides, a first layer and element-wise ops behind it stay as they are: turning costs more.
// CHECK-LABEL: func.func @planes
// CHECK-NOT:     "onnx.Transpose"
// CHECK:         %[[P:.*]] = "kernel.conv_planes"(%arg0, %{{.*}}, %{{.*}}) {dilations = array<i64: 1, 1>, group = 1 : i64,
// CHECK-SAME:      pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>} : (tensor<1x2x64x64xf32>, tensor<3x3x3x2xf32>, tensor<3xf32>) -> tensor<1x3x32x32xf32>
// CHECK:         "onnx.Mul"(%[[P]], %{{.*}}) : (tensor<1x3x32x32xf32>, tensor<3x1x1xf32>)
// CHECK-NOT:     "onnx.Transpose"
// CHECK:         return
func.func @planes(%x: tensor<1x2x64x64xf32>) -> tensor<1x3x32x32xf32> {
  %w = "onnx.Constant"() {value = dense<0.5> : tensor<3x2x3x3xf32>} : () -> tensor<3x2x3x3xf32>
  %b = "onnx.Constant"() {value = dense<[1.0, 2.0, 3.0]> : tensor<3xf32>} : () -> tensor<3xf32>
  %s = "onnx.Constant"() {value = dense<[[[1.0]], [[2.0]], [[3.0]]]> : tensor<3x1x1xf32>} : () -> tensor<3x1x1xf32>
  %0 = "onnx.Conv"(%x, %w, %b) {pads = array<i64: 1, 1, 1, 1>, strides = array<i64: 2, 2>}
    : (tensor<1x2x64x64xf32>, tensor<3x2x3x3xf32>, tensor<3xf32>) -> tensor<1x3x32x32xf32>
  %1 = "onnx.Mul"(%0, %s) : (tensor<1x3x32x32xf32>, tensor<3x1x1xf32>) -> tensor<1x3x32x32xf32>
  %2 = "onnx.Relu"(%1) : (tensor<1x3x32x32xf32>) -> tensor<1x3x32x32xf32>
  return %2 : tensor<1x3x32x32xf32>
}

// A 1×1 convolution of planes is a product; a depthwise one with a neighbour that is a product's operand stays, too.
// CHECK-LABEL: func.func @products
// CHECK:         "onnx.MatMul"(%{{.*}}, %{{.*}}) : (tensor<4x2xf32>, tensor<1x2x64xf32>) -> tensor<1x4x64xf32>
// CHECK:         "kernel.depthwise_planes"
// CHECK-NOT:     "onnx.Transpose"
// CHECK:         "onnx.MatMul"
// CHECK-NOT:     "onnx.Transpose"
// CHECK:         return
func.func @products(%x: tensor<1x2x8x8xf32>, %w: tensor<4x2x1x1xf32>, %d: tensor<2x1x3x3xf32>, %m: tensor<128x5xf32>)
    -> (tensor<1x4x8x8xf32>, tensor<1x5xf32>) {
  %n = "onnx.None"() : () -> none
  %0 = "onnx.Conv"(%x, %w) : (tensor<1x2x8x8xf32>, tensor<4x2x1x1xf32>) -> tensor<1x4x8x8xf32>
  %1 = "onnx.Conv"(%x, %d) {group = 2 : i64, pads = array<i64: 1, 1, 1, 1>} : (tensor<1x2x8x8xf32>, tensor<2x1x3x3xf32>) -> tensor<1x2x8x8xf32>
  %2 = "onnx.Relu"(%1) : (tensor<1x2x8x8xf32>) -> tensor<1x2x8x8xf32>
  %3 = "onnx.Reshape"(%2, %n) {operand_values = {"1" = [1, 128]}} : (tensor<1x2x8x8xf32>, none) -> tensor<1x128xf32>
  %4 = "onnx.MatMul"(%3, %m) : (tensor<1x128xf32>, tensor<128x5xf32>) -> tensor<1x5xf32>
  return %0, %4 : tensor<1x4x8x8xf32>, tensor<1x5xf32>
}
