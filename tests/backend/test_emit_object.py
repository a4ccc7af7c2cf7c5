"""Loops-level MLIR becomes machine code that computes what it says."""

import ctypes

import numpy as np
import pytest
from mlir import ir
from onnxc.emit_object import emit, lower_to_llvm
from onnxc.errors import CompilerBug
from onnxc.link import link_shared
from onnxc.targets import target_for

from .kernels import SCALE


def llvm_ir(text):
    with ir.Context() as context:
        context.enable_multithreading(False)
        return lower_to_llvm(ir.Module.parse(text))


def library(text, tmp_path, *names, mcpu="native"):
    code = emit(llvm_ir(text), target_for(mcpu))
    link_shared([code], tmp_path / "k.so", soname="k.so", export=names)
    return ctypes.CDLL(str(tmp_path / "k.so"))


def slots(*arrays):
    return (ctypes.c_int64 * len(arrays))(*(a if isinstance(a, int) else a.ctypes.data for a in arrays))


def test_kernel_runs(tmp_path):
    lib = library(SCALE, tmp_path, "scale")
    x, y = np.arange(10, dtype=np.float32), np.zeros(10, np.float32)
    lib.scale(slots(x, y), ctypes.c_int64(2), ctypes.c_int64(9))
    expected = np.where((np.arange(10) >= 2) & (np.arange(10) < 9), 2 * x, 0)
    np.testing.assert_array_equal(y, expected)
