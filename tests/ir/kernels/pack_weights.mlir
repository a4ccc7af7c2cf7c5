// RUN: onnxc-opt %s choose_schedules pack_weights | filecheck %s

// The weight of a matmul is laid out in panels, once for both calls (same content, same layout); the constant nobody
// uses any more goes. What is no constant is read as it lies.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     {weight = "fc"}
// CHECK:         %[[P:.*]] = "onnx.Constant"() {weight = "fc:panels{{[0-9]+}}"} : () -> tensor<4x64x16xf32>
// CHECK:         "kernel.call"(%arg0, %[[P]])
// CHECK:         %[[Q:.*]] = "onnx.Constant"() {weight = "fc:panels{{[0-9]+}}"} : () -> tensor<4x64x16xf32>
// CHECK:         "kernel.call"({{.*}}, %[[Q]])
// CHECK:         "kernel.call"({{.*}}, %arg1) {callee = @plain
// CHECK-LABEL: func.func private @packed(%arg0: tensor<?x64xf32, ["d0", 64]>, %arg1: tensor<4x64x16xf32>)
// CHECK-SAME:    kernel.packed
// CHECK-LABEL: func.func private @plain(%arg0: tensor<?x64xf32, ["d0", 64]>, %arg1: tensor<64x64xf32>)
func.func @main(%x: tensor<?x64xf32, ["N", 64]>, %w: tensor<64x64xf32>) -> tensor<?x64xf32, ["N", 64]> {
  %c = "onnx.Constant"() {weight = "fc"} : () -> tensor<64x64xf32>
  %0 = "kernel.call"(%x, %c) {callee = @packed, dims = {d0 = "N"}, nodes = ["a"]} : (tensor<?x64xf32, ["N", 64]>, tensor<64x64xf32>) -> tensor<?x64xf32, ["N", 64]>
  %1 = "kernel.call"(%0, %c) {callee = @packed, dims = {d0 = "N"}, nodes = ["b"]} : (tensor<?x64xf32, ["N", 64]>, tensor<64x64xf32>) -> tensor<?x64xf32, ["N", 64]>
  %2 = "kernel.call"(%1, %w) {callee = @plain, dims = {d0 = "N"}, nodes = ["c"]} : (tensor<?x64xf32, ["N", 64]>, tensor<64x64xf32>) -> tensor<?x64xf32, ["N", 64]>
  return %2 : tensor<?x64xf32, ["N", 64]>
}
func.func private @packed(%x: tensor<?x64xf32, ["d0", 64]>, %w: tensor<64x64xf32>) -> tensor<?x64xf32, ["d0", 64]> attributes {kernel.kind = "matmul", kernel.root = "onnx.MatMul", kernel.constants = array<i64: 1>} {
  %0 = "onnx.MatMul"(%x, %w) : (tensor<?x64xf32, ["d0", 64]>, tensor<64x64xf32>) -> tensor<?x64xf32, ["d0", 64]>
  return %0 : tensor<?x64xf32, ["d0", 64]>
}
func.func private @plain(%x: tensor<?x64xf32, ["d0", 64]>, %w: tensor<64x64xf32>) -> tensor<?x64xf32, ["d0", 64]> attributes {kernel.kind = "matmul", kernel.root = "onnx.MatMul"} {
  %0 = "onnx.MatMul"(%x, %w) : (tensor<?x64xf32, ["d0", 64]>, tensor<64x64xf32>) -> tensor<?x64xf32, ["d0", 64]>
  return %0 : tensor<?x64xf32, ["d0", 64]>
}
