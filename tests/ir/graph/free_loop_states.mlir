// RUN: onnxc-opt %s free_loop_states | filecheck %s

// What every trip yields as it was given is read from outside, and is the result as it is.
// CHECK-LABEL: func.func @main
// CHECK:         %[[W:.*]] = "onnx.Constant"() {value = dense<2.
// CHECK:         %[[LAST:.*]]:2 = "onnx.Loop"(%arg0, %{{.*}}, %arg1) ({
// CHECK-NEXT:    ^bb0(%{{.*}}: tensor<i64>, %[[AGAIN:.*]]: tensor<i1>, %[[STATE:.*]]: tensor<2x3xf32>):
// CHECK:           %[[NEXT:.*]] = "onnx.MatMul"(%[[STATE]], %[[W]])
// CHECK:           "onnx.Yield"(%[[AGAIN]], %[[NEXT]], %[[NEXT]])
// CHECK:         return %[[LAST]]#0, %[[W]], %[[LAST]]#1
func.func @main(%n: tensor<i64>, %start: tensor<2x3xf32>) -> (tensor<2x3xf32>, tensor<3x3xf32>, tensor<?x2x3xf32, ["n", 2, 3]>) {
  %go = "onnx.Constant"() {value = dense<true> : tensor<i1>} : () -> tensor<i1>
  %w = "onnx.Constant"() {value = dense<2.0> : tensor<3x3xf32>} : () -> tensor<3x3xf32>
  %0:3 = "onnx.Loop"(%n, %go, %w, %start) ({
  ^bb0(%i: tensor<i64>, %c: tensor<i1>, %v: tensor<3x3xf32>, %state: tensor<2x3xf32>):
    %same = "onnx.Identity"(%v) : (tensor<3x3xf32>) -> tensor<3x3xf32>
    %1 = "onnx.MatMul"(%state, %v) : (tensor<2x3xf32>, tensor<3x3xf32>) -> tensor<2x3xf32>
    "onnx.Yield"(%c, %same, %1, %1) : (tensor<i1>, tensor<3x3xf32>, tensor<2x3xf32>, tensor<2x3xf32>) -> ()
  }) : (tensor<i64>, tensor<i1>, tensor<3x3xf32>, tensor<2x3xf32>) -> (tensor<3x3xf32>, tensor<2x3xf32>, tensor<?x2x3xf32, ["n", 2, 3]>)
  return %0#1, %0#0, %0#2 : tensor<2x3xf32>, tensor<3x3xf32>, tensor<?x2x3xf32, ["n", 2, 3]>
}

// Two that change places are carried.
// CHECK-LABEL: func.func @swapped
// CHECK:         "onnx.Loop"(%arg0, %{{.*}}, %arg1, %arg2)
func.func @swapped(%n: tensor<i64>, %x: tensor<3xf32>, %y: tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %none = "onnx.None"() : () -> none
  %0:2 = "onnx.Loop"(%n, %none, %x, %y) ({
  ^bb0(%i: tensor<i64>, %c: tensor<i1>, %a: tensor<3xf32>, %b: tensor<3xf32>):
    "onnx.Yield"(%c, %b, %a) : (tensor<i1>, tensor<3xf32>, tensor<3xf32>) -> ()
  }) : (tensor<i64>, none, tensor<3xf32>, tensor<3xf32>) -> (tensor<3xf32>, tensor<3xf32>)
  return %0#0, %0#1 : tensor<3xf32>, tensor<3xf32>
}

// A loop that changes nothing is gone, and then the outer one hands its value through as well.
// CHECK-LABEL: func.func @nested
// CHECK-NOT:     onnx.Loop
// CHECK:         return %arg1
func.func @nested(%n: tensor<i64>, %x: tensor<3xf32>) -> tensor<3xf32> {
  %none = "onnx.None"() : () -> none
  %0 = "onnx.Loop"(%n, %none, %x) ({
  ^bb0(%i: tensor<i64>, %c: tensor<i1>, %a: tensor<3xf32>):
    %1 = "onnx.Loop"(%n, %none, %a) ({
    ^bb0(%j: tensor<i64>, %d: tensor<i1>, %b: tensor<3xf32>):
      "onnx.Yield"(%d, %b) : (tensor<i1>, tensor<3xf32>) -> ()
    }) : (tensor<i64>, none, tensor<3xf32>) -> tensor<3xf32>
    "onnx.Yield"(%c, %1) : (tensor<i1>, tensor<3xf32>) -> ()
  }) : (tensor<i64>, none, tensor<3xf32>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
