"""Loops-level MLIR becomes machine code that computes what it says."""

import ctypes
import hashlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from mlir import ir

from onnxc.elf_symbols import undefined_symbols
from onnxc.emit_object import emit, lower_to_llvm
from onnxc.errors import CompilerBug
from onnxc.link import link_shared
from onnxc.targets import target_for

from .kernels import SCALE, VECTORS, unary

CPUS = ["x86-64-v2", "x86-64-v3", "native"]


def llvm_ir(text):
    with ir.Context() as context:
        context.enable_multithreading(False)
        return lower_to_llvm(ir.Module.parse(text))


def library(text, tmp_path, *names, mcpu="native"):
    code = emit(llvm_ir(text), target_for(mcpu))
    path = tmp_path / f"{hashlib.sha256(code).hexdigest()}.so"  # dlopen knows a library by its path
    link_shared([code], path, soname="k.so", export=names)
    return ctypes.CDLL(str(path))


def slots(*arrays):
    return (ctypes.c_int64 * len(arrays))(*(a if isinstance(a, int) else a.ctypes.data for a in arrays))


def pointers(*arrays):
    return [ctypes.c_void_p(a.ctypes.data) if isinstance(a, np.ndarray) else ctypes.c_int64(a) for a in arrays]


def test_kernel_runs(tmp_path):
    lib = library(SCALE, tmp_path, "scale")
    x, y = np.arange(10, dtype=np.float32), np.zeros(10, np.float32)
    lib.scale(slots(x, y), ctypes.c_int64(2), ctypes.c_int64(9))
    expected = np.where((np.arange(10) >= 2) & (np.arange(10) < 9), 2 * x, 0)
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("mcpu", CPUS)
def test_masked_vectors(tmp_path, mcpu):
    """create_mask, maskedload and maskedstore, transfers with tails, gather, shuffle, reduction, rank-0 memrefs."""
    lib = library(VECTORS, tmp_path, "masked", mcpu=mcpu)
    for size in (0, 1, 15, 16, 17, 40):
        x, y, z, total = (
            np.arange(48, dtype=np.float32),
            *(np.full(48, -1, np.float32) for _ in range(2)),
            np.zeros(1, np.float32),
        )
        lib.masked(*pointers(x, y, z, total, size))
        live = np.arange(48) < size
        np.testing.assert_array_equal(y, np.where(live, x * x + x, -1))
        np.testing.assert_array_equal(z, np.where(live, x[np.arange(48) // 16 * 16 + 15 - np.arange(48) % 16], -1))
        assert total[0] == x[:size].sum()


UNARY = {
    "math.sqrt": np.sqrt,
    "math.floor": np.floor,
    "math.ceil": np.ceil,
    "math.trunc": np.trunc,
    "math.roundeven": np.round,
    "math.absf": np.abs,
}


@pytest.mark.parametrize("mcpu", CPUS)
@pytest.mark.parametrize("width", [1, 8])
@pytest.mark.parametrize("op", UNARY)
def test_maths_without_libm(tmp_path, op, width, mcpu):
    lib = library(unary(op, width), tmp_path, "k", mcpu=mcpu)
    x = np.array([0.5, 1.5, -2.5, 3.49, -0.0, 7e8, np.inf, np.nan], np.float32)
    y = np.zeros(8, np.float32)
    lib.k(*pointers(x, y, 8))
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(y, UNARY[op](x))


@pytest.mark.parametrize("mcpu", CPUS)
def test_maximum_keeps_nan(tmp_path, mcpu):
    text = """
    func.func @k(%x: memref<f32> {llvm.noalias}, %y: memref<f32> {llvm.noalias}) {
      %c0 = arith.constant 0 : index
      %X = memref.reinterpret_cast %x to offset: [0], sizes: [8], strides: [1] : memref<f32> to memref<8xf32>
      %Y = memref.reinterpret_cast %y to offset: [0], sizes: [8], strides: [1] : memref<f32> to memref<8xf32>
      %v = vector.load %X[%c0] : memref<8xf32>, vector<8xf32>
      %z = arith.constant dense<0.0> : vector<8xf32>
      %m = arith.maximumf %v, %z : vector<8xf32>
      vector.store %m, %Y[%c0] : memref<8xf32>, vector<8xf32>
      return
    }"""
    x = np.array([-1, 2, np.nan, -np.inf, np.inf, -0.0, 3, np.nan], np.float32)
    y = np.zeros(8, np.float32)
    library(text, tmp_path, "k", mcpu=mcpu).k(*pointers(x, y))
    np.testing.assert_array_equal(y, np.maximum(x, 0))


@pytest.mark.parametrize("mcpu", ["x86-64-v3", "native"])
def test_half_and_bfloat(tmp_path, mcpu):
    import ml_dtypes

    for element, dtype in (("f16", np.float16), ("bf16", ml_dtypes.bfloat16)):
        text = f"""
        func.func @k(%x: memref<f32>, %h: memref<{element}>, %y: memref<f32>, %n: index) {{
          %c0 = arith.constant 0 : index
          %c1 = arith.constant 1 : index
          %X = memref.reinterpret_cast %x to offset: [0], sizes: [%n], strides: [1] : memref<f32> to memref<?xf32>
          %H = memref.reinterpret_cast %h to offset: [0], sizes: [%n], strides: [1]
             : memref<{element}> to memref<?x{element}>
          %Y = memref.reinterpret_cast %y to offset: [0], sizes: [%n], strides: [1] : memref<f32> to memref<?xf32>
          scf.for %i = %c0 to %n step %c1 {{
            %v = memref.load %X[%i] : memref<?xf32>
            %t = arith.truncf %v : f32 to {element}
            memref.store %t, %H[%i] : memref<?x{element}>
            %w = arith.extf %t : {element} to f32
            memref.store %w, %Y[%i] : memref<?xf32>
          }}
          return
        }}"""
        x = np.array([1 / 3, 65519, 65520, 1e-7, 3e-8, -0.0, np.inf, np.nan, 1e38, -5.96e-8] * 5, np.float32)
        h, y = np.zeros(50, dtype), np.zeros(50, np.float32)
        library(text, tmp_path, "k", mcpu=mcpu).k(*pointers(x, h, y, 50))
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(h.astype(np.float32), x.astype(dtype).astype(np.float32))
        np.testing.assert_array_equal(y, h.astype(np.float32))


def test_floor_and_ceil_division(tmp_path):
    text = """
    func.func @k(%a: i64, %b: i64, %out: !llvm.ptr) {
      %f = arith.floordivsi %a, %b : i64
      %c = arith.ceildivsi %a, %b : i64
      llvm.store %f, %out : i64, !llvm.ptr
      %next = llvm.getelementptr %out[1] : (!llvm.ptr) -> !llvm.ptr, i64
      llvm.store %c, %next : i64, !llvm.ptr
      return
    }"""
    lib = library(text, tmp_path, "k")
    for a in (-7, -6, 0, 6, 7):
        for b in (-3, 2, 3):
            out = np.zeros(2, np.int64)
            lib.k(*pointers(a, b, out))
            assert out.tolist() == [a // b, -(-a // b)]


def test_pointer_code_mixes_with_scf(tmp_path):
    """What main is made of: indirect calls, while loops, conditions, ctpop, on i64 and pointers."""
    text = """
    func.func @twice(%args: !llvm.ptr, %begin: i64, %end: i64) {
      %v = arith.addi %begin, %end : i64
      llvm.store %v, %args : i64, !llvm.ptr
      return
    }
    func.func @main(%args: !llvm.ptr, %n: i64) -> i64 {
      %c1 = arith.constant 1 : i64
      %c0 = arith.constant 0 : i64
      %bits = scf.while (%i = %n) : (i64) -> i64 {
        %more = arith.cmpi sgt, %i, %c1 : i64
        scf.condition(%more) %i : i64
      } do {
      ^bb0(%i: i64):
        func.call @twice(%args, %i, %i) : (!llvm.ptr, i64, i64) -> ()
        %v = llvm.load %args : !llvm.ptr -> i64
        %four = arith.constant 4 : i64
        %next = arith.divsi %v, %four : i64
        scf.yield %next : i64
      }
      %count = math.ctpop %n : i64
      %big = arith.cmpi sgt, %count, %c1 : i64
      %r = scf.if %big -> i64 {
        scf.yield %count : i64
      } else {
        scf.yield %bits : i64
      }
      return %r : i64
    }"""
    lib = library(text, tmp_path, "main")
    cell = np.zeros(1, np.int64)
    lib.main.restype = ctypes.c_int64
    assert lib.main(*pointers(cell, 64)) == 1
    assert lib.main(*pointers(cell, 0b10110)) == 3


def test_all_of_a_vector_register_is_used():
    for mcpu, register in (("x86-64-v4", "zmm"), ("x86-64-v3", "ymm"), ("x86-64-v2", "xmm")):
        assert f"%{register}" in emit(llvm_ir(SCALE), target_for(mcpu), "asm").decode()


def test_fma_stays_one_operation():
    text = """
    func.func @k(%a: vector<8xf32>, %b: vector<8xf32>, %c: vector<8xf32>) -> vector<8xf32> {
      %d = math.fma %a, %b, %c : vector<8xf32>
      return %d : vector<8xf32>
    }"""
    assert "vfmadd" in emit(llvm_ir(text), target_for("x86-64-v3"), "asm").decode()
    assert "fmla" in emit(llvm_ir(text), target_for(None, "aarch64"), "asm").decode()
    without = emit(llvm_ir(text), target_for("x86-64-v2"), "asm").decode()
    assert "mulps" in without and "addps" in without


@pytest.mark.parametrize("triple", ["aarch64", "riscv64"])
@pytest.mark.parametrize("text", [SCALE, VECTORS], ids=["scale", "vectors"])
def test_other_architectures_need_nothing(triple, text):
    code = emit(llvm_ir(text), target_for(None, triple))
    assert code[:4] == b"\x7fELF"
    assert not undefined_symbols(code)


def test_loops_do_not_become_calls():
    fill = SCALE.replace("%w = arith.mulf %v, %two : f32", "%w = arith.constant 0.0 : f32")
    assert not undefined_symbols(emit(llvm_ir(fill), target_for()))


def test_declared_functions_may_be_called_and_others_not():
    text = """
    func.func private @other(%x: i64) -> i64
    func.func @k(%x: i64) -> i64 {
      %y = func.call @other(%x) : (i64) -> i64
      return %y : i64
    }"""
    assert undefined_symbols(emit(llvm_ir(text), target_for())) == {"other"}
    with pytest.raises(CompilerBug, match="calls expf"):
        emit(llvm_ir(unary("math.exp", 1)), target_for())
    with pytest.raises(CompilerBug, match="fmodf"):
        emit(llvm_ir(unary("math.absf", 1).replace("math.absf %v", "arith.remf %v, %v")), target_for())


def test_what_does_not_lower_is_named():
    with pytest.raises(CompilerBug, match=r"math\.erf.*vector<8xf32>"):
        llvm_ir(unary("math.erf", 8))
    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        with pytest.raises(CompilerBug, match=r"kernel\.left"):
            lower_to_llvm(ir.Module.parse('func.func @f() { "kernel.left"() : () -> () return }'))


def test_bad_llvm_ir_is_a_bug():
    with pytest.raises(CompilerBug, match="not valid"):
        emit("define void @f() { ret i32 }", target_for())


PRINT = """
import hashlib
from onnxc.emit_object import emit
from onnxc.targets import target_for
from tests.backend.kernels import SCALE, VECTORS
from tests.backend.test_emit_object import llvm_ir
for text in (SCALE, VECTORS):
    print(hashlib.sha256(emit(llvm_ir(text), target_for("x86-64-v4"))).hexdigest())
"""


def test_same_bytes_under_any_hash_seed_and_folder(tmp_path):
    printed = set()
    for seed, folder in (("1", tmp_path), ("2", Path.cwd())):
        env = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join([str(Path.cwd()), *sys.path])}
        done = subprocess.run(
            [sys.executable, "-c", PRINT], env=env, cwd=folder, capture_output=True, text=True, check=True
        )
        printed.add(done.stdout)
    assert len(printed) == 1
