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
