// RUN: onnxc-opt %s group_operators | filecheck %s

// A chain of element-wise ops with a broadcast operand is one map; an absent operand and a constant of one element are
// made inside, the tensor constant is an operand.
// CHECK-LABEL: func.func @chain
// CHECK:         %[[W:.*]] = "onnx.Constant"() {value = dense<{{.*}}> : tensor<4xf32>}
// CHECK:         "kernel.fused"(%arg0, %[[W]]) ({
// CHECK-NEXT:      ^bb0(%[[A:.*]]: tensor<?x4xf32, ["N", 4]>, %[[B:.*]]: tensor<4xf32>):
// CHECK-NEXT:        %[[S:.*]] = "onnx.Add"(%[[A]], %[[B]])
// CHECK-NEXT:        %[[N:.*]] = "onnx.None"()
// CHECK-NEXT:        %[[ONE:.*]] = "onnx.Constant"()
// CHECK-NEXT:        %[[C:.*]] = "onnx.Clip"(%[[S]], %[[N]], %[[ONE]])
// CHECK-NEXT:        "kernel.yield"(%[[C]])
// CHECK:           {kind = "map", root = "onnx.Clip"}
func.func @chain(%x: tensor<?x4xf32, ["N", 4]>) -> tensor<?x4xf32, ["N", 4]> {
  %w = "onnx.Constant"() {value = dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>} : () -> tensor<4xf32>
  %none = "onnx.None"() : () -> none
  %one = "onnx.Constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "onnx.Add"(%x, %w) : (tensor<?x4xf32, ["N", 4]>, tensor<4xf32>) -> tensor<?x4xf32, ["N", 4]>
  %1 = "onnx.Clip"(%0, %none, %one) : (tensor<?x4xf32, ["N", 4]>, none, tensor<f32>) -> tensor<?x4xf32, ["N", 4]>
  return %1 : tensor<?x4xf32, ["N", 4]>
}

// Element-wise consumers of the whole result are the epilogue of a root, the residual's producer among them; what is
// in front of a matmul is not fused: it reads each element many times.
// CHECK-LABEL: func.func @epilogue
// CHECK:         %[[P:.*]] = "kernel.fused"(%arg0)
// CHECK:           "onnx.Exp"
// CHECK:           {kind = "map", root = "onnx.Exp"}
// CHECK:         "kernel.fused"(%arg2, %[[P]], %arg1)
// CHECK:           "onnx.Neg"
// CHECK:           "onnx.MatMul"
// CHECK:           "onnx.Add"
// CHECK:           "onnx.Relu"
// CHECK:           {kind = "matmul", root = "onnx.MatMul"}
func.func @epilogue(%x: tensor<2x4xf32>, %w: tensor<4x8xf32>, %r: tensor<2x8xf32>) -> tensor<2x8xf32> {
  %0 = "onnx.Exp"(%x) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %1 = "onnx.Neg"(%r) : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %2 = "onnx.MatMul"(%0, %w) : (tensor<2x4xf32>, tensor<4x8xf32>) -> tensor<2x8xf32>
  %3 = "onnx.Add"(%2, %1) : (tensor<2x8xf32>, tensor<2x8xf32>) -> tensor<2x8xf32>
  %4 = "onnx.Relu"(%3) : (tensor<2x8xf32>) -> tensor<2x8xf32>
  return %4 : tensor<2x8xf32>
}

// A reduction reads each element once, so the chain in front is computed on the way; a move would break its loads.
// CHECK-LABEL: func.func @prologue
// CHECK:         %[[T:.*]] = "kernel.fused"(%arg0)
// CHECK:           "onnx.Transpose"
// CHECK:           {kind = "map", root = "onnx.Transpose"}
// CHECK:         "kernel.fused"(%[[T]], {{.*}})
// CHECK:           "onnx.Exp"
// CHECK:           "onnx.ReduceSum"
// CHECK:           {kind = "reduce", root = "onnx.ReduceSum"}
func.func @prologue(%x: tensor<8x2xf32>) -> tensor<2x1xf32> {
  %axes = "onnx.Constant"() {value = dense<[1]> : tensor<1xi64>} : () -> tensor<1xi64>
  %0 = "onnx.Transpose"(%x) {perm = array<i64: 1, 0>} : (tensor<8x2xf32>) -> tensor<2x8xf32>
  %1 = "onnx.Exp"(%0) : (tensor<2x8xf32>) -> tensor<2x8xf32>
  %2 = "onnx.ReduceSum"(%1, %axes) : (tensor<2x8xf32>, tensor<1xi64>) -> tensor<2x1xf32>
  return %2 : tensor<2x1xf32>
}

// Nothing is computed twice. A value with a user outside the group (here: a branch) is a kernel of its own …
// CHECK-LABEL: func.func @used_outside
// CHECK-COUNT-3: "kernel.fused"
func.func @used_outside(%x: tensor<4xf32>, %c: tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = "onnx.Exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "onnx.Neg"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = "onnx.If"(%c) ({
    %3 = "onnx.Abs"(%0) : (tensor<4xf32>) -> tensor<4xf32>
    "onnx.Yield"(%3) : (tensor<4xf32>) -> ()
  }, {
    "onnx.Yield"(%x) : (tensor<4xf32>) -> ()
  }) : (tensor<i1>) -> tensor<4xf32>
  return %1, %2 : tensor<4xf32>, tensor<4xf32>
}

// … unless all its users are in the group: both operands of Mul lead to Exp.
// CHECK-LABEL: func.func @diamond
// CHECK:         "kernel.fused"(%arg0) ({
// CHECK:           "onnx.Exp"
// CHECK:           "onnx.Neg"
// CHECK:           "onnx.Mul"
// CHECK-NOT:     "kernel.fused"
// CHECK:         return
func.func @diamond(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "onnx.Exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "onnx.Neg"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = "onnx.Mul"(%1, %0) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}

// What both a root and its epilogue read stays outside: the kernel would compute it on either side.
// CHECK-LABEL: func.func @both_sides
// CHECK:         %[[E:.*]] = "kernel.fused"(%arg0) ({
// CHECK:           "onnx.Exp"
// CHECK:         "kernel.fused"(%[[E]], %arg1) ({
// CHECK:           "onnx.MatMul"
// CHECK:           "onnx.Add"
func.func @both_sides(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = "onnx.Exp"(%x) : (tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = "onnx.MatMul"(%0, %w) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = "onnx.Add"(%1, %0) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}

// One root a group: two matmuls stay apart, the second gets the sum.
// CHECK-LABEL: func.func @two_roots
// CHECK-COUNT-2: {kind = "matmul", root = "onnx.MatMul"}
// CHECK:         return
func.func @two_roots(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = "onnx.MatMul"(%x, %w) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %1 = "onnx.MatMul"(%w, %x) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  %2 = "onnx.Add"(%0, %1) : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}

// A broadcast operand of few elements would be computed again for each element of the result: not if it is expensive.
// CHECK-LABEL: func.func @broadcast
// CHECK:         %[[E:.*]] = "kernel.fused"(%arg1)
// CHECK:           "onnx.Exp"
// CHECK:         "kernel.fused"(%arg0, %[[E]])
// CHECK:           "onnx.Mul"
// CHECK:         "kernel.fused"(%arg2, %arg0)
// CHECK:           "onnx.Neg"
// CHECK:           "onnx.Mul"
func.func @broadcast(%x: tensor<8x4xf32>, %row: tensor<4xf32>, %one: tensor<1xf32>) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %0 = "onnx.Exp"(%row) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "onnx.Mul"(%x, %0) : (tensor<8x4xf32>, tensor<4xf32>) -> tensor<8x4xf32>
  %2 = "onnx.Neg"(%one) : (tensor<1xf32>) -> tensor<1xf32>
  %3 = "onnx.Mul"(%x, %2) : (tensor<8x4xf32>, tensor<1xf32>) -> tensor<8x4xf32>
  return %1, %3 : tensor<8x4xf32>, tensor<8x4xf32>
}

// Softmax keeps its sums in the result's memory, so a Cast behind it is a kernel of its own.
// CHECK-LABEL: func.func @element_type
// CHECK:           {kind = "softmax", root = "onnx.Softmax"}
// CHECK:           {kind = "map", root = "onnx.Cast"}
func.func @element_type(%x: tensor<8x4xf32>) -> tensor<8x4xf64> {
  %0 = "onnx.Softmax"(%x) {axis = -1 : i64} : (tensor<8x4xf32>) -> tensor<8x4xf32>
  %1 = "onnx.Cast"(%0) {to = 11 : i64} : (tensor<8x4xf32>) -> tensor<8x4xf64>
  return %1 : tensor<8x4xf64>
}

// Reshapes move nothing.
// CHECK-LABEL: func.func @views
// CHECK:         %[[V:.*]] = "kernel.view"(%arg0) : (tensor<2x6xf32>) -> tensor<12xf32>
// CHECK:         "kernel.fused"(%[[V]])
func.func @views(%x: tensor<2x6xf32>) -> tensor<12xf32> {
  %n = "onnx.None"() : () -> none
  %0 = "onnx.Reshape"(%x, %n) {operand_values = {"1" = [12]}} : (tensor<2x6xf32>, none) -> tensor<12xf32>
  %1 = "onnx.Relu"(%0) : (tensor<12xf32>) -> tensor<12xf32>
  return %1 : tensor<12xf32>
}

// What is behind a root is its epilogue in front of a Transpose too, which is then alone; other ops go with it.
// CHECK-LABEL: func.func @in_front_of_a_transpose
// CHECK:         %[[Y:.*]] = "kernel.fused"(%arg0, %arg1) ({
// CHECK:           "onnx.MatMul"
// CHECK:           "onnx.Relu"
// CHECK:           {kind = "matmul", root = "onnx.MatMul"}
// CHECK:         "kernel.fused"(%[[Y]]) ({
// CHECK-NOT:       "onnx.Relu"
// CHECK:           "onnx.Transpose"
// CHECK:         "kernel.fused"(%arg0) ({
// CHECK:           "onnx.Neg"
// CHECK:           "onnx.Transpose"
func.func @in_front_of_a_transpose(%x: tensor<4x5xf32>, %w: tensor<5x6xf32>) -> (tensor<6x4xf32>, tensor<5x4xf32>) {
  %0 = "onnx.MatMul"(%x, %w) : (tensor<4x5xf32>, tensor<5x6xf32>) -> tensor<4x6xf32>
  %1 = "onnx.Relu"(%0) : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %2 = "onnx.Transpose"(%1) {perm = array<i64: 1, 0>} : (tensor<4x6xf32>) -> tensor<6x4xf32>
  %3 = "onnx.Neg"(%x) : (tensor<4x5xf32>) -> tensor<4x5xf32>
  %4 = "onnx.Transpose"(%3) {perm = array<i64: 1, 0>} : (tensor<4x5xf32>) -> tensor<5x4xf32>
  return %2, %4 : tensor<6x4xf32>, tensor<5x4xf32>
}
