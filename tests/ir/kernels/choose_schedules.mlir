// RUN: onnxc-opt %s choose_schedules | filecheck %s

// Every kernel gets its extent, a dim over its own symbols, and about what a unit of it takes; kinds with a heuristic
// get a schedule too. Main is left alone.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     kernel.extent
// CHECK-LABEL: func.func private @chain
// CHECK-SAME:    kernel.extent = "4*d0", kernel.kind = "map", kernel.picoseconds = "200"
// CHECK-NOT:     kernel.schedule
// CHECK-LABEL: func.func private @product
// CHECK-SAME:    kernel.extent = "{{.*}}d0{{.*}}"
// CHECK-SAME:    kernel.schedule = {{{.*}}lanes = 8 : i64{{.*}}rows = {{.*}}vectors = {{.*}}}
func.func @main(%x: tensor<?x4xf32, ["N", 4]>) -> tensor<?x4xf32, ["N", 4]> {
  return %x : tensor<?x4xf32, ["N", 4]>
}
func.func private @chain(%x: tensor<?x4xf32, ["d0", 4]>) -> tensor<?x4xf32, ["d0", 4]> attributes {kernel.kind = "map", kernel.root = "onnx.Relu"} {
  %0 = "onnx.Relu"(%x) : (tensor<?x4xf32, ["d0", 4]>) -> tensor<?x4xf32, ["d0", 4]>
  return %0 : tensor<?x4xf32, ["d0", 4]>
}
func.func private @product(%x: tensor<?x64xf32, ["d0", 64]>, %w: tensor<64x96xf32>) -> tensor<?x96xf32, ["d0", 96]> attributes {kernel.kind = "matmul", kernel.root = "onnx.MatMul", kernel.constants = array<i64: 1>} {
  %0 = "onnx.MatMul"(%x, %w) : (tensor<?x64xf32, ["d0", 64]>, tensor<64x96xf32>) -> tensor<?x96xf32, ["d0", 96]>
  return %0 : tensor<?x96xf32, ["d0", 96]>
}
