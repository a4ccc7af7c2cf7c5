// RUN: onnxc-opt %s emit_main | filecheck %s

// `prepare` gives the output's dims and the workspace's bytes from the input's dims. `run` takes pointers; the result is
// written to the caller's buffer; the kernel gets pointers and its symbols in 8-byte slots, and may run in threads.
// CHECK-LABEL: func.func @model_prepare(%arg0: !llvm.ptr, %arg1: !llvm.ptr, %arg2: !llvm.ptr) -> i32
// CHECK:         %[[N:.*]] = llvm.load %arg0
// CHECK:         llvm.store {{.*}}, %arg1
// CHECK:         llvm.store {{.*}}, %arg2
// CHECK:         return
// CHECK-LABEL: func.func @model_run(%arg0: !llvm.ptr, %arg1: !llvm.ptr, %arg2: !llvm.ptr, %arg3: !llvm.ptr, %arg4: !llvm.ptr) -> i32
// CHECK:         %[[SLOTS:.*]] = llvm.alloca {{.*}} x !llvm.array<3 x i64>
// CHECK:         %[[X:.*]] = llvm.load %arg1
// CHECK:         %[[Y:.*]] = llvm.load %arg3
// CHECK:         llvm.store %[[X]], %[[SLOTS]]
// CHECK:         llvm.store %[[Y]],
// CHECK:         %[[K:.*]] = constant @k
// CHECK:         call @onnxc_shim_parallel(%arg0, %[[K]], %[[SLOTS]],
// CHECK-NOT:     tensor<
// CHECK:       func.func private @k(!llvm.ptr, i64, i64)
func.func @main(%x: tensor<?xf32, ["N"]>) -> tensor<?xf32, ["N"]> attributes {input_names = ["x"], output_names = ["y"], workspace = "0"} {
  %0 = "kernel.call"(%x) {callee = @k, dims = {d0 = "N"}, nodes = ["relu"], places = ["output 0"]} : (tensor<?xf32, ["N"]>) -> tensor<?xf32, ["N"]>
  return %0 : tensor<?xf32, ["N"]>
}
func.func private @k(%x: tensor<?xf32, ["d0"]>) -> tensor<?xf32, ["d0"]> attributes {kernel.kind = "map", kernel.root = "onnx.Relu", kernel.extent = "d0", kernel.picoseconds = "200"} {
  %0 = "onnx.Relu"(%x) : (tensor<?xf32, ["d0"]>) -> tensor<?xf32, ["d0"]>
  return %0 : tensor<?xf32, ["d0"]>
}

// -----

// A kernel too short for threads is called directly. A place in the workspace is an offset from the last argument; the
// output that is not written in place is copied, to both buffers; an input that is returned is copied too.
// CHECK-LABEL: func.func @model_run
// CHECK:         %[[A:.*]] = llvm.getelementptr %arg4[128]
// CHECK:         call @k({{.*}})
// CHECK-NOT:     onnxc_shim_parallel
// CHECK:         "llvm.intr.memcpy"({{.*}}, %[[A]],
// CHECK:         "llvm.intr.memcpy"({{.*}}, %[[A]],
// CHECK:         "llvm.intr.memcpy"
// CHECK-NOT:     "llvm.intr.memcpy"
// CHECK:         return
func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) attributes {input_names = ["x"], output_names = ["a", "b", "c"], workspace = "192"} {
  %0 = "kernel.call"(%x) {callee = @k, dims = {}, nodes = ["relu"], places = ["workspace 128"]} : (tensor<4xf32>) -> tensor<4xf32>
  return %0, %0, %x : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}
func.func private @k(%x: tensor<4xf32>) -> tensor<4xf32> attributes {kernel.kind = "map", kernel.root = "onnx.Relu", kernel.extent = "4", kernel.picoseconds = "200"} {
  %0 = "onnx.Relu"(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// A size that the run computes: bound from memory, asked of the arena (with checks of sign, size and success), and an
// output for which the environment is asked when its dims are known. `prepare` says -1 for such a dim.
// CHECK-LABEL: func.func @model_prepare
// CHECK:         %[[UNKNOWN:.*]] = arith.constant -1 : i64
// CHECK:         llvm.store %[[UNKNOWN]], %arg1
// CHECK-LABEL: func.func @model_run
// CHECK:         %[[S:.*]] = arith.index_cast {{.*}} : i64 to index
// CHECK:         arith.cmpi slt, %[[S]],
// CHECK:         cf.cond_br
// CHECK:         call @onnxc_shim_alloc
// CHECK:         llvm.icmp "eq"
// CHECK:         cf.cond_br
// CHECK:         call @onnxc_shim_output
func.func @main(%x: tensor<4xf32>, %s: tensor<1xi64>) -> tensor<?xf32, ["s0"]> attributes {input_names = ["x", "s"], output_names = ["y"], workspace = "0"} {
  "kernel.bind_dims"(%s) {symbols = ["s0"]} : (tensor<1xi64>) -> ()
  %0 = "kernel.call"(%x) {callee = @k, dims = {d0 = "s0"}, nodes = ["expand"], places = ["arena"]} : (tensor<4xf32>) -> tensor<?xf32, ["s0"]>
  return %0 : tensor<?xf32, ["s0"]>
}
func.func private @k(%x: tensor<4xf32>) -> tensor<?xf32, ["d0"]> attributes {kernel.kind = "map", kernel.root = "onnx.Slice", kernel.extent = "d0", kernel.picoseconds = "200"} {
  %0 = "onnx.Slice"(%x) {operand_values = {"1" = [0], "2" = ["d0"]}} : (tensor<4xf32>) -> tensor<?xf32, ["d0"]>
  return %0 : tensor<?xf32, ["d0"]>
}

// -----

// A kernel that checks its data gets the status cell (offset 48 of the environment), which is read after the call.
// CHECK-LABEL: func.func @model_run
// CHECK:         llvm.getelementptr %arg0[48]
// CHECK:         call @k
// CHECK:         %[[STATUS:.*]] = llvm.load {{.*}} -> i32
// CHECK:         arith.cmpi ne, %[[STATUS]],
// CHECK:         cf.cond_br
func.func @main(%x: tensor<4xf32>, %i: tensor<2xi64>) -> tensor<2xf32> attributes {input_names = ["x", "i"], output_names = ["y"], workspace = "0"} {
  %0 = "kernel.call"(%x, %i) {callee = @k, dims = {}, nodes = ["gather"], places = ["output 0"]} : (tensor<4xf32>, tensor<2xi64>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
func.func private @k(%x: tensor<4xf32>, %i: tensor<2xi64>) -> tensor<2xf32> attributes {kernel.kind = "map", kernel.root = "onnx.Gather", kernel.extent = "2", kernel.picoseconds = "200"} {
  %0 = "onnx.Gather"(%x, %i) : (tensor<4xf32>, tensor<2xi64>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

// A reshape that may be wrong is checked where it stands.
// CHECK-LABEL: func.func @model_run
// CHECK:         arith.cmpi eq
// CHECK:         cf.cond_br
// CHECK:         "llvm.intr.memcpy"
func.func @main(%x: tensor<?xf32, ["N"]>) -> tensor<2x?xf32, [2, "N//2"]> attributes {input_names = ["x"], output_names = ["y"], workspace = "0"} {
  %0 = "kernel.view"(%x) : (tensor<?xf32, ["N"]>) -> tensor<2x?xf32, [2, "N//2"]>
  return %0 : tensor<2x?xf32, [2, "N//2"]>
}

// -----

// An If: two branches meet in a block that takes the pointer of the result.
// CHECK-LABEL: func.func @model_run
// CHECK:         %[[C:.*]] = llvm.load {{.*}} -> i8
// CHECK:         arith.cmpi ne, %[[C]],
// CHECK:         cf.cond_br {{.*}}, ^[[THEN:bb[0-9]+]], ^[[ELSE:bb[0-9]+]]
// CHECK:       ^[[THEN]]:
// CHECK:         cf.br ^[[JOIN:bb[0-9]+]](%{{.*}} : !llvm.ptr)
// CHECK:       ^[[ELSE]]:
// CHECK:         cf.br ^[[JOIN]](%{{.*}} : !llvm.ptr)
// CHECK:       ^[[JOIN]](%[[Y:.*]]: !llvm.ptr):
// CHECK:         "llvm.intr.memcpy"({{.*}}, %[[Y]],
func.func @main(%c: tensor<i1>, %x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> attributes {input_names = ["c", "x", "y"], output_names = ["z"], workspace = "0"} {
  %0 = "onnx.If"(%c) ({
    "onnx.Yield"(%x) : (tensor<4xf32>) -> ()
  }, {
    "onnx.Yield"(%y) : (tensor<4xf32>) -> ()
  }) : (tensor<i1>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// A Loop: a block that counts trips, compares with the limit, marks the arena, and at the end of a trip copies what it
// carries to a home that outlives it (allocated in a block of its own), then releases the arena unless a home had to grow.
// CHECK-LABEL: func.func @model_run
// CHECK:         cf.br ^[[HEAD:bb[0-9]+]](
// CHECK:       ^[[HEAD]](%[[I:.*]]: index, %[[GO:.*]]: i1, %[[STATE:.*]]: !llvm.ptr,
// CHECK:         arith.cmpi {{.*}} %[[I]],
// CHECK:         arith.andi %[[GO]],
// CHECK:         call @onnxc_shim_mark
// CHECK:         "llvm.intr.memcpy"
// CHECK:         call @onnxc_shim_alloc
// CHECK:         call @onnxc_shim_release
// CHECK:         cf.br ^[[HEAD]](
func.func @main(%n: tensor<i64>, %go: tensor<i1>, %x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> attributes {input_names = ["n", "c", "x", "y"], output_names = ["z"], workspace = "0"} {
  %0 = "onnx.Loop"(%n, %go, %x) ({
  ^bb0(%i: tensor<i64>, %c: tensor<i1>, %state: tensor<4xf32>):
    "onnx.Yield"(%c, %y) : (tensor<i1>, tensor<4xf32>) -> ()
  }) : (tensor<i64>, tensor<i1>, tensor<4xf32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
