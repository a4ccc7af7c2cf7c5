// RUN: onnxc-opt %s recognise remove_dead | filecheck %s

// LayerNormalization as exporters before opset 17 wrote it, scale and bias included.
// CHECK-LABEL: func.func @layer_norm
// CHECK:         %[[S:.*]] = "onnx.Constant"
// CHECK:         %[[B:.*]] = "onnx.Constant"
// CHECK:         %[[Y:.*]] = "onnx.LayerNormalization"(%arg0, %[[S]], %[[B]]) {axis = -1 : i64, epsilon = 9.99999974E-6 : f32}
// CHECK:         return %[[Y]]
func.func @layer_norm(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  %n = "onnx.None"() : () -> none
  %eps = "onnx.Constant"() {value = dense<1.0e-5> : tensor<f32>} : () -> tensor<f32>
  %s = "onnx.Constant"() {value = dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>} : () -> tensor<4xf32>
  %b = "onnx.Constant"() {value = dense<[0.1, 0.2, 0.3, 0.4]> : tensor<4xf32>} : () -> tensor<4xf32>
  %m = "onnx.ReduceMean"(%x, %n) {operand_values = {"1" = [-1]}} : (tensor<2x3x4xf32>, none) -> tensor<2x3x1xf32>
  %d = "onnx.Sub"(%x, %m) : (tensor<2x3x4xf32>, tensor<2x3x1xf32>) -> tensor<2x3x4xf32>
  %q = "onnx.Mul"(%d, %d) : (tensor<2x3x4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %v = "onnx.ReduceMean"(%q, %n) {operand_values = {"1" = [2]}} : (tensor<2x3x4xf32>, none) -> tensor<2x3x1xf32>
  %e = "onnx.Add"(%v, %eps) : (tensor<2x3x1xf32>, tensor<f32>) -> tensor<2x3x1xf32>
  %r = "onnx.Sqrt"(%e) : (tensor<2x3x1xf32>) -> tensor<2x3x1xf32>
  %0 = "onnx.Div"(%d, %r) : (tensor<2x3x4xf32>, tensor<2x3x1xf32>) -> tensor<2x3x4xf32>
  %1 = "onnx.Mul"(%s, %0) : (tensor<4xf32>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  %2 = "onnx.Add"(%1, %b) : (tensor<2x3x4xf32>, tensor<4xf32>) -> tensor<2x3x4xf32>
  return %2 : tensor<2x3x4xf32>
}

// RMSNormalization by a reciprocal root; without the subtraction of the mean. Its scale comes at run time.
// CHECK-LABEL: func.func @rms_norm
// CHECK:         "onnx.RMSNormalization"(%arg0, %arg1) {axis = -1 : i64, epsilon = 9.99999997E-7 : f32}
// CHECK-NEXT:    return
func.func @rms_norm(%x: tensor<3x4xf32>, %s: tensor<4xf32>) -> tensor<3x4xf32> {
  %n = "onnx.None"() : () -> none
  %eps = "onnx.Constant"() {value = dense<1.0e-6> : tensor<f32>} : () -> tensor<f32>
  %q = "onnx.Mul"(%x, %x) : (tensor<3x4xf32>, tensor<3x4xf32>) -> tensor<3x4xf32>
  %v = "onnx.ReduceMean"(%q, %n) {operand_values = {"1" = [-1]}} : (tensor<3x4xf32>, none) -> tensor<3x1xf32>
  %e = "onnx.Add"(%v, %eps) : (tensor<3x1xf32>, tensor<f32>) -> tensor<3x1xf32>
  %r = "onnx.Sqrt"(%e) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %i = "onnx.Reciprocal"(%r) : (tensor<3x1xf32>) -> tensor<3x1xf32>
  %0 = "onnx.Mul"(%x, %i) : (tensor<3x4xf32>, tensor<3x1xf32>) -> tensor<3x4xf32>
  %1 = "onnx.Mul"(%0, %s) : (tensor<3x4xf32>, tensor<4xf32>) -> tensor<3x4xf32>
  return %1 : tensor<3x4xf32>
}

// Both forms of Gelu, factors in any order.
// CHECK-LABEL: func.func @gelu
// CHECK:         %[[A:.*]] = "onnx.Gelu"(%arg0) :
// CHECK:         %[[B:.*]] = "onnx.Gelu"(%arg0) {approximate = "tanh"}
// CHECK:         return %[[A]], %[[B]]
func.func @gelu(%x: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %half = "onnx.Constant"() {value = dense<0.5> : tensor<f32>} : () -> tensor<f32>
  %one = "onnx.Constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %root = "onnx.Constant"() {value = dense<1.41421354> : tensor<f32>} : () -> tensor<f32>
  %c = "onnx.Constant"() {value = dense<0.044715> : tensor<f32>} : () -> tensor<f32>
  %k = "onnx.Constant"() {value = dense<0.797884583> : tensor<f32>} : () -> tensor<f32>
  %0 = "onnx.Div"(%x, %root) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %1 = "onnx.Erf"(%0) : (tensor<8xf32>) -> tensor<8xf32>
  %2 = "onnx.Add"(%1, %one) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %3 = "onnx.Mul"(%x, %2) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %4 = "onnx.Mul"(%3, %half) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %5 = "onnx.Mul"(%x, %x) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %6 = "onnx.Mul"(%x, %5) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %7 = "onnx.Mul"(%c, %6) : (tensor<f32>, tensor<8xf32>) -> tensor<8xf32>
  %8 = "onnx.Add"(%x, %7) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %9 = "onnx.Mul"(%8, %k) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %10 = "onnx.Tanh"(%9) : (tensor<8xf32>) -> tensor<8xf32>
  %11 = "onnx.Add"(%one, %10) : (tensor<f32>, tensor<8xf32>) -> tensor<8xf32>
  %12 = "onnx.Mul"(%half, %x) : (tensor<f32>, tensor<8xf32>) -> tensor<8xf32>
  %13 = "onnx.Mul"(%12, %11) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return %4, %13 : tensor<8xf32>, tensor<8xf32>
}

// Gates: x · sigmoid(x), x · clip(x + 3, 0, 6) / 6, that gate alone, x · tanh(softplus(x)); 1 / (1 + exp(-x)).
// CHECK-LABEL: func.func @gates
// CHECK:         %[[A:.*]] = "onnx.Swish"(%arg0) {alpha = 1.000000e+00 : f32}
// CHECK:         %[[B:.*]] = "onnx.HardSwish"(%arg0)
// CHECK:         %[[C:.*]] = "onnx.HardSigmoid"(%arg1) {alpha = 0.166666672 : f32, beta = 5.000000e-01 : f32}
// CHECK:         %[[D:.*]] = "onnx.Mish"(%arg0)
// CHECK:         %[[E:.*]] = "onnx.Sigmoid"(%arg0)
// CHECK:         return %[[A]], %[[B]], %[[C]], %[[D]], %[[E]]
func.func @gates(%x: tensor<8xf32>, %y: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>) {
  %zero = "onnx.Constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f32>
  %one = "onnx.Constant"() {value = dense<1.0> : tensor<f32>} : () -> tensor<f32>
  %three = "onnx.Constant"() {value = dense<3.0> : tensor<f32>} : () -> tensor<f32>
  %six = "onnx.Constant"() {value = dense<6.0> : tensor<f32>} : () -> tensor<f32>
  %0 = "onnx.Sigmoid"(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %1 = "onnx.Mul"(%0, %x) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %2 = "onnx.Add"(%x, %three) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %3 = "onnx.Clip"(%2, %zero, %six) : (tensor<8xf32>, tensor<f32>, tensor<f32>) -> tensor<8xf32>
  %4 = "onnx.Mul"(%x, %3) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %5 = "onnx.Div"(%4, %six) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %6 = "onnx.Add"(%three, %y) : (tensor<f32>, tensor<8xf32>) -> tensor<8xf32>
  %7 = "onnx.Clip"(%6, %zero, %six) : (tensor<8xf32>, tensor<f32>, tensor<f32>) -> tensor<8xf32>
  %8 = "onnx.Div"(%7, %six) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %9 = "onnx.Softplus"(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %10 = "onnx.Tanh"(%9) : (tensor<8xf32>) -> tensor<8xf32>
  %11 = "onnx.Mul"(%10, %x) : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  %12 = "onnx.Neg"(%x) : (tensor<8xf32>) -> tensor<8xf32>
  %13 = "onnx.Exp"(%12) : (tensor<8xf32>) -> tensor<8xf32>
  %14 = "onnx.Add"(%13, %one) : (tensor<8xf32>, tensor<f32>) -> tensor<8xf32>
  %15 = "onnx.Reciprocal"(%14) : (tensor<8xf32>) -> tensor<8xf32>
  return %1, %5, %8, %11, %15 : tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8xf32>
}

// Softmax by its definition, with the maximum subtracted or not.
// CHECK-LABEL: func.func @softmax
// CHECK-NEXT:    %[[Y:.*]] = "onnx.Softmax"(%arg0) {axis = 1 : i64}
// CHECK-NEXT:    return %[[Y]]
func.func @softmax(%x: tensor<3x4xf32>) -> tensor<3x4xf32> {
  %n = "onnx.None"() : () -> none
  %0 = "onnx.ReduceMax"(%x, %n) {operand_values = {"1" = [1]}} : (tensor<3x4xf32>, none) -> tensor<3x1xf32>
  %1 = "onnx.Sub"(%x, %0) : (tensor<3x4xf32>, tensor<3x1xf32>) -> tensor<3x4xf32>
  %2 = "onnx.Exp"(%1) : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %3 = "onnx.ReduceSum"(%2, %n) {operand_values = {"1" = [1]}} : (tensor<3x4xf32>, none) -> tensor<3x1xf32>
  %4 = "onnx.Div"(%2, %3) : (tensor<3x4xf32>, tensor<3x1xf32>) -> tensor<3x4xf32>
  return %4 : tensor<3x4xf32>
}
