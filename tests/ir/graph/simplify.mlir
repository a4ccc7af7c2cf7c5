// RUN: onnxc-opt %s simplify remove_dead | filecheck %s

// A chain of shape changes is one Reshape to the last shape, symbolic dims included; one to the same shape is nothing.
// CHECK-LABEL: func.func @views
// CHECK-NEXT:    %[[N:.*]] = "onnx.None"
// CHECK-NEXT:    %[[R:.*]] = "onnx.Reshape"(%arg0, %[[N]]) {allowzero = 1 : i64, operand_values = {"1" = ["b", 6]}}
// CHECK-NEXT:    return %[[R]], %arg0
func.func @views(%x: tensor<?x2x3xf32, ["b", 2, 3]>) -> (tensor<?x6xf32, ["b", 6]>, tensor<?x2x3xf32, ["b", 2, 3]>) {
  %n = "onnx.None"() : () -> none
  %i = "onnx.Identity"(%x) : (tensor<?x2x3xf32, ["b", 2, 3]>) -> tensor<?x2x3xf32, ["b", 2, 3]>
  %0 = "onnx.Unsqueeze"(%i, %n) {operand_values = {"1" = [1]}}
    : (tensor<?x2x3xf32, ["b", 2, 3]>, none) -> tensor<?x1x2x3xf32, ["b", 1, 2, 3]>
  %1 = "onnx.Flatten"(%0) {axis = 2 : i64} : (tensor<?x1x2x3xf32, ["b", 1, 2, 3]>) -> tensor<?x6xf32, ["b", 6]>
  %2 = "onnx.Reshape"(%1, %n) {operand_values = {"1" = ["b", 2, 3]}}
    : (tensor<?x6xf32, ["b", 6]>, none) -> tensor<?x2x3xf32, ["b", 2, 3]>
  return %1, %2 : tensor<?x6xf32, ["b", 6]>, tensor<?x2x3xf32, ["b", 2, 3]>
}

// What is reduced is not turned first; what is left of it is, if it has to be.
// CHECK-LABEL: func.func @reduced_transposes
// CHECK:         %[[M:.*]] = "onnx.ReduceMax"(%arg0, %{{.*}}) {keepdims = 1 : i64, operand_values = {"1" = [1]}} : {{.*}} -> tensor<2x1x4xf32>
// CHECK:         %[[MT:.*]] = "onnx.Transpose"(%[[M]]) {perm = array<i64: 2, 0, 1>}
// CHECK:         %[[S:.*]] = "onnx.ReduceSum"(%arg0, %{{.*}}) {keepdims = 0 : i64, operand_values = {"1" = [1]}} : {{.*}} -> tensor<2x4xf32>
// CHECK:         %[[ST:.*]] = "onnx.Transpose"(%[[S]]) {perm = array<i64: 1, 0>}
// CHECK:         %[[L:.*]] = "onnx.ReduceMean"(%arg0, %{{.*}}) {keepdims = 0 : i64, operand_values = {"1" = [0, 1]}} : {{.*}} -> tensor<4xf32>
// CHECK:         return %[[MT]], %[[ST]], %[[L]]
func.func @reduced_transposes(%x: tensor<2x3x4xf32>) -> (tensor<4x2x1xf32>, tensor<4x2xf32>, tensor<4xf32>) {
  %n = "onnx.None"() : () -> none
  %0 = "onnx.Transpose"(%x) {perm = array<i64: 2, 0, 1>} : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
  %1 = "onnx.ReduceMax"(%0, %n) {keepdims = 1 : i64, operand_values = {"1" = [-1]}} : (tensor<4x2x3xf32>, none) -> tensor<4x2x1xf32>
  %2 = "onnx.Transpose"(%x) {perm = array<i64: 2, 0, 1>} : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
  %3 = "onnx.ReduceSum"(%2, %n) {keepdims = 0 : i64, operand_values = {"1" = [2]}} : (tensor<4x2x3xf32>, none) -> tensor<4x2xf32>
  %4 = "onnx.Transpose"(%x) {perm = array<i64: 2, 0, 1>} : (tensor<2x3x4xf32>) -> tensor<4x2x3xf32>
  %5 = "onnx.ReduceMean"(%4, %n) {keepdims = 0 : i64, operand_values = {"1" = [2, 1]}} : (tensor<4x2x3xf32>, none) -> tensor<4xf32>
  return %1, %3, %5 : tensor<4x2x1xf32>, tensor<4x2xf32>, tensor<4xf32>
}

// What is joined along a new axis to be reduced along it is computed element by element; parts of two elements are not.
// CHECK-LABEL: func.func @reduced_stacks
// CHECK-NOT:     "onnx.Concat"
// CHECK:         %[[M:.*]] = "onnx.Max"(%{{.*}}, %{{.*}}, %{{.*}}) : (tensor<2x5x1xf32>, tensor<2x5x1xf32>, tensor<2x5x1xf32>) -> tensor<2x5x1xf32>
// CHECK:         %[[R:.*]] = "onnx.Reshape"(%[[M]], %{{.*}}) {{.*}} -> tensor<2x5xf32>
// CHECK:         %[[S:.*]] = "onnx.Add"(%arg1, %arg1) : (tensor<2x5x1xf32>, tensor<2x5x1xf32>) -> tensor<2x5x1xf32>
// CHECK:         "onnx.Concat"
// CHECK:         "onnx.ReduceMin"
func.func @reduced_stacks(%x: tensor<2x5xf32>, %y: tensor<2x5x1xf32>, %z: tensor<2x5x2xf32>) -> (tensor<2x5xf32>, tensor<2x5x1xf32>, tensor<2x5xf32>) {
  %n = "onnx.None"() : () -> none
  %0 = "onnx.Unsqueeze"(%x, %n) {operand_values = {"1" = [2]}} : (tensor<2x5xf32>, none) -> tensor<2x5x1xf32>
  %1 = "onnx.Concat"(%0, %y, %0) {axis = 2 : i64} : (tensor<2x5x1xf32>, tensor<2x5x1xf32>, tensor<2x5x1xf32>) -> tensor<2x5x3xf32>
  %2 = "onnx.ReduceMax"(%1, %n) {keepdims = 0 : i64, operand_values = {"1" = [2]}} : (tensor<2x5x3xf32>, none) -> tensor<2x5xf32>
  %3 = "onnx.Concat"(%y, %y) {axis = -1 : i64} : (tensor<2x5x1xf32>, tensor<2x5x1xf32>) -> tensor<2x5x2xf32>
  %4 = "onnx.ReduceSum"(%3, %n) {keepdims = 1 : i64, operand_values = {"1" = [-1]}} : (tensor<2x5x2xf32>, none) -> tensor<2x5x1xf32>
  %5 = "onnx.Concat"(%y, %z) {axis = -1 : i64} : (tensor<2x5x1xf32>, tensor<2x5x2xf32>) -> tensor<2x5x3xf32>
  %6 = "onnx.ReduceMin"(%5, %n) {keepdims = 0 : i64, operand_values = {"1" = [-1]}} : (tensor<2x5x3xf32>, none) -> tensor<2x5xf32>
  return %2, %4, %6 : tensor<2x5xf32>, tensor<2x5x1xf32>, tensor<2x5xf32>
}

// Transposes compose, cancel, and are a Reshape where only dims of size 1 move.
// CHECK-LABEL: func.func @transposes
// CHECK:         %[[T:.*]] = "onnx.Transpose"(%arg0) {perm = array<i64: 2, 1, 0>}
// CHECK:         %[[R:.*]] = "onnx.Reshape"(%arg1
// CHECK:         return %[[T]], %arg0, %[[R]]
func.func @transposes(%x: tensor<2x3x4xf32>, %y: tensor<2x1x4xf32>) -> (tensor<4x3x2xf32>, tensor<2x3x4xf32>, tensor<1x2x4xf32>) {
  %0 = "onnx.Transpose"(%x) {perm = array<i64: 1, 0, 2>} : (tensor<2x3x4xf32>) -> tensor<3x2x4xf32>
  %1 = "onnx.Transpose"(%0) {perm = array<i64: 2, 0, 1>} : (tensor<3x2x4xf32>) -> tensor<4x3x2xf32>
  %2 = "onnx.Transpose"(%0) {perm = array<i64: 1, 0, 2>} : (tensor<3x2x4xf32>) -> tensor<2x3x4xf32>
  %3 = "onnx.Transpose"(%y) {perm = array<i64: 1, 0, 2>} : (tensor<2x1x4xf32>) -> tensor<1x2x4xf32>
  return %1, %2, %3 : tensor<4x3x2xf32>, tensor<2x3x4xf32>, tensor<1x2x4xf32>
}

// A Cast through a wider type is one Cast; through a narrower one it is not.
// CHECK-LABEL: func.func @casts
// CHECK:         %[[A:.*]] = "onnx.Cast"(%arg0) {to = 7 : i64}
// CHECK:         %[[B:.*]] = "onnx.Cast"(%arg1) {to = 6 : i64}
// CHECK:         %[[C:.*]] = "onnx.Cast"(%[[B]])
// CHECK:         return %[[A]], %[[C]]
func.func @casts(%x: tensor<4xi32>, %y: tensor<4xf32>) -> (tensor<4xi64>, tensor<4xf32>) {
  %0 = "onnx.Cast"(%x) {to = 11 : i64} : (tensor<4xi32>) -> tensor<4xf64>
  %1 = "onnx.Cast"(%0) {to = 7 : i64} : (tensor<4xf64>) -> tensor<4xi64>
  %2 = "onnx.Cast"(%y) {to = 6 : i64} : (tensor<4xf32>) -> tensor<4xi32>
  %3 = "onnx.Cast"(%2) {to = 1 : i64} : (tensor<4xi32>) -> tensor<4xf32>
  return %1, %3 : tensor<4xi64>, tensor<4xf32>
}

// x + 0 differs from x at x = -0; x * 1, x + (-0), x / 1 do not. A division by 4 is a product with 0.25, by 3 it is not.
// CHECK-LABEL: func.func @neutral
// CHECK:         %[[A:.*]] = "onnx.Add"(%arg0
// CHECK:         %[[Q:.*]] = "onnx.Constant"() {value = dense<2.500000e-01> : tensor<f32>}
// CHECK:         %[[M:.*]] = "onnx.Mul"(%arg0, %[[Q]])
// CHECK:         %[[D:.*]] = "onnx.Div"(%arg0
// CHECK:         return %[[A]], %arg0, %[[M]], %[[D]]
func.func @neutral(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %zero = "onnx.Constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %minus = "onnx.Constant"() {value = dense<-0.0> : tensor<f32>} : () -> tensor<f32>
  %one = "onnx.Constant"() {value = dense<1.0> : tensor<1xf32>} : () -> tensor<1xf32>
  %three = "onnx.Constant"() {value = dense<3.0> : tensor<f32>} : () -> tensor<f32>
  %four = "onnx.Constant"() {value = dense<4.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "onnx.Add"(%x, %zero) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = "onnx.Mul"(%one, %x) : (tensor<1xf32>, tensor<4xf32>) -> tensor<4xf32>
  %2 = "onnx.Add"(%1, %minus) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %3 = "onnx.Div"(%2, %one) : (tensor<4xf32>, tensor<1xf32>) -> tensor<4xf32>
  %4 = "onnx.Div"(%x, %four) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %5 = "onnx.Div"(%x, %three) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %0, %3, %4, %5 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// Pow by 2 multiplies; by 0.5 it is a Sqrt only of what is never negative (Pow(-inf, 0.5) is inf, Sqrt(-inf) NaN).
// CHECK-LABEL: func.func @powers
// CHECK:         %[[M:.*]] = "onnx.Mul"(%arg0, %arg0)
// CHECK:         %[[S:.*]] = "onnx.Sqrt"(%[[M]])
// CHECK:         %[[P:.*]] = "onnx.Pow"(%arg0
// CHECK:         return %[[S]], %[[P]]
func.func @powers(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %two = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %half = "onnx.Constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %0 = "onnx.Pow"(%x, %two) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %1 = "onnx.Pow"(%0, %half) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  %2 = "onnx.Pow"(%x, %half) : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %1, %2 : tensor<4xf32>, tensor<4xf32>
}

// Dropout without training is nothing, and its mask true everywhere.
// CHECK-LABEL: func.func @dropout
// CHECK:         %[[T:.*]] = "onnx.Constant"() {value = dense<true> : tensor<i1>}
// CHECK:         %[[M:.*]] = "onnx.Expand"(%[[T]]
// CHECK:         return %arg0, %[[M]]
func.func @dropout(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi1>) {
  %0:2 = "onnx.Dropout"(%x) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xi1>)
  return %0#0, %0#1 : tensor<4xf32>, tensor<4xi1>
}

// Slices of Slices are one Slice; the parts of a Split and a Gather of one index are Slices too.
// CHECK-LABEL: func.func @selection
// CHECK:         "onnx.Slice"(%arg0, {{.*}}) {operand_values = {"1" = [3], "2" = [6], "3" = [1], "4" = [1]}}
// CHECK:         "onnx.Slice"(%arg0, {{.*}}) {operand_values = {"1" = [4], "2" = [8], "3" = [1], "4" = [1]}}
// CHECK:         "onnx.Slice"(%arg0, {{.*}}) {operand_values = {"1" = [7], "2" = [8], "3" = [1], "4" = [1]}}
// CHECK-NOT:     onnx.Slice
// CHECK:         onnx.Reshape
func.func @selection(%x: tensor<2x8xf32>) -> (tensor<2x3xf32>, tensor<2x4xf32>, tensor<2xf32>) {
  %n = "onnx.None"() : () -> none
  %0 = "onnx.Slice"(%x, %n, %n, %n) {operand_values = {"1" = [2], "2" = [-1], "3" = [-1]}}
    : (tensor<2x8xf32>, none, none, none) -> tensor<2x5xf32>
  %1 = "onnx.Slice"(%0, %n, %n, %n) {operand_values = {"1" = [1, 0], "2" = [4, 9], "3" = [1, 0]}}
    : (tensor<2x5xf32>, none, none, none) -> tensor<2x3xf32>
  %2:2 = "onnx.Split"(%x) {axis = 1 : i64, num_outputs = 2 : i64} : (tensor<2x8xf32>) -> (tensor<2x4xf32>, tensor<2x4xf32>)
  %i = "onnx.Constant"() {value = dense<-1> : tensor<i64>} : () -> tensor<i64>
  %3 = "onnx.Gather"(%x, %i) {axis = 1 : i64} : (tensor<2x8xf32>, tensor<i64>) -> tensor<2xf32>
  return %1, %2#1, %3 : tensor<2x3xf32>, tensor<2x4xf32>, tensor<2xf32>
}

// A Concat inside a Concat joins it; an Expand before an op that broadcasts anyway goes; a Sum is a chain of Adds.
// CHECK-LABEL: func.func @joining
// CHECK:         %[[C:.*]] = "onnx.Concat"(%arg0, %arg1, %arg0) {axis = 0 : i64}
// CHECK:         %[[A:.*]] = "onnx.Add"(%[[C]], %arg2)
// CHECK:         %[[B:.*]] = "onnx.Add"(%[[A]], %[[C]])
// CHECK:         return %[[B]]
func.func @joining(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>, %z: tensor<3xf32>) -> tensor<6x3xf32> {
  %n = "onnx.None"() : () -> none
  %0 = "onnx.Concat"(%x, %y) {axis = -2 : i64} : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<4x3xf32>
  %1 = "onnx.Concat"(%0, %x) {axis = 0 : i64} : (tensor<4x3xf32>, tensor<2x3xf32>) -> tensor<6x3xf32>
  %2 = "onnx.Expand"(%z, %n) {operand_values = {"1" = [6, 3]}} : (tensor<3xf32>, none) -> tensor<6x3xf32>
  %3 = "onnx.Sum"(%1, %2, %1) : (tensor<6x3xf32>, tensor<6x3xf32>, tensor<6x3xf32>) -> tensor<6x3xf32>
  return %3 : tensor<6x3xf32>
}

// A Pad of zeros becomes pads of the convolution or of the pool (which must then count them); depth to space is a Transpose.
// CHECK-LABEL: func.func @windows
// CHECK:         %[[C:.*]] = "onnx.Conv"(%arg0, %arg1) {auto_pad = "NOTSET", pads = array<i64: 1, 2, 2, 1>}
// CHECK:         %[[P:.*]] = "onnx.AveragePool"(%arg0) {auto_pad = "NOTSET", count_include_pad = 1 : i64, kernel_shape = array<i64: 2, 2>, pads = array<i64: 1, 1, 1, 1>}
// CHECK:         "onnx.Transpose"({{.*}}) {perm = array<i64: 0, 3, 4, 1, 5, 2>}
// CHECK:         "onnx.ReduceMean"(%arg0{{.*}}) {keepdims = 1 : i64, operand_values = {"1" = [2, 3]}}
func.func @windows(%x: tensor<1x4x4x4xf32>, %w: tensor<2x4x3x3xf32>)
    -> (tensor<1x2x5x5xf32>, tensor<1x4x5x5xf32>, tensor<1x1x8x8xf32>, tensor<1x4x1x1xf32>) {
  %n = "onnx.None"() : () -> none
  %0 = "onnx.Pad"(%x, %n) {operand_values = {"1" = [0, 0, 0, 1, 0, 0, 1, 0]}} : (tensor<1x4x4x4xf32>, none) -> tensor<1x4x5x5xf32>
  %1 = "onnx.Conv"(%0, %w) {pads = array<i64: 1, 1, 1, 1>} : (tensor<1x4x5x5xf32>, tensor<2x4x3x3xf32>) -> tensor<1x2x5x5xf32>
  %2 = "onnx.Pad"(%x, %n) {operand_values = {"1" = [0, 0, 1, 1, 0, 0, 1, 1]}} : (tensor<1x4x4x4xf32>, none) -> tensor<1x4x6x6xf32>
  %3 = "onnx.AveragePool"(%2) {kernel_shape = array<i64: 2, 2>} : (tensor<1x4x6x6xf32>) -> tensor<1x4x5x5xf32>
  %4 = "onnx.DepthToSpace"(%x) {blocksize = 2 : i64} : (tensor<1x4x4x4xf32>) -> tensor<1x1x8x8xf32>
  %5 = "onnx.GlobalAveragePool"(%x) : (tensor<1x4x4x4xf32>) -> tensor<1x4x1x1xf32>
  return %1, %3, %4, %5 : tensor<1x2x5x5xf32>, tensor<1x4x5x5xf32>, tensor<1x1x8x8xf32>, tensor<1x4x1x1xf32>
}

// Projections made together: the parts are cut out of the Reshape, before the Transpose, which can then read them in place.
// CHECK-LABEL: func.func @heads
// CHECK:         %[[R:.*]] = "onnx.Reshape"(%arg0, {{.*}}) {allowzero = 1 : i64, operand_values = {"1" = [2, 5, 6, 4]}}
// CHECK:         %[[Q:.*]] = "onnx.Slice"(%[[R]], {{.*}}) {operand_values = {"1" = [0], "2" = [3], "3" = [2], "4" = [1]}}
// CHECK:         "onnx.Transpose"(%[[Q]]) {perm = array<i64: 0, 2, 1, 3>}
// CHECK:         %[[S:.*]] = "onnx.Slice"(%arg1, {{.*}}) {operand_values = {"1" = [1], "2" = [2], "3" = [2], "4" = [1]}}
// CHECK:         "onnx.Transpose"(%[[S]]) {perm = array<i64: 2, 0, 3, 1, 4>}
func.func @heads(%x: tensor<2x5x24xf32>, %y: tensor<2x5x3x2x4xf32>) -> (tensor<2x3x5x4xf32>, tensor<2x5x12xf32>, tensor<2x2x5x4xf32>) {
  %n = "onnx.None"() : () -> none
  %i = "onnx.Constant"() {value = dense<1> : tensor<i64>} : () -> tensor<i64>
  %0:2 = "onnx.Split"(%x) {axis = 2 : i64, num_outputs = 2 : i64} : (tensor<2x5x24xf32>) -> (tensor<2x5x12xf32>, tensor<2x5x12xf32>)
  %1 = "onnx.Reshape"(%0#0, %n) {operand_values = {"1" = [2, 5, 3, 4]}} : (tensor<2x5x12xf32>, none) -> tensor<2x5x3x4xf32>
  %2 = "onnx.Transpose"(%1) {perm = array<i64: 0, 2, 1, 3>} : (tensor<2x5x3x4xf32>) -> tensor<2x3x5x4xf32>
  %3 = "onnx.Transpose"(%y) {perm = array<i64: 2, 0, 3, 1, 4>} : (tensor<2x5x3x2x4xf32>) -> tensor<3x2x2x5x4xf32>
  %4 = "onnx.Gather"(%3, %i) : (tensor<3x2x2x5x4xf32>, tensor<i64>) -> tensor<2x2x5x4xf32>
  return %2, %0#1, %4 : tensor<2x3x5x4xf32>, tensor<2x5x12xf32>, tensor<2x2x5x4xf32>
}
