// RUN: onnxc-opt %s expand_resize | filecheck %s

// Constant scales are written down, one an axis; the unchanged modes are written out with their defaults.
// CHECK-LABEL: func.func @scales
// CHECK:         "kernel.resize"(%arg0)
// CHECK-SAME:      axes = array<i64: 0, 1, 2, 3>
// CHECK-SAME:      coordinate_transformation_mode = "half_pixel"
// CHECK-SAME:      mode = "nearest"
// CHECK-SAME:      scales = array<f32: 1.000000e+00, 1.000000e+00, 2.000000e+00, 2.000000e+00>
// CHECK-NOT:     onnx.Resize
func.func @scales(%x: tensor<?x3x32x?xf32, ["N", 3, 32, "W"]>) -> tensor<?x3x64x?xf32, ["N", 3, 64, "2*W"]> {
  %none = "onnx.None"() : () -> none
  %scales = "onnx.Constant"() {value = dense<[1.0, 1.0, 2.0, 2.0]> : tensor<4xf32>} : () -> tensor<4xf32>
  %y = "onnx.Resize"(%x, %none, %scales, %none) {mode = "nearest"} : (tensor<?x3x32x?xf32, ["N", 3, 32, "W"]>, none, tensor<4xf32>, none) -> tensor<?x3x64x?xf32, ["N", 3, 64, "2*W"]>
  return %y : tensor<?x3x64x?xf32, ["N", 3, 64, "2*W"]>
}

// Of sizes only the types are left: 0 says "size of the result over size of x", 1 that the axis is kept.
// CHECK-LABEL: func.func @sizes
// CHECK:         "kernel.resize"(%arg0)
// CHECK-SAME:      scales = array<f32: 1.000000e+00, 0.000000e+00>
func.func @sizes(%x: tensor<?x32xf32, ["N", 32]>) -> tensor<?x48xf32, ["N", 48]> {
  %none = "onnx.None"() : () -> none
  %y = "onnx.Resize"(%x, %none, %none, %none) {mode = "linear", operand_values = {"3" = ["N", 48]}} : (tensor<?x32xf32, ["N", 32]>, none, none, none) -> tensor<?x48xf32, ["N", 48]>
  return %y : tensor<?x48xf32, ["N", 48]>
}

// Scales that are known only at run time stay an operand: -1 says "read it there". Other axes are kept.
// CHECK-LABEL: func.func @run_time
// CHECK:         "kernel.resize"(%arg0, %arg1)
// CHECK-SAME:      axes = array<i64: 1>
// CHECK-SAME:      scales = array<f32: 1.000000e+00, -1.000000e+00>
func.func @run_time(%x: tensor<2x32xf32>, %scales: tensor<1xf32>) -> tensor<2x?xf32, [2, "s0"]> {
  %none = "onnx.None"() : () -> none
  %y = "onnx.Resize"(%x, %none, %scales, %none) {mode = "linear", axes = array<i64: -1>} : (tensor<2x32xf32>, none, tensor<1xf32>, none) -> tensor<2x?xf32, [2, "s0"]>
  return %y : tensor<2x?xf32, [2, "s0"]>
}
