// RUN: onnxc-opt %s remove_dead | filecheck %s

// What the result does not need is gone, chains and regions included; an unused absent operand too.
// CHECK-LABEL: func.func @main
// CHECK-NEXT:    "onnx.Relu"(%arg0)
// CHECK-NEXT:    return
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %n = "onnx.None"() : () -> none
  %0 = "onnx.Relu"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "onnx.Exp"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = "onnx.Exp"(%1) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// A bind_dims stays as long as a live type needs its symbol (s0), and goes when none does (s1).
// CHECK-LABEL: func.func @symbols
// CHECK:         "kernel.bind_dims"(%arg1) {symbols = ["s0"]}
// CHECK-NOT:     s1
func.func @symbols(%x: tensor<1xf32>, %n: tensor<1xi64>, %m: tensor<1xi64>) -> tensor<?xf32, ["s0"]> {
  "kernel.bind_dims"(%n) {symbols = ["s0"]} : (tensor<1xi64>) -> ()
  "kernel.bind_dims"(%m) {symbols = ["s1"]} : (tensor<1xi64>) -> ()
  %0 = "onnx.None"() : () -> none
  %1 = "onnx.Expand"(%x, %0) {operand_values = {"1" = ["s0"]}} : (tensor<1xf32>, none) -> tensor<?xf32, ["s0"]>
  return %1 : tensor<?xf32, ["s0"]>
}

// Inside a live If only the live ops of its branches stay, with what they capture.
// CHECK-LABEL: func.func @region
// CHECK:         %[[A:.*]] = "onnx.Abs"
// CHECK-NEXT:    "onnx.If"
// CHECK-NEXT:      %[[E:.*]] = "onnx.Exp"(%[[A]])
// CHECK-NEXT:      "onnx.Yield"(%[[E]])
func.func @region(%x: tensor<4xf32>, %c: tensor<i1>) -> tensor<4xf32> {
  %a = "onnx.Abs"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %0 = "onnx.If"(%c) ({
    %1 = "onnx.Exp"(%a) : (tensor<4xf32>) -> tensor<4xf32>
    %2 = "onnx.Exp"(%1) : (tensor<4xf32>) -> tensor<4xf32>
    "onnx.Yield"(%1) : (tensor<4xf32>) -> ()
  }, {
    "onnx.Yield"(%x) : (tensor<4xf32>) -> ()
  }) : (tensor<i1>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
