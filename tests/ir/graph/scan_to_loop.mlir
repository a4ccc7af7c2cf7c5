// RUN: onnxc-opt %s scan_to_loop | filecheck %s

// Every trip takes one slice of the sequence; the body is the same.
// CHECK-LABEL: func.func @main
// CHECK:         %[[SHAPE:.*]] = "onnx.Shape"(%arg1)
// CHECK:         %[[TRIPS:.*]] = "onnx.Gather"(%[[SHAPE]]
// CHECK:         %[[NONE:.*]] = "onnx.None"()
// CHECK:         "onnx.Loop"(%[[TRIPS]], %[[NONE]], %arg0) ({
// CHECK:         ^bb0(%[[TRIP:.*]]: tensor<i64>, %[[AGAIN:.*]]: tensor<i1>, %[[STATE:.*]]: tensor<3xf32>):
// CHECK-NEXT:      %[[SLICE:.*]] = "onnx.Gather"(%arg1, %[[TRIP]]) {axis = 0
// CHECK:           %[[NEXT:.*]] = "onnx.Add"(%[[STATE]], %[[SLICE]])
// CHECK:           "onnx.Yield"({{.*}}, %[[NEXT]], {{.*}})
func.func @main(%start: tensor<3xf32>, %xs: tensor<?x3xf32, ["S", 3]>) -> (tensor<3xf32>, tensor<?x3xf32, ["S", 3]>) {
  %0:2 = "onnx.Scan"(%start, %xs) ({
  ^bb0(%state: tensor<3xf32>, %x: tensor<3xf32>):
    %1 = "onnx.Add"(%state, %x) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    %2 = "onnx.Mul"(%1, %1) : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    "onnx.Yield"(%1, %2) : (tensor<3xf32>, tensor<3xf32>) -> ()
  }) {num_scan_inputs = 1 : i64} : (tensor<3xf32>, tensor<?x3xf32, ["S", 3]>) -> (tensor<3xf32>, tensor<?x3xf32, ["S", 3]>)
  return %0#0, %0#1 : tensor<3xf32>, tensor<?x3xf32, ["S", 3]>
}
