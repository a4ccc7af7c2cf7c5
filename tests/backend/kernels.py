"""Loops-level modules that the tests of the back end compile."""

SCALE = """
func.func @scale(%args: !llvm.ptr, %begin: i64, %end: i64) {
  %c1 = arith.constant 1 : i64
  %two = arith.constant 2.0 : f32
  %x = llvm.load %args : !llvm.ptr -> !llvm.ptr
  %slot = llvm.getelementptr %args[1] : (!llvm.ptr) -> !llvm.ptr, i64
  %y = llvm.load %slot : !llvm.ptr -> !llvm.ptr
  scf.for %i = %begin to %end step %c1 : i64 {
    %from = llvm.getelementptr %x[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
    %to = llvm.getelementptr %y[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
    %v = llvm.load %from : !llvm.ptr -> f32
    %w = arith.mulf %v, %two : f32
    llvm.store %w, %to : f32, !llvm.ptr
  }
  return
}
"""

# y = x² + x and z = x reversed by blocks of 16, both masked; total = the sum of x.
VECTORS = """
func.func @masked(%x: memref<f32> {llvm.noalias}, %y: memref<f32> {llvm.noalias}, %z: memref<f32> {llvm.noalias},
                  %total: memref<f32> {llvm.noalias}, %n: index) {
  %c0 = arith.constant 0 : index
  %c16 = arith.constant 16 : index
  %c48 = arith.constant 48 : index
  %zero = arith.constant 0.0 : f32
  %zeros = arith.constant dense<0.0> : vector<16xf32>
  %X = memref.reinterpret_cast %x to offset: [0], sizes: [%n], strides: [1] : memref<f32> to memref<?xf32>
  %W = memref.reinterpret_cast %x to offset: [0], sizes: [%c48], strides: [1] : memref<f32> to memref<?xf32>
  %Y = memref.reinterpret_cast %y to offset: [0], sizes: [%n], strides: [1] : memref<f32> to memref<?xf32>
  %Z = memref.reinterpret_cast %z to offset: [0], sizes: [%n], strides: [1] : memref<f32> to memref<?xf32>
  %sum = scf.for %i = %c0 to %n step %c16 iter_args(%acc = %zero) -> (f32) {
    %left = arith.subi %n, %i : index
    %mask = vector.create_mask %left : vector<16xi1>
    %v = vector.maskedload %X[%i], %mask, %zeros : memref<?xf32>, vector<16xi1>, vector<16xf32> into vector<16xf32>
    %t = vector.transfer_read %X[%i], %zero {in_bounds = [false]} : memref<?xf32>, vector<16xf32>
    %w = math.fma %v, %t, %v : vector<16xf32>
    vector.transfer_write %w, %Y[%i] {in_bounds = [false]} : vector<16xf32>, memref<?xf32>
    %ids = arith.constant dense<[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]> : vector<16xi32>
    %all = arith.constant dense<true> : vector<16xi1>
    %g = vector.gather %W[%i] [%ids], %all, %zeros
       : memref<?xf32>, vector<16xi32>, vector<16xi1>, vector<16xf32> into vector<16xf32>
    %r = vector.shuffle %g, %g [15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0] : vector<16xf32>, vector<16xf32>
    vector.maskedstore %Z[%i], %mask, %r : memref<?xf32>, vector<16xi1>, vector<16xf32>
    %s = vector.reduction <add>, %v : vector<16xf32> into f32
    %next = arith.addf %acc, %s : f32
    scf.yield %next : f32
  }
  memref.store %sum, %total[] : memref<f32>
  return
}
"""


def unary(op: str, width: int) -> str:
    """y = op(x), `width` elements at a time."""
    value = "f32" if width == 1 else f"vector<{width}xf32>"
    load, store = ("memref.load", "memref.store") if width == 1 else ("vector.load", "vector.store")
    also = "" if width == 1 else f", {value}"
    return f"""
    func.func @k(%x: memref<f32>, %y: memref<f32>, %n: index) {{
      %c0 = arith.constant 0 : index
      %step = arith.constant {width} : index
      %X = memref.reinterpret_cast %x to offset: [0], sizes: [%n], strides: [1] : memref<f32> to memref<?xf32>
      %Y = memref.reinterpret_cast %y to offset: [0], sizes: [%n], strides: [1] : memref<f32> to memref<?xf32>
      scf.for %i = %c0 to %n step %step {{
        %v = {load} %X[%i] : memref<?xf32>{also}
        %w = {op} %v : {value}
        {store} %w, %Y[%i] : memref<?xf32>{also}
      }}
      return
    }}"""
