// RUN: onnxc-opt %s infer_shapes | filecheck %s

// A shape that the model computes from a shape is an expression: it is recorded on the Reshape, whose operand goes.
// CHECK-LABEL: func.func @computed_shape
// CHECK-SAME:    -> tensor<?x24xf32, ["N", 24]>
// CHECK:         %[[NONE:.*]] = "onnx.None"()
// CHECK:         "onnx.Reshape"(%arg0, %[[NONE]]) {operand_values = {"1" = ["N", -1]}}
// CHECK-SAME:    -> tensor<?x24xf32, ["N", 24]>
func.func @computed_shape(%x: tensor<?x4x6xf32, ["N", 4, 6]>) -> tensor<*xf32> {
  %s = "onnx.Shape"(%x) : (tensor<?x4x6xf32, ["N", 4, 6]>) -> tensor<*x!onnx.any>
  %zero = "onnx.Constant"() {value = dense<0> : tensor<1xi64>} : () -> tensor<1xi64>
  %rest = "onnx.Constant"() {value = dense<-1> : tensor<1xi64>} : () -> tensor<1xi64>
  %n = "onnx.Gather"(%s, %zero) : (tensor<*x!onnx.any>, tensor<1xi64>) -> tensor<*x!onnx.any>
  %t = "onnx.Concat"(%n, %rest) {axis = 0} : (tensor<*x!onnx.any>, tensor<1xi64>) -> tensor<*x!onnx.any>
  %y = "onnx.Reshape"(%x, %t) : (tensor<?x4x6xf32, ["N", 4, 6]>, tensor<*x!onnx.any>) -> tensor<*xf32>
  return %y : tensor<*xf32>
}

// Sizes that come from data get names right behind the tensor that holds them.
// CHECK-LABEL: func.func @run_time_size
// CHECK-NEXT:    "kernel.bind_dims"(%arg1) {symbols = ["[[K:.*]]"]}
// CHECK-NEXT:    "kernel.require"() {dims = ["[[K]]", 0], kind = "size"
// CHECK-NEXT:    "kernel.require"() {dims = [7, "[[K]]"], kind = ">="
// CHECK:         "onnx.TopK"({{.*}}) {operand_values = {"1" = ["[[K]]"]}}
// CHECK-SAME:    -> (tensor<?xf32, ["[[K]]"]>, tensor<?xi64, ["[[K]]"]>)
func.func @run_time_size(%x: tensor<7xf32>, %k: tensor<1xi64>) -> tensor<*xf32> {
  %y:2 = "onnx.TopK"(%x, %k) : (tensor<7xf32>, tensor<1xi64>) -> (tensor<*xf32>, tensor<*xi64>)
  return %y#0 : tensor<*xf32>
}

// A count that depends on data is computed first; its symbol is then the size of the result.
// CHECK-LABEL: func.func @counted
// CHECK-NEXT:    %[[COUNT:.*]] = "kernel.nonzero_count"(%arg0)
// CHECK-NEXT:    "kernel.bind_dims"(%[[COUNT]]) {symbols = ["[[U:.*]]"]}
// CHECK-NEXT:    "onnx.NonZero"(%arg0) {{.*}} -> tensor<2x?xi64, [2, "[[U]]"]>
func.func @counted(%x: tensor<3x4xf32>) -> tensor<*xi64> {
  %y = "onnx.NonZero"(%x) : (tensor<3x4xf32>) -> tensor<*xi64>
  return %y : tensor<*xi64>
}

// A size that differs between the branches is a symbol that the If binds.
// CHECK-LABEL: func.func @joined
// CHECK:         }) {onnx.result_dims = {"0.0" = "[[S:u[0-9]+]]"}} : (tensor<i1>) -> tensor<?x3xf32, ["[[S]]", 3]>
func.func @joined(%c: tensor<i1>, %x: tensor<4x3xf32>) -> tensor<*xf32> {
  %y = "onnx.If"(%c) ({
    %0 = "onnx.Relu"(%x) : (tensor<4x3xf32>) -> tensor<*xf32>
    "onnx.Yield"(%0) : (tensor<*xf32>) -> ()
  }, {
    %0 = "onnx.Concat"(%x, %x) {axis = 0} : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<*xf32>
    "onnx.Yield"(%0) : (tensor<*xf32>) -> ()
  }) : (tensor<i1>) -> tensor<*xf32>
  return %y : tensor<*xf32>
}

// An If whose condition follows from the shapes is the branch that runs.
// CHECK-LABEL: func.func @decided
// CHECK-NOT:     onnx.If
// CHECK:         %[[Y:.*]] = "onnx.Relu"(%arg0)
// CHECK-NEXT:    return %[[Y]] : tensor<?x3xf32, ["N", 3]>
func.func @decided(%x: tensor<?x3xf32, ["N", 3]>) -> tensor<*xf32> {
  %s = "onnx.Shape"(%x) : (tensor<?x3xf32, ["N", 3]>) -> tensor<*x!onnx.any>
  %r = "onnx.Size"(%s) : (tensor<*x!onnx.any>) -> tensor<*x!onnx.any>
  %two = "onnx.Constant"() {value = dense<2> : tensor<i64>} : () -> tensor<i64>
  %c = "onnx.Equal"(%r, %two) : (tensor<*x!onnx.any>, tensor<i64>) -> tensor<*x!onnx.any>
  %y = "onnx.If"(%c) ({
    %0 = "onnx.Relu"(%x) : (tensor<?x3xf32, ["N", 3]>) -> tensor<*xf32>
    "onnx.Yield"(%0) : (tensor<*xf32>) -> ()
  }, {
    %axes = "onnx.Constant"() {value = dense<0> : tensor<1xi64>} : () -> tensor<1xi64>
    %0 = "onnx.Squeeze"(%x, %axes) : (tensor<?x3xf32, ["N", 3]>, tensor<1xi64>) -> tensor<*xf32>
    "onnx.Yield"(%0) : (tensor<*xf32>) -> ()
  }) : (tensor<*x!onnx.any>) -> tensor<*xf32>
  return %y : tensor<*xf32>
}

// A carried tensor that grows has a size that the block argument binds, and another that the Loop binds for its result.
// What a trip yields is stacked as often as the loop runs.
// CHECK-LABEL: func.func @grows
// CHECK:         %[[Y:.*]]:2 = "onnx.Loop"
// CHECK:         ^bb0(%{{.*}}: tensor<i64>, %{{.*}}: tensor<i1>, %[[A:.*]]: tensor<?xf32, ["[[C:u[0-9]+]]"]>):
// CHECK:           "onnx.Concat"(%[[A]], %arg0) {{.*}} -> tensor<?xf32, ["[[C]]+2"]>
// CHECK:         -> (tensor<?xf32, ["[[R:u[0-9]+]]"]>, tensor<3x2xf32>)
func.func @grows(%x: tensor<2xf32>) -> (tensor<*xf32>, tensor<*xf32>) {
  %m = "onnx.Constant"() {value = dense<3> : tensor<i64>} : () -> tensor<i64>
  %true = "onnx.Constant"() {value = dense<true> : tensor<i1>} : () -> tensor<i1>
  %y:2 = "onnx.Loop"(%m, %true, %x) ({
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %a: tensor<*xf32>):
    %b = "onnx.Concat"(%a, %x) {axis = 0} : (tensor<*xf32>, tensor<2xf32>) -> tensor<*xf32>
    %c = "onnx.Exp"(%x) : (tensor<2xf32>) -> tensor<*xf32>
    "onnx.Yield"(%go, %b, %c) : (tensor<i1>, tensor<*xf32>, tensor<*xf32>) -> ()
  }) : (tensor<i64>, tensor<i1>, tensor<2xf32>) -> (tensor<*xf32>, tensor<*xf32>)
  return %y#0, %y#1 : tensor<*xf32>, tensor<*xf32>
}

// Scan stacks along the axis it was told; its trips are the size of what it scans.
// CHECK-LABEL: func.func @scanned
// CHECK:         ^bb0(%{{.*}}: tensor<3xf32>, %{{.*}}: tensor<3xf32>):
// CHECK:         -> (tensor<3xf32>, tensor<3x?xf32, [3, "T"]>)
func.func @scanned(%s: tensor<3xf32>, %x: tensor<?x3xf32, ["T", 3]>) -> (tensor<*xf32>, tensor<*xf32>) {
  %y:2 = "onnx.Scan"(%s, %x) ({
  ^bb0(%a: tensor<*xf32>, %b: tensor<*xf32>):
    %c = "onnx.Add"(%a, %b) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
    "onnx.Yield"(%c, %c) : (tensor<*xf32>, tensor<*xf32>) -> ()
  }) {num_scan_inputs = 1, scan_output_axes = array<i64: 1>} : (tensor<3xf32>, tensor<?x3xf32, ["T", 3]>) -> (tensor<*xf32>, tensor<*xf32>)
  return %y#0, %y#1 : tensor<*xf32>, tensor<*xf32>
}
