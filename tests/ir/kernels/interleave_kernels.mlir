// RUN: onnxc-opt %s choose_schedules interleave_kernels plan_memory | filecheck %s

// Expand and depthwise, with 1.2 MB between them where L2 has 512 KB: they take turns, the same functions as before, and
// what is between them has no place in the workspace. Words of the plan: bands, kernels, words of arguments, bytes of a
// thread's room (those of the scratch), picoseconds a band, then for each kernel where its function, result and the next
// one's operand stand among the words, and where its buffer is; then the bands' steps.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    workspace = "[[BYTES:[0-9]+]]"
// CHECK-NOT:     kernel.call
// CHECK:         %[[ROOM:.*]] = "kernel.scratch"() {places = ["workspace 0"]} : () -> tensor<[[BYTES]]xui8>
// CHECK-NEXT:    %[[Y:.*]] = "kernel.bands"(%[[ROOM]], %arg0, %arg1, %arg2) ({
// CHECK-NEXT:    ^bb0(%[[X:.*]]: tensor<1x56x56x8xf32>, %[[W:.*]]: tensor<1x1x8x96xf32>, %[[V:.*]]: tensor<3x3x1x96xf32>):
// CHECK-NEXT:      %[[A:.*]] = "kernel.call"(%[[X]], %[[W]]) {callee = @expand}
// CHECK-NEXT:      %[[B:.*]] = "kernel.call"(%[[A]], %[[V]]) {callee = @depthwise}
// CHECK-NEXT:      "kernel.yield"(%[[B]])
// CHECK-NEXT:    }) {places = ["output 0"], plan = array<i64: 56, 2, 8, [[BYTES]], {{[0-9]+}}, 0, 3, 5, 64, 4, 0, 0, [[BYTES]],
// CHECK-NEXT:    return %[[Y]]
// The expanding kernel's units are short now.
// CHECK-LABEL: func.func private @expand
// CHECK-SAME:    group = 8 : i64
func.func @main(%x: tensor<1x56x56x8xf32>, %w: tensor<1x1x8x96xf32>, %v: tensor<3x3x1x96xf32>) -> tensor<1x56x56x96xf32> {
  %0 = "kernel.call"(%x, %w) {callee = @expand} : (tensor<1x56x56x8xf32>, tensor<1x1x8x96xf32>) -> tensor<1x56x56x96xf32>
  %1 = "kernel.call"(%0, %v) {callee = @depthwise} : (tensor<1x56x56x96xf32>, tensor<3x3x1x96xf32>) -> tensor<1x56x56x96xf32>
  return %1 : tensor<1x56x56x96xf32>
}
func.func private @expand(%x: tensor<1x56x56x8xf32>, %w: tensor<1x1x8x96xf32>) -> tensor<1x56x56x96xf32> attributes {kernel.kind = "conv", kernel.root = "kernel.conv"} {
  %0 = "kernel.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, group = 1 : i64} : (tensor<1x56x56x8xf32>, tensor<1x1x8x96xf32>) -> tensor<1x56x56x96xf32>
  return %0 : tensor<1x56x56x96xf32>
}
func.func private @depthwise(%x: tensor<1x56x56x96xf32>, %w: tensor<3x3x1x96xf32>) -> tensor<1x56x56x96xf32> attributes {kernel.kind = "conv", kernel.root = "kernel.conv"} {
  %0 = "kernel.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, group = 96 : i64} : (tensor<1x56x56x96xf32>, tensor<3x3x1x96xf32>) -> tensor<1x56x56x96xf32>
  return %0 : tensor<1x56x56x96xf32>
}

// -----

// One after another: what the first one makes is read by two, and where it is read by one, it stays in L2.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     kernel.bands
// CHECK-LABEL: func.func private @large
func.func @main(%x: tensor<1x56x56x96xf32>, %v: tensor<3x3x1x96xf32>, %s: tensor<1x20x20x96xf32>) -> (tensor<1x56x56x96xf32>, tensor<1x56x56x96xf32>, tensor<1x20x20x96xf32>) {
  %0 = "kernel.call"(%x, %v) {callee = @large} : (tensor<1x56x56x96xf32>, tensor<3x3x1x96xf32>) -> tensor<1x56x56x96xf32>
  %1 = "kernel.call"(%0, %v) {callee = @large} : (tensor<1x56x56x96xf32>, tensor<3x3x1x96xf32>) -> tensor<1x56x56x96xf32>
  %2 = "kernel.call"(%s, %v) {callee = @small} : (tensor<1x20x20x96xf32>, tensor<3x3x1x96xf32>) -> tensor<1x20x20x96xf32>
  %3 = "kernel.call"(%2, %v) {callee = @small} : (tensor<1x20x20x96xf32>, tensor<3x3x1x96xf32>) -> tensor<1x20x20x96xf32>
  return %0, %1, %3 : tensor<1x56x56x96xf32>, tensor<1x56x56x96xf32>, tensor<1x20x20x96xf32>
}
func.func private @large(%x: tensor<1x56x56x96xf32>, %w: tensor<3x3x1x96xf32>) -> tensor<1x56x56x96xf32> attributes {kernel.kind = "conv", kernel.root = "kernel.conv"} {
  %0 = "kernel.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, group = 96 : i64} : (tensor<1x56x56x96xf32>, tensor<3x3x1x96xf32>) -> tensor<1x56x56x96xf32>
  return %0 : tensor<1x56x56x96xf32>
}
func.func private @small(%x: tensor<1x20x20x96xf32>, %w: tensor<3x3x1x96xf32>) -> tensor<1x20x20x96xf32> attributes {kernel.kind = "conv", kernel.root = "kernel.conv"} {
  %0 = "kernel.conv"(%x, %w) {strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>, group = 96 : i64} : (tensor<1x20x20x96xf32>, tensor<3x3x1x96xf32>) -> tensor<1x20x20x96xf32>
  return %0 : tensor<1x20x20x96xf32>
}

// -----

// Nor where every unit of a kernel makes columns of the whole: nothing can be read before the last one.
// CHECK-LABEL: func.func @main
// CHECK-NOT:     kernel.bands
// CHECK-LABEL: func.func private @by_columns
// CHECK-SAME:    order = "columns"
func.func @main(%x: tensor<1x56x56x8xf32>, %w: tensor<1x1x8x96xf32>) -> tensor<1x28x28x96xf32> {
  %0 = "kernel.call"(%x, %w) {callee = @by_columns} : (tensor<1x56x56x8xf32>, tensor<1x1x8x96xf32>) -> tensor<1x56x56x96xf32>
  %1 = "kernel.call"(%0) {callee = @pool} : (tensor<1x56x56x96xf32>) -> tensor<1x28x28x96xf32>
  return %1 : tensor<1x28x28x96xf32>
}
func.func private @by_columns(%x: tensor<1x56x56x8xf32>, %w: tensor<1x1x8x96xf32>) -> tensor<1x56x56x96xf32> attributes {kernel.kind = "conv", kernel.root = "kernel.conv"} {
  %0 = "kernel.conv"(%x, %w) {schedule = {order = "columns", group = 8 : i64}, strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: 0, 0, 0, 0>, group = 1 : i64} : (tensor<1x56x56x8xf32>, tensor<1x1x8x96xf32>) -> tensor<1x56x56x96xf32>
  return %0 : tensor<1x56x56x96xf32>
}
func.func private @pool(%x: tensor<1x56x56x96xf32>) -> tensor<1x28x28x96xf32> attributes {kernel.kind = "pool", kernel.root = "kernel.max_pool"} {
  %0 = "kernel.max_pool"(%x) {kernel_shape = array<i64: 2, 2>, strides = array<i64: 2, 2>, pads = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : (tensor<1x56x56x96xf32>) -> tensor<1x28x28x96xf32>
  return %0 : tensor<1x28x28x96xf32>
}
