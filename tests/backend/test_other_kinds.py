"""Code in other forms than an object: listings, LLVM's IR and bitcode, of one module or several."""

import ctypes

import numpy as np
import pytest

from onnxc.emit_object import emit, join
from onnxc.link import link_shared
from onnxc.targets import target_for

from .kernels import SCALE
from .test_emit_object import llvm_ir, slots


@pytest.mark.parametrize("kind", ["asm", "ll", "bc"])
def test_other_kinds(kind):
    made = emit(llvm_ir(SCALE), target_for(), kind)
    assert {"asm": b".globl\tscale", "ll": b"define", "bc": b"BC\xc0\xde"}[kind] in made


def test_joined_listings_are_whole(tmp_path):
    """Private names and labels of the parts do not clash: the listing compiles to what the parts would."""
    target = target_for()
    table = """
    llvm.mlir.global private constant @table(dense<[{0}, {0}]> : tensor<2xi64>) : !llvm.array<2 x i64>
    llvm.func @f{0}(%i: i64) -> i64 {{
      %0 = llvm.mlir.addressof @table : !llvm.ptr
      %1 = llvm.getelementptr %0[%i] : (!llvm.ptr, i64) -> !llvm.ptr, i64
      %2 = llvm.load %1 : !llvm.ptr -> i64
      llvm.return %2 : i64
    }}"""
    parts = [emit(llvm_ir(table.format(n)), target, "bc") for n in (5, 6)] + [emit(llvm_ir(SCALE), target, "bc")]
    assert b"scale:" in join(parts, target, "asm")
    code = emit(join(parts, target, "ll").decode(), target)
    link_shared([code], tmp_path / "j.so", soname="j.so", export=["f5", "f6", "scale"])
    lib = ctypes.CDLL(str(tmp_path / "j.so"))
    assert [lib.f5(1), lib.f6(0)] == [5, 6]
    lib.scale(slots(x := np.ones(4, np.float32), y := np.zeros(4, np.float32)), ctypes.c_int64(0), ctypes.c_int64(4))
    np.testing.assert_array_equal(y, 2 * x)
