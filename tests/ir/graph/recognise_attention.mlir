// RUN: onnxc-opt %s recognise_attention simplify remove_dead | filecheck %s

// Heads split off, K transposed in the same step, scores divided and masked: Attention on what the projections made.
// CHECK-LABEL: func.func @encoder
// CHECK-NEXT:    %[[Y:.*]] = "onnx.Attention"(%arg0, %arg1, %arg2, %arg3) {kv_num_heads = 2 : i64, q_num_heads = 2 : i64, scale = 5.000000e-01 : f32}
// CHECK-NEXT:    return %[[Y]]
func.func @encoder(%q: tensor<?x?x8xf32, ["b", "s", 8]>, %k: tensor<?x?x8xf32, ["b", "s", 8]>, %v: tensor<?x?x8xf32, ["b", "s", 8]>,
    %mask: tensor<?x1x1x?xf32, ["b", 1, 1, "s"]>) -> tensor<?x?x8xf32, ["b", "s", 8]> {
  %n = "onnx.None"() : () -> none
  %two = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "onnx.Reshape"(%q, %n) {operand_values = {"1" = ["b", "s", 2, 4]}} : (tensor<?x?x8xf32, ["b", "s", 8]>, none) -> tensor<?x?x2x4xf32, ["b", "s", 2, 4]>
  %1 = "onnx.Reshape"(%k, %n) {operand_values = {"1" = ["b", "s", 2, 4]}} : (tensor<?x?x8xf32, ["b", "s", 8]>, none) -> tensor<?x?x2x4xf32, ["b", "s", 2, 4]>
  %2 = "onnx.Reshape"(%v, %n) {operand_values = {"1" = ["b", "s", 2, 4]}} : (tensor<?x?x8xf32, ["b", "s", 8]>, none) -> tensor<?x?x2x4xf32, ["b", "s", 2, 4]>
  %3 = "onnx.Transpose"(%0) {perm = array<i64: 0, 2, 1, 3>} : (tensor<?x?x2x4xf32, ["b", "s", 2, 4]>) -> tensor<?x2x?x4xf32, ["b", 2, "s", 4]>
  %4 = "onnx.Transpose"(%1) {perm = array<i64: 0, 2, 3, 1>} : (tensor<?x?x2x4xf32, ["b", "s", 2, 4]>) -> tensor<?x2x4x?xf32, ["b", 2, 4, "s"]>
  %5 = "onnx.Transpose"(%2) {perm = array<i64: 0, 2, 1, 3>} : (tensor<?x?x2x4xf32, ["b", "s", 2, 4]>) -> tensor<?x2x?x4xf32, ["b", 2, "s", 4]>
  %6 = "onnx.MatMul"(%3, %4) : (tensor<?x2x?x4xf32, ["b", 2, "s", 4]>, tensor<?x2x4x?xf32, ["b", 2, 4, "s"]>) -> tensor<?x2x?x?xf32, ["b", 2, "s", "s"]>
  %7 = "onnx.Div"(%6, %two) : (tensor<?x2x?x?xf32, ["b", 2, "s", "s"]>, tensor<f32>) -> tensor<?x2x?x?xf32, ["b", 2, "s", "s"]>
  %8 = "onnx.Add"(%7, %mask) : (tensor<?x2x?x?xf32, ["b", 2, "s", "s"]>, tensor<?x1x1x?xf32, ["b", 1, 1, "s"]>) -> tensor<?x2x?x?xf32, ["b", 2, "s", "s"]>
  %9 = "onnx.Softmax"(%8) {axis = -1 : i64} : (tensor<?x2x?x?xf32, ["b", 2, "s", "s"]>) -> tensor<?x2x?x?xf32, ["b", 2, "s", "s"]>
  %10 = "onnx.MatMul"(%9, %5) : (tensor<?x2x?x?xf32, ["b", 2, "s", "s"]>, tensor<?x2x?x4xf32, ["b", 2, "s", 4]>) -> tensor<?x2x?x4xf32, ["b", 2, "s", 4]>
  %11 = "onnx.Transpose"(%10) {perm = array<i64: 0, 2, 1, 3>} : (tensor<?x2x?x4xf32, ["b", 2, "s", 4]>) -> tensor<?x?x2x4xf32, ["b", "s", 2, 4]>
  %12 = "onnx.Reshape"(%11, %n) {operand_values = {"1" = ["b", "s", 8]}} : (tensor<?x?x2x4xf32, ["b", "s", 2, 4]>, none) -> tensor<?x?x8xf32, ["b", "s", 8]>
  return %12 : tensor<?x?x8xf32, ["b", "s", 8]>
}

// Keys from a cache: rank 4 stays; a mask that chooses is one that adds. Q's own factor is part of the scale.
// CHECK-LABEL: func.func @cached
// CHECK:         %[[M:.*]] = "onnx.Where"(%arg3, %{{.*}}, %{{.*}}) : (tensor<3x5xi1>, tensor<f32>, tensor<f32>) -> tensor<3x5xf32>
// CHECK:         "onnx.Attention"(%arg0, %arg1, %arg2, %[[M]]) {scale = 1.000000e+00 : f32}
// CHECK-NOT:     onnx.Softmax
func.func @cached(%q: tensor<1x2x3x4xf32>, %k: tensor<1x2x5x4xf32>, %v: tensor<1x2x5x4xf32>, %allowed: tensor<3x5xi1>) -> tensor<1x2x3x4xf32> {
  %half = "onnx.Constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %two = "onnx.Constant"() {value = dense<2.0> : tensor<f32>} : () -> tensor<f32>
  %lowest = "onnx.Constant"() {value = dense<-3.40282347E+38> : tensor<f32>} : () -> tensor<f32>
  %0 = "onnx.Mul"(%q, %half) : (tensor<1x2x3x4xf32>, tensor<f32>) -> tensor<1x2x3x4xf32>
  %1 = "onnx.Transpose"(%k) {perm = array<i64: 0, 1, 3, 2>} : (tensor<1x2x5x4xf32>) -> tensor<1x2x4x5xf32>
  %2 = "onnx.MatMul"(%0, %1) : (tensor<1x2x3x4xf32>, tensor<1x2x4x5xf32>) -> tensor<1x2x3x5xf32>
  %3 = "onnx.Mul"(%2, %two) : (tensor<1x2x3x5xf32>, tensor<f32>) -> tensor<1x2x3x5xf32>
  %4 = "onnx.Where"(%allowed, %3, %lowest) : (tensor<3x5xi1>, tensor<1x2x3x5xf32>, tensor<f32>) -> tensor<1x2x3x5xf32>
  %5 = "onnx.Softmax"(%4) {axis = 3 : i64} : (tensor<1x2x3x5xf32>) -> tensor<1x2x3x5xf32>
  %6 = "onnx.MatMul"(%5, %v) : (tensor<1x2x3x5xf32>, tensor<1x2x5x4xf32>) -> tensor<1x2x3x4xf32>
  return %6 : tensor<1x2x3x4xf32>
}

// Weights that are read elsewhere keep the parts apart.
// CHECK-LABEL: func.func @weights_read
// CHECK:         onnx.Softmax
// CHECK-NOT:     onnx.Attention
func.func @weights_read(%q: tensor<1x2x3x4xf32>, %k: tensor<1x2x4x5xf32>, %v: tensor<1x2x5x4xf32>) -> (tensor<1x2x3x4xf32>, tensor<1x2x3x5xf32>) {
  %0 = "onnx.MatMul"(%q, %k) : (tensor<1x2x3x4xf32>, tensor<1x2x4x5xf32>) -> tensor<1x2x3x5xf32>
  %1 = "onnx.Softmax"(%0) {axis = 3 : i64} : (tensor<1x2x3x5xf32>) -> tensor<1x2x3x5xf32>
  %2 = "onnx.MatMul"(%1, %v) : (tensor<1x2x3x5xf32>, tensor<1x2x5x4xf32>) -> tensor<1x2x3x4xf32>
  return %2, %1 : tensor<1x2x3x4xf32>, tensor<1x2x3x5xf32>
}

// One query: turning its heads moves nothing and is a Reshape, before and behind. Rank 3 as well, whatever reads it.
// CHECK-LABEL: func.func @one_query
// CHECK:         %[[Q:.*]] = "onnx.Reshape"(%arg0, %{{.*}}) {{.*}} -> tensor<1x1x8xf32>
// CHECK-NEXT:    %[[Y:.*]] = "onnx.Attention"(%[[Q]], %arg1, %arg2) {kv_num_heads = 2 : i64, q_num_heads = 2 : i64, scale = 5.000000e-01 : f32}
func.func @one_query(%q: tensor<1x8xf32>, %k: tensor<1x5x8xf32>, %v: tensor<1x5x8xf32>) -> tensor<1x8xf32> {
  %n = "onnx.None"() : () -> none
  %half = "onnx.Constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %0 = "onnx.Reshape"(%q, %n) {operand_values = {"1" = [1, 2, 1, 4]}} : (tensor<1x8xf32>, none) -> tensor<1x2x1x4xf32>
  %1 = "onnx.Reshape"(%k, %n) {operand_values = {"1" = [1, 5, 2, 4]}} : (tensor<1x5x8xf32>, none) -> tensor<1x5x2x4xf32>
  %2 = "onnx.Reshape"(%v, %n) {operand_values = {"1" = [1, 5, 2, 4]}} : (tensor<1x5x8xf32>, none) -> tensor<1x5x2x4xf32>
  %3 = "onnx.Transpose"(%1) {perm = array<i64: 0, 2, 3, 1>} : (tensor<1x5x2x4xf32>) -> tensor<1x2x4x5xf32>
  %4 = "onnx.Transpose"(%2) {perm = array<i64: 0, 2, 1, 3>} : (tensor<1x5x2x4xf32>) -> tensor<1x2x5x4xf32>
  %5 = "onnx.MatMul"(%0, %3) : (tensor<1x2x1x4xf32>, tensor<1x2x4x5xf32>) -> tensor<1x2x1x5xf32>
  %6 = "onnx.Mul"(%5, %half) : (tensor<1x2x1x5xf32>, tensor<f32>) -> tensor<1x2x1x5xf32>
  %7 = "onnx.Softmax"(%6) {axis = -1 : i64} : (tensor<1x2x1x5xf32>) -> tensor<1x2x1x5xf32>
  %8 = "onnx.MatMul"(%7, %4) : (tensor<1x2x1x5xf32>, tensor<1x2x5x4xf32>) -> tensor<1x2x1x4xf32>
  %9 = "onnx.Reshape"(%8, %n) {operand_values = {"1" = [1, 8]}} : (tensor<1x2x1x4xf32>, none) -> tensor<1x8xf32>
  return %9 : tensor<1x8xf32>
}

// The operator's own definition scales Q and K by the root each.
// CHECK-LABEL: func.func @scaled_keys
// CHECK-NEXT:    %[[Y:.*]] = "onnx.Attention"(%arg0, %arg1, %arg2) {scale = 5.000000e-01 : f32}
func.func @scaled_keys(%q: tensor<1x2x3x4xf32>, %k: tensor<1x2x5x4xf32>, %v: tensor<1x2x5x4xf32>) -> tensor<1x2x3x4xf32> {
  %half = "onnx.Constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %0 = "onnx.Transpose"(%k) {perm = array<i64: 0, 1, 3, 2>} : (tensor<1x2x5x4xf32>) -> tensor<1x2x4x5xf32>
  %1 = "onnx.Mul"(%0, %half) : (tensor<1x2x4x5xf32>, tensor<f32>) -> tensor<1x2x4x5xf32>
  %2 = "onnx.MatMul"(%q, %1) : (tensor<1x2x3x4xf32>, tensor<1x2x4x5xf32>) -> tensor<1x2x3x5xf32>
  %3 = "onnx.Softmax"(%2) {axis = -1 : i64} : (tensor<1x2x3x5xf32>) -> tensor<1x2x3x5xf32>
  %4 = "onnx.MatMul"(%3, %v) : (tensor<1x2x3x5xf32>, tensor<1x2x5x4xf32>) -> tensor<1x2x3x4xf32>
  return %4 : tensor<1x2x3x4xf32>
}

// As the operator's definition has it without a mask: zeros are added, and rows that these forbid altogether would be 0.
// CHECK-LABEL: func.func @defined
// CHECK-NEXT:    %[[Y:.*]] = "onnx.Attention"(%arg0, %arg1, %arg2) {scale = 1.000000e+00 : f32}
// CHECK-NEXT:    return %[[Y]]
func.func @defined(%q: tensor<1x2x?x4xf32, [1, 2, "s", 4]>, %kt: tensor<1x2x?x4xf32, [1, 2, "t", 4]>, %v: tensor<1x2x?x4xf32, [1, 2, "t", 4]>) -> tensor<1x2x?x4xf32, [1, 2, "s", 4]> {
  %n = "onnx.None"() : () -> none
  %zero = "onnx.Constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %lowest = "onnx.Constant"() {value = dense<0xFF800000> : tensor<f32>} : () -> tensor<f32>
  %k = "onnx.Transpose"(%kt) {perm = array<i64: 0, 1, 3, 2>} : (tensor<1x2x?x4xf32, [1, 2, "t", 4]>) -> tensor<1x2x4x?xf32, [1, 2, 4, "t"]>
  %mask = "onnx.ConstantOfShape"(%n) {operand_values = {"0" = ["s", "t"]}} : (none) -> tensor<?x?xf32, ["s", "t"]>
  %0 = "onnx.MatMul"(%q, %k) : (tensor<1x2x?x4xf32, [1, 2, "s", 4]>, tensor<1x2x4x?xf32, [1, 2, 4, "t"]>) -> tensor<1x2x?x?xf32, [1, 2, "s", "t"]>
  %1 = "onnx.Add"(%0, %mask) : (tensor<1x2x?x?xf32, [1, 2, "s", "t"]>, tensor<?x?xf32, ["s", "t"]>) -> tensor<1x2x?x?xf32, [1, 2, "s", "t"]>
  %2 = "onnx.Softmax"(%1) {axis = -1 : i64} : (tensor<1x2x?x?xf32, [1, 2, "s", "t"]>) -> tensor<1x2x?x?xf32, [1, 2, "s", "t"]>
  %3 = "onnx.ReduceMax"(%mask, %n) {operand_values = {"1" = [-1]}} : (tensor<?x?xf32, ["s", "t"]>, none) -> tensor<?x1xf32, ["s", 1]>
  %4 = "onnx.Equal"(%3, %lowest) : (tensor<?x1xf32, ["s", 1]>, tensor<f32>) -> tensor<?x1xi1, ["s", 1]>
  %5 = "onnx.Where"(%4, %zero, %2) : (tensor<?x1xi1, ["s", 1]>, tensor<f32>, tensor<1x2x?x?xf32, [1, 2, "s", "t"]>) -> tensor<1x2x?x?xf32, [1, 2, "s", "t"]>
  %6 = "onnx.MatMul"(%5, %v) : (tensor<1x2x?x?xf32, [1, 2, "s", "t"]>, tensor<1x2x?x4xf32, [1, 2, "t", 4]>) -> tensor<1x2x?x4xf32, [1, 2, "s", 4]>
  return %6 : tensor<1x2x?x4xf32, [1, 2, "s", 4]>
}
