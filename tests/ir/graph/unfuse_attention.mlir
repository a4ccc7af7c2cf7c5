// RUN: onnxc-opt %s unfuse_attention | filecheck %s

// Heads side by side are split off, K turned in the same step; the factor goes to the product. Joined again behind.
// CHECK-LABEL: func.func @encoder
// CHECK:         %[[Q0:.*]] = "onnx.Reshape"(%arg0, %{{.*}}) {{.*}} -> tensor<?x?x2x4xf32, ["b", "s", 2, 4]>
// CHECK-NEXT:    %[[Q:.*]] = "onnx.Transpose"(%[[Q0]]) {perm = array<i64: 0, 2, 1, 3>}
// CHECK:         %[[K:.*]] = "onnx.Transpose"(%{{.*}}) {perm = array<i64: 0, 2, 3, 1>} {{.*}} -> tensor<?x2x4x?xf32, ["b", 2, 4, "s"]>
// CHECK:         %[[V:.*]] = "onnx.Transpose"(%{{.*}}) {perm = array<i64: 0, 2, 1, 3>}
// CHECK:         %[[S:.*]] = "onnx.microsoft.FusedMatMul"(%[[Q]], %[[K]]) {alpha = 5.000000e-01 : f32} {{.*}} -> tensor<?x2x?x?xf32, ["b", 2, "s", "s"]>
// CHECK-NEXT:    %[[M:.*]] = "onnx.Add"(%[[S]], %arg3)
// CHECK-NEXT:    %[[P:.*]] = "onnx.Softmax"(%[[M]]) {axis = -1 : i64}
// CHECK-NEXT:    %[[Y:.*]] = "onnx.MatMul"(%[[P]], %[[V]])
// CHECK-NEXT:    %[[T:.*]] = "onnx.Transpose"(%[[Y]]) {perm = array<i64: 0, 2, 1, 3>}
// CHECK:         "onnx.Reshape"(%[[T]], %{{.*}}) {{.*}} -> tensor<?x?x8xf32, ["b", "s", 8]>
func.func @encoder(%q: tensor<?x?x8xf32, ["b", "s", 8]>, %k: tensor<?x?x8xf32, ["b", "s", 8]>, %v: tensor<?x?x8xf32, ["b", "s", 8]>,
    %mask: tensor<?x1x1x?xf32, ["b", 1, 1, "s"]>) -> tensor<?x?x8xf32, ["b", "s", 8]> {
  %y = "kernel.attention"(%q, %k, %v, %mask) {algorithm = "unfused", heads = 2 : i64, kv_heads = 2 : i64, scale = 5.0e-01 : f32} : (tensor<?x?x8xf32, ["b", "s", 8]>, tensor<?x?x8xf32, ["b", "s", 8]>, tensor<?x?x8xf32, ["b", "s", 8]>, tensor<?x1x1x?xf32, ["b", 1, 1, "s"]>) -> tensor<?x?x8xf32, ["b", "s", 8]>
  return %y : tensor<?x?x8xf32, ["b", "s", 8]>
}

// Two heads of queries read each head of keys: their rows are those of one product; softmax sees heads again.
// CHECK-LABEL: func.func @shared_keys
// CHECK-DAG:     %[[Q:.*]] = "onnx.Reshape"(%arg0, %{{.*}}) {{.*}} -> tensor<1x2x6x8xf32>
// CHECK-DAG:     %[[K:.*]] = "onnx.Transpose"(%arg1) {perm = array<i64: 0, 1, 3, 2>}
// CHECK:         %[[S:.*]] = "onnx.microsoft.FusedMatMul"(%[[Q]], %[[K]]) {{.*}} -> tensor<1x2x6x5xf32>
// CHECK:         %[[H:.*]] = "onnx.Reshape"(%[[S]], %{{.*}}) {{.*}} -> tensor<1x4x3x5xf32>
// CHECK-NEXT:    %[[P:.*]] = "onnx.Softmax"(%[[H]])
// CHECK:         %[[R:.*]] = "onnx.Reshape"(%[[P]], %{{.*}}) {{.*}} -> tensor<1x2x6x5xf32>
// CHECK-NEXT:    %[[Y:.*]] = "onnx.MatMul"(%[[R]], %arg2) {{.*}} -> tensor<1x2x6x4xf32>
// CHECK:         "onnx.Reshape"(%[[Y]], %{{.*}}) {{.*}} -> tensor<1x4x3x4xf32>
func.func @shared_keys(%q: tensor<1x4x3x8xf32>, %k: tensor<1x2x5x8xf32>, %v: tensor<1x2x5x4xf32>) -> tensor<1x4x3x4xf32> {
  %y = "kernel.attention"(%q, %k, %v) {algorithm = "unfused", heads = 4 : i64, kv_heads = 2 : i64, scale = 1.0 : f32} : (tensor<1x4x3x8xf32>, tensor<1x2x5x8xf32>, tensor<1x2x5x4xf32>) -> tensor<1x4x3x4xf32>
  return %y : tensor<1x4x3x4xf32>
}

// Without a word, and where one kernel is asked for, it stays one, and says nothing of it.
// CHECK-LABEL: func.func @stays
// CHECK-NEXT:    %[[X:.*]] = "kernel.attention"(%arg0, %arg1, %arg2) {heads = 2 : i64, kv_heads = 2 : i64, scale = 1.000000e+00 : f32}
// CHECK-NEXT:    "kernel.attention"(%[[X]], %arg1, %arg2) {heads = 2 : i64, kv_heads = 2 : i64, scale = 1.000000e+00 : f32}
// CHECK-NOT:     onnx.Softmax
func.func @stays(%q: tensor<1x2x3x4xf32>, %k: tensor<1x2x5x4xf32>, %v: tensor<1x2x5x4xf32>) -> tensor<1x2x3x4xf32> {
  %x = "kernel.attention"(%q, %k, %v) {heads = 2 : i64, kv_heads = 2 : i64, scale = 1.0 : f32} : (tensor<1x2x3x4xf32>, tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>) -> tensor<1x2x3x4xf32>
  %y = "kernel.attention"(%x, %k, %v) {algorithm = "fused", heads = 2 : i64, kv_heads = 2 : i64, scale = 1.0 : f32} : (tensor<1x2x3x4xf32>, tensor<1x2x5x4xf32>, tensor<1x2x5x4xf32>) -> tensor<1x2x3x4xf32>
  return %y : tensor<1x2x3x4xf32>
}
