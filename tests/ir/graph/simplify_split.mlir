// RUN: onnxc-opt %s simplify | filecheck %s

// Each part is a Slice whose start and end are known; the last part of a symbolic axis ends where the axis does.
// CHECK-LABEL: func.func @main
// CHECK:         "onnx.Slice"(%arg0, {{.*}}) {operand_values = {"1" = [0], "2" = [3], "3" = [1], "4" = [1]}}
// CHECK:         "onnx.Slice"(%arg0, {{.*}}) {operand_values = {"1" = [3], "2" = ["N"], "3" = [1], "4" = [1]}}
// CHECK-NOT:     onnx.Split
func.func @main(%x: tensor<2x?xf32, [2, "N"]>) -> (tensor<2x3xf32>, tensor<2x?xf32, [2, "N-3"]>) {
  %n = "onnx.None"() : () -> none
  %0:2 = "onnx.Split"(%x, %n) {axis = -1 : i64, operand_values = {"1" = [3, "N-3"]}} : (tensor<2x?xf32, [2, "N"]>, none) -> (tensor<2x3xf32>, tensor<2x?xf32, [2, "N-3"]>)
  return %0#0, %0#1 : tensor<2x3xf32>, tensor<2x?xf32, [2, "N-3"]>
}
