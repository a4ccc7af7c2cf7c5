// RUN: onnxc-opt %s group_operators join_in_place | filecheck %s

// Along channels: each part has the joined rows, also where something else reads it; a part keeps its own epilogue.
// CHECK-LABEL: func.func @channels
// CHECK:         %[[A:.*]] = "kernel.fused"(%arg0)
// CHECK:           "kernel.max_pool"
// CHECK:           {kind = "pool", root = "kernel.max_pool", rows = array<i64: 0, 48>}
// CHECK:         %[[B:.*]] = "kernel.fused"(%[[A]])
// CHECK:           "onnx.Sigmoid"
// CHECK:           {kind = "map", root = "onnx.Sigmoid", rows = array<i64: 48, 48>}
// CHECK:         %[[C:.*]] = "kernel.fused"(%arg0)
// CHECK:           {kind = "concat", root = "onnx.Concat", rows = array<i64: 0, 48>}
// CHECK:         "kernel.join"(%[[A]], %[[B]], %[[C]]) {offsets = array<i64: 0, 16, 32>}
func.func @channels(%x: tensor<1x4x4x16xf32>) -> tensor<1x4x4x48xf32> {
  %a = "kernel.max_pool"(%x) {kernel_shape = array<i64: 3, 3>, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, ceil_mode = 0 : i64} : (tensor<1x4x4x16xf32>) -> tensor<1x4x4x16xf32>
  %b = "onnx.Sigmoid"(%a) : (tensor<1x4x4x16xf32>) -> tensor<1x4x4x16xf32>
  %y = "onnx.Concat"(%a, %b, %x) {axis = 3 : si64} : (tensor<1x4x4x16xf32>, tensor<1x4x4x16xf32>, tensor<1x4x4x16xf32>) -> tensor<1x4x4x48xf32>
  return %y : tensor<1x4x4x48xf32>
}

// Along the outermost axis of extent above 1, parts are dense runs: nothing changes for who writes or reads them.
// CHECK-LABEL: func.func @runs
// CHECK-NOT:     rows =
// CHECK:         "kernel.join"({{.*}}) {offsets = array<i64: 0, 10>} : (tensor<1x2x5xf32>, tensor<1x3x5xf32>) -> tensor<1x5x5xf32>
func.func @runs(%x: tensor<1x2x5xf32>, %z: tensor<1x3x5xf32>) -> tensor<1x5x5xf32> {
  %a = "onnx.Softmax"(%x) {axis = 2 : si64} : (tensor<1x2x5xf32>) -> tensor<1x2x5xf32>
  %b = "onnx.Tanh"(%z) : (tensor<1x3x5xf32>) -> tensor<1x3x5xf32>
  %y = "onnx.Concat"(%a, %b) {axis = 1 : si64} : (tensor<1x2x5xf32>, tensor<1x3x5xf32>) -> tensor<1x5x5xf32>
  return %y : tensor<1x5x5xf32>
}

// Short rows stay together, and the Concat computes what it joins.
// CHECK-LABEL: func.func @short
// CHECK:         "kernel.fused"(%arg0)
// CHECK:           "onnx.Tanh"
// CHECK:           "onnx.Concat"
// CHECK-NOT:     kernel.join
func.func @short(%x: tensor<6x5xf32>) -> tensor<6x10xf32> {
  %a = "onnx.Tanh"(%x) : (tensor<6x5xf32>) -> tensor<6x5xf32>
  %y = "onnx.Concat"(%a, %x) {axis = 1 : si64} : (tensor<6x5xf32>, tensor<6x5xf32>) -> tensor<6x10xf32>
  return %y : tensor<6x10xf32>
}

// Softmax neither writes nor reads rows apart, so nothing is made in place.
// CHECK-LABEL: func.func @dense_only
// CHECK-NOT:     kernel.join
func.func @dense_only(%x: tensor<6x16xf32>, %z: tensor<6x16xf32>) -> tensor<6x32xf32> {
  %a = "onnx.Softmax"(%x) {axis = 1 : si64} : (tensor<6x16xf32>) -> tensor<6x16xf32>
  %y = "onnx.Concat"(%a, %z) {axis = 1 : si64} : (tensor<6x16xf32>, tensor<6x16xf32>) -> tensor<6x32xf32>
  return %y : tensor<6x32xf32>
}
