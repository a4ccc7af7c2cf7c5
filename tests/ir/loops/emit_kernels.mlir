// RUN: onnxc-opt %s choose_schedules emit_kernels | filecheck %s

// A map: pointers are rank-0 memrefs without aliases, then come the symbols and the range of the extent. The broadcast
// column is read at the row, the broadcast row at the column; Add and Relu are computed between loads and the store.
// CHECK-LABEL: func.func @chain_body(
// CHECK-SAME:    %[[X:arg[0-9]]]: memref<f32> {llvm.noalias}, %[[B:arg[0-9]]]: memref<f32> {llvm.noalias}, %[[Y:arg[0-9]]]: memref<f32> {llvm.noalias}, %[[N:arg[0-9]]]: index, %[[BEGIN:arg[0-9]]]: index, %[[END:arg[0-9]]]: index)
// CHECK:         %[[COLUMN:.*]] = memref.reinterpret_cast %[[X]]
// CHECK:         %[[ROW:.*]] = memref.reinterpret_cast %[[B]]
// CHECK:         %[[OUT:.*]] = memref.reinterpret_cast %[[Y]]
// CHECK:         scf.for %[[I:.*]] = %[[BEGIN]] to %[[END]]
// CHECK:           scf.for %[[J:.*]] =
// CHECK:             memref.load %[[COLUMN]][%[[I]]]
// CHECK:             memref.load %[[ROW]][%[[J]]]
// CHECK:             arith.addf
// CHECK:             arith.select
// CHECK:             memref.store {{.*}}, %[[OUT]]
func.func private @chain(%x: tensor<?x1xf32, ["d0", 1]>, %b: tensor<4xf32>) -> tensor<?x4xf32, ["d0", 4]> attributes {kernel.kind = "map", kernel.root = "onnx.Relu"} {
  %0 = "onnx.Add"(%x, %b) : (tensor<?x1xf32, ["d0", 1]>, tensor<4xf32>) -> tensor<?x4xf32, ["d0", 4]>
  %1 = "onnx.Relu"(%0) : (tensor<?x4xf32, ["d0", 4]>) -> tensor<?x4xf32, ["d0", 4]>
  return %1 : tensor<?x4xf32, ["d0", 4]>
}

// A sum along rows: 64 virtual lanes, the last 36 of 100 elements under a mask, then a fixed tree of halves. The
// bits do not depend on the machine's vectors. The prologue (a square) is computed on the loaded vectors.
// CHECK-LABEL: func.func @sum_body(
// CHECK:         scf.for {{.*}} iter_args({{.*}}) -> (vector<64xf32>)
// CHECK:           %[[V:.*]] = vector.load {{.*}} vector<64xf32>
// CHECK:           arith.mulf %[[V]], %[[V]]
// CHECK:         scf.for {{.*}} iter_args({{.*}}) -> (vector<64xf32>)
// CHECK:           vector.create_mask
// CHECK:           vector.maskedload
// CHECK:           arith.select
// CHECK:         vector.extract_strided_slice {{.*}} vector<64xf32> to vector<32xf32>
// CHECK:         arith.addf {{.*}} : vector<32xf32>
// CHECK:         arith.addf {{.*}} : vector<1xf32>
// CHECK:         memref.store
func.func private @sum(%x: tensor<4x100xf32>) -> tensor<4xf32> attributes {kernel.kind = "reduce", kernel.root = "onnx.ReduceSum"} {
  %n = "onnx.None"() : () -> none
  %0 = "onnx.Mul"(%x, %x) : (tensor<4x100xf32>, tensor<4x100xf32>) -> tensor<4x100xf32>
  %1 = "onnx.ReduceSum"(%0, %n) {keepdims = 0 : i64, operand_values = {"1" = [1]}} : (tensor<4x100xf32>, none) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// A kernel that checks data has a status cell behind its buffers; a bad index sets it to 1 + the number of the check.
// CHECK-LABEL: func.func @gather_body(
// CHECK-SAME:    memref<i32>
// CHECK:         scf.if
// CHECK:           memref.atomic_rmw assign
func.func private @gather(%x: tensor<5xf32>, %i: tensor<3xi64>) -> tensor<3xf32> attributes {kernel.kind = "map", kernel.root = "onnx.Gather"} {
  %0 = "onnx.Gather"(%x, %i) : (tensor<5xf32>, tensor<3xi64>) -> tensor<3xf32>
  return %0 : tensor<3xf32>
}
