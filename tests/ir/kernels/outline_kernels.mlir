// RUN: onnxc-opt %s group_operators outline_kernels | filecheck %s

// A kernel's dims are names of its own: N and 2*N are both d0 to the matmul, so its two calls share one function, whose
// name is a hash of its text. A constant operand makes another kernel of it: it may be packed.
// CHECK-LABEL: func.func @main
// CHECK:         %[[W:.*]] = "onnx.Constant"() {weight = "fc"}
// CHECK:         "kernel.call"(%arg0, %arg1) {callee = @[[K:k_[0-9a-f]+]], dims = {d0 = "N"}, nodes = ["first"]}
// CHECK:         "kernel.call"({{.*}}) {callee = @[[CONCAT:k_[0-9a-f]+]], dims = {d0 = "N", d1 = "2*N"}, nodes = ["both"]}
// CHECK:         "kernel.call"({{.*}}) {callee = @[[K]], dims = {d0 = "2*N"}, nodes = ["second"]}
// CHECK:         "kernel.call"({{.*}}, %[[W]]) {callee = @[[PACKED:k_[0-9a-f]+]], dims = {d0 = "2*N"}, nodes = ["third"]}
// CHECK:       func.func private @[[K]](%arg0: tensor<?x8xf32, ["d0", 8]>, %arg1: tensor<8x8xf32>) -> tensor<?x8xf32, ["d0", 8]> attributes {kernel.kind = "matmul", kernel.root = "onnx.MatMul"}
// CHECK:       func.func private @[[CONCAT]](%arg0: tensor<?x8xf32, ["d0", 8]>) -> tensor<?x8xf32, ["d1", 8]>
// CHECK:       func.func private @[[PACKED]]
// CHECK-SAME:    attributes {kernel.constants = array<i64: 1>, kernel.kind = "matmul"
// CHECK-NOT:   func.func
func.func @main(%x: tensor<?x8xf32, ["N", 8]>, %w: tensor<8x8xf32>) -> tensor<?x8xf32, ["2*N", 8]> {
  %c = "onnx.Constant"() {weight = "fc"} : () -> tensor<8x8xf32>
  %0 = "onnx.MatMul"(%x, %w) : (tensor<?x8xf32, ["N", 8]>, tensor<8x8xf32>) -> tensor<?x8xf32, ["N", 8]> loc("first")
  %1 = "onnx.Concat"(%0, %0) {axis = 0 : i64} : (tensor<?x8xf32, ["N", 8]>, tensor<?x8xf32, ["N", 8]>) -> tensor<?x8xf32, ["2*N", 8]> loc("both")
  %2 = "onnx.MatMul"(%1, %w) : (tensor<?x8xf32, ["2*N", 8]>, tensor<8x8xf32>) -> tensor<?x8xf32, ["2*N", 8]> loc("second")
  %3 = "onnx.MatMul"(%2, %c) : (tensor<?x8xf32, ["2*N", 8]>, tensor<8x8xf32>) -> tensor<?x8xf32, ["2*N", 8]> loc("third")
  return %3 : tensor<?x8xf32, ["2*N", 8]>
}

// -----

// Operand values are dims too; they get the kernel's names.
// CHECK-LABEL: func.func @main
// CHECK:         dims = {d0 = "N", d1 = "min(K,N)"}
// CHECK:         "onnx.Slice"(%arg0) {operand_values = {"1" = [0], "2" = ["d1"]}} : (tensor<?xf32, ["d0"]>) -> tensor<?xf32, ["d1"]>
func.func @main(%x: tensor<?xf32, ["N"]>, %k: tensor<?xf32, ["K"]>) -> tensor<?xf32, ["min(K, N)"]> {
  %0 = "onnx.Slice"(%x) {operand_values = {"1" = [0], "2" = ["min(K, N)"]}} : (tensor<?xf32, ["N"]>) -> tensor<?xf32, ["min(K, N)"]>
  return %0 : tensor<?xf32, ["min(K, N)"]>
}

// -----

// Kernels of a branch or a loop's body are functions of the module as well.
// CHECK-LABEL: func.func @main
// CHECK:         "onnx.If"
// CHECK:           "kernel.call"(%arg1) {callee = @[[K:k_[0-9a-f]+]]
// CHECK:           "kernel.call"(%arg1) {callee = @[[OTHER:k_[0-9a-f]+]]
// CHECK:       func.func private @[[K]]
// CHECK:       func.func private @[[OTHER]]
func.func @main(%c: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = "onnx.If"(%c) ({
    %1 = "onnx.Abs"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    "onnx.Yield"(%1) : (tensor<4xf32>) -> ()
  }, {
    %1 = "onnx.Neg"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    "onnx.Yield"(%1) : (tensor<4xf32>) -> ()
  }) : (tensor<i1>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
