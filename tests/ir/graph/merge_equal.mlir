// RUN: onnxc-opt %s merge_equal | filecheck %s

// The same op on the same operands runs once, and what follows from that is merged too; attributes must agree.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    %[[R:.*]] = "onnx.Relu"(%arg0)
// CHECK-NEXT:    %[[S:.*]] = "onnx.Softmax"(%[[R]]) {axis = 0
// CHECK-NEXT:    %[[T:.*]] = "onnx.Softmax"(%[[R]]) {axis = 1
// CHECK-NEXT:    "onnx.Sum"(%[[S]], %[[S]], %[[T]])
func.func @main(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %0 = "onnx.Relu"(%x) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %1 = "onnx.Relu"(%x) : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %2 = "onnx.Softmax"(%0) {axis = 0 : i64} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %3 = "onnx.Softmax"(%1) {axis = 0 : i64} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %4 = "onnx.Softmax"(%1) {axis = 1 : i64} : (tensor<2x4xf32>) -> tensor<2x4xf32>
  %5 = "onnx.Sum"(%2, %3, %4) : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
  return %5 : tensor<2x4xf32>
}

// A branch may use what dominates it, never what the other branch computed; random draws stay apart.
// CHECK-LABEL: func.func @apart
// CHECK:         %[[A:.*]] = "onnx.Abs"(%arg0)
// CHECK:         "onnx.Exp"(%[[A]])
// CHECK:         "onnx.Exp"(%[[A]])
// CHECK-COUNT-2: "onnx.RandomNormalLike"
func.func @apart(%x: tensor<4xf32>, %c: tensor<i1>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %a = "onnx.Abs"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %0 = "onnx.If"(%c) ({
    %1 = "onnx.Abs"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    %2 = "onnx.Exp"(%1) : (tensor<4xf32>) -> tensor<4xf32>
    "onnx.Yield"(%2) : (tensor<4xf32>) -> ()
  }, {
    %1 = "onnx.Exp"(%a) : (tensor<4xf32>) -> tensor<4xf32>
    "onnx.Yield"(%1) : (tensor<4xf32>) -> ()
  }) : (tensor<i1>) -> tensor<4xf32>
  %3 = "onnx.RandomNormalLike"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %4 = "onnx.RandomNormalLike"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %3, %4 : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// Two tensors of the same dims have the same shape: it is read off the first.
// CHECK-LABEL: func.func @shapes
// CHECK-NEXT:    %[[S:.*]] = "onnx.Shape"(%arg0)
// CHECK-NEXT:    %[[T:.*]] = "onnx.Shape"(%arg2)
// CHECK-NEXT:    return %[[S]], %[[S]], %[[T]]
func.func @shapes(%x: tensor<?x4xf32, ["n", 4]>, %y: tensor<?x4xf32, ["n", 4]>, %z: tensor<?x4xf32, ["m", 4]>)
    -> (tensor<2xi64>, tensor<2xi64>, tensor<2xi64>) {
  %0 = "onnx.Shape"(%x) : (tensor<?x4xf32, ["n", 4]>) -> tensor<2xi64>
  %1 = "onnx.Shape"(%y) : (tensor<?x4xf32, ["n", 4]>) -> tensor<2xi64>
  %2 = "onnx.Shape"(%z) : (tensor<?x4xf32, ["m", 4]>) -> tensor<2xi64>
  return %0, %1, %2 : tensor<2xi64>, tensor<2xi64>, tensor<2xi64>
}
