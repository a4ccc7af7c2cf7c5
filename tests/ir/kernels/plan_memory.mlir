// RUN: onnxc-opt %s plan_memory | filecheck %s

// In a chain, a tensor's bytes are free from its last use on; the last result is written to the output.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    workspace = "128"
// CHECK:         callee = @k, places = ["workspace 0"]
// CHECK:         callee = @k, places = ["workspace 64"]
// CHECK:         callee = @k, places = ["workspace 0"]
// CHECK:         callee = @k, places = ["output 0"]
func.func @main(%x: tensor<16xf32>) -> tensor<16xf32> {
  %0 = "kernel.call"(%x) {callee = @k} : (tensor<16xf32>) -> tensor<16xf32>
  %1 = "kernel.call"(%0) {callee = @k} : (tensor<16xf32>) -> tensor<16xf32>
  %2 = "kernel.call"(%1) {callee = @k} : (tensor<16xf32>) -> tensor<16xf32>
  %3 = "kernel.call"(%2) {callee = @k} : (tensor<16xf32>) -> tensor<16xf32>
  return %3 : tensor<16xf32>
}

// -----

// A view is where its source is, so the source lives on; 3 floats take 64 bytes.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    workspace = "128"
// CHECK:         callee = @k, places = ["workspace 0"]
// CHECK:         "kernel.view"
// CHECK:         callee = @k, places = ["workspace 64"]
// CHECK:         callee = @add, places = ["output 0"]
func.func @main(%x: tensor<3xf32>) -> tensor<3x1xf32> {
  %0 = "kernel.call"(%x) {callee = @k} : (tensor<3xf32>) -> tensor<3xf32>
  %1 = "kernel.view"(%0) : (tensor<3xf32>) -> tensor<3x1xf32>
  %2 = "kernel.call"(%x) {callee = @k} : (tensor<3xf32>) -> tensor<3x1xf32>
  %3 = "kernel.call"(%1, %2) {callee = @add} : (tensor<3x1xf32>, tensor<3x1xf32>) -> tensor<3x1xf32>
  return %3 : tensor<3x1xf32>
}

// -----

// An output that is read later is written in place; one that is returned twice, and an input, are copied at the end.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    workspace = "64"
// CHECK:         callee = @a, places = ["output 0"]
// CHECK:         callee = @b, places = ["workspace 0"]
func.func @main(%x: tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>) {
  %0 = "kernel.call"(%x) {callee = @a} : (tensor<16xf32>) -> tensor<16xf32>
  %1 = "kernel.call"(%0) {callee = @b} : (tensor<16xf32>) -> tensor<16xf32>
  return %0, %1, %x, %1 : tensor<16xf32>, tensor<16xf32>, tensor<16xf32>, tensor<16xf32>
}

// -----

// A reshape that is wrong for some sizes is found out only after the call: the caller's buffer has the size of the
// result, so the call must not write there. Nor where the shape of the result is known only in the course of the run.
// CHECK-LABEL: func.func @main
// CHECK:         callee = @a, places = ["workspace {{.*}}"]
// CHECK:         callee = @b, places = ["workspace {{.*}}"]
func.func @main(%x: tensor<?xf32, ["N"]>, %s: tensor<1xi64>) -> (tensor<2x?xf32, [2, "N//2"]>, tensor<?xf32, ["s0"]>) {
  "kernel.bind_dims"(%s) {symbols = ["s0"]} : (tensor<1xi64>) -> ()
  %0 = "kernel.call"(%x) {callee = @a} : (tensor<?xf32, ["N"]>) -> tensor<?xf32, ["N"]>
  %1 = "kernel.view"(%0) : (tensor<?xf32, ["N"]>) -> tensor<2x?xf32, [2, "N//2"]>
  %2 = "kernel.call"(%x) {callee = @b} : (tensor<?xf32, ["N"]>) -> tensor<?xf32, ["N"]>
  %3 = "kernel.view"(%2) : (tensor<?xf32, ["N"]>) -> tensor<?xf32, ["s0"]>
  return %1, %3 : tensor<2x?xf32, [2, "N//2"]>, tensor<?xf32, ["s0"]>
}

// -----

// Sizes that are dims share a slot where one is provably no smaller; a size that the run computes lies in the arena.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    workspace = "512*N"
// CHECK:         callee = @a, places = ["workspace 0"]
// CHECK:         callee = @b, places = ["workspace 256*N"]
// CHECK:         callee = @c, places = ["workspace 0"]
// CHECK:         callee = @d, places = ["arena"]
// CHECK:         callee = @e, places = ["output 0"]
func.func @main(%x: tensor<?x16xf32, ["N", 16]>, %s: tensor<1xi64>) -> tensor<f32> {
  "kernel.bind_dims"(%s) {symbols = ["s0"]} : (tensor<1xi64>) -> ()
  %0 = "kernel.call"(%x) {callee = @a} : (tensor<?x16xf32, ["N", 16]>) -> tensor<?x64xf32, ["N", 64]>
  %1 = "kernel.call"(%0) {callee = @b} : (tensor<?x64xf32, ["N", 64]>) -> tensor<?x64xf32, ["N", 64]>
  %2 = "kernel.call"(%1) {callee = @c} : (tensor<?x64xf32, ["N", 64]>) -> tensor<?x16xf32, ["N", 16]>
  %3 = "kernel.call"(%2) {callee = @d} : (tensor<?x16xf32, ["N", 16]>) -> tensor<?xf32, ["s0"]>
  %4 = "kernel.call"(%3) {callee = @e} : (tensor<?xf32, ["s0"]>) -> tensor<f32>
  return %4 : tensor<f32>
}

// -----

// A dim that may become negative counts as 0: the slots behind must not move into the ones before.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    workspace = "64*((max(4*N-20,0)+63)//64)"
func.func @main(%x: tensor<?xf32, ["N"]>) -> tensor<f32> {
  %0 = "kernel.call"(%x) {callee = @a} : (tensor<?xf32, ["N"]>) -> tensor<?xf32, ["N-5"]>
  %1 = "kernel.call"(%0) {callee = @b} : (tensor<?xf32, ["N-5"]>) -> tensor<f32>
  return %1 : tensor<f32>
}

// -----

// An If's result lies where the branch taken put it: both live until it is read. Nothing in a branch is an output.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    workspace = "192"
// CHECK:         callee = @then, places = ["workspace [[THEN:.*]]"]
// CHECK:         callee = @else, places = ["workspace [[ELSE:.*]]"]
// CHECK:         callee = @after, places = ["workspace {{.*}}"]
// CHECK:         callee = @add, places = ["output 0"]
func.func @main(%c: tensor<i1>, %x: tensor<16xf32>) -> (tensor<16xf32>, tensor<16xf32>) {
  %0 = "onnx.If"(%c) ({
    %1 = "kernel.call"(%x) {callee = @then} : (tensor<16xf32>) -> tensor<16xf32>
    "onnx.Yield"(%1) : (tensor<16xf32>) -> ()
  }, {
    %1 = "kernel.call"(%x) {callee = @else} : (tensor<16xf32>) -> tensor<16xf32>
    "onnx.Yield"(%1) : (tensor<16xf32>) -> ()
  }) : (tensor<i1>) -> tensor<16xf32>
  %2 = "kernel.call"(%x) {callee = @after} : (tensor<16xf32>) -> tensor<16xf32>
  %3 = "kernel.call"(%0, %2) {callee = @add} : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  return %3, %0 : tensor<16xf32>, tensor<16xf32>
}

// -----

// What a loop reads lives until its end. Its carried result may be the initial tensor (no trip, or passed on unchanged),
// which therefore lives as long as the result is read: @after gets other bytes.
// CHECK-LABEL: func.func @main
// CHECK-SAME:    workspace = "256"
// CHECK:         callee = @initial, places = ["workspace [[INITIAL:[0-9]+]]"]
// CHECK:         callee = @captured, places = ["workspace [[CAPTURED:[0-9]+]]"]
// CHECK:         callee = @body, places = ["workspace 128"]
// CHECK:         callee = @condition, places = ["workspace 192"]
// CHECK:         callee = @after, places = ["workspace [[CAPTURED]]"]
func.func @main(%n: tensor<i64>, %c: tensor<i1>, %x: tensor<16xf32>) -> tensor<16xf32> {
  %0 = "kernel.call"(%x) {callee = @initial} : (tensor<16xf32>) -> tensor<16xf32>
  %1 = "kernel.call"(%x) {callee = @captured} : (tensor<16xf32>) -> tensor<16xf32>
  %2 = "onnx.Loop"(%n, %c, %0) ({
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %state: tensor<16xf32>):
    %5 = "kernel.call"(%state, %1) {callee = @body} : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
    %6 = "kernel.call"(%go) {callee = @condition} : (tensor<i1>) -> tensor<i1>
    "onnx.Yield"(%6, %5) : (tensor<i1>, tensor<16xf32>) -> ()
  }) : (tensor<i64>, tensor<i1>, tensor<16xf32>) -> tensor<16xf32>
  %3 = "kernel.call"(%x) {callee = @after} : (tensor<16xf32>) -> tensor<16xf32>
  %4 = "kernel.call"(%2, %3) {callee = @add} : (tensor<16xf32>, tensor<16xf32>) -> tensor<16xf32>
  return %4 : tensor<16xf32>
}
