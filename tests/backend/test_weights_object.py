"""Weights reach the library unchanged, streamed, at their offsets."""

import ctypes
import io
import mmap
import os
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest
from elftools.elf.elffile import ELFFile

from onnxc.emit_object import emit
from onnxc.errors import CompilerBug
from onnxc.link import link_shared
from onnxc.targets import target_for
from onnxc.weights_object import mapped_file, write_weights_object

from .test_emit_object import llvm_ir

BASE = """
llvm.mlir.global external hidden constant @weights() {addr_space = 0 : i32} : !llvm.array<0 x i8>
llvm.func @base() -> !llvm.ptr {
  %0 = llvm.mlir.addressof @weights : !llvm.ptr
  llvm.return %0 : !llvm.ptr
}
"""


def entries(tmp_path):
    rng = np.random.default_rng(1)
    on_disk = rng.standard_normal((100, 700), np.float32)
    (tmp_path / "model.bin").write_bytes(b"head" + on_disk.tobytes())
    mapped = np.memmap(tmp_path / "model.bin", np.float32, "r", 4, (100, 700))
    return [
        (rng.integers(0, 255, (3, 5), np.uint8), 0),
        (mapped, 64),
        (mapped[40:50], 280064),
        (mapped.T, 320000),
        (np.array([1.5, -2], ml_dtypes.bfloat16), 700032),
        (np.zeros((0, 4), np.float32), 700096),
        (np.float64(3.25) * np.ones(()), 700096),
    ]


def check(data, wanted):
    for array, offset in wanted:
        assert data[offset : offset + array.nbytes] == np.ascontiguousarray(array).tobytes()


@pytest.mark.parametrize("triple", ["x86_64", "aarch64", "riscv64"])
def test_object_is_well_formed(tmp_path, triple):
    wanted = entries(tmp_path)
    write_weights_object(tmp_path / "w.o", iter(wanted), 700104, "weights", target_for(None, triple))
    elf = ELFFile(io.BytesIO((tmp_path / "w.o").read_bytes()))
    assert elf.get_machine_arch() == {"x86_64": "x64", "aarch64": "AArch64", "riscv64": "RISC-V"}[triple]
    section = elf.get_section_by_name(".rodata.weights")
    assert section["sh_addralign"] == 64 and section["sh_offset"] % 64 == 0 and section["sh_flags"] == 2
    check(section.data(), wanted)
    assert section.data()[15:64] == bytes(49)
    (symbol,) = elf.get_section_by_name(".symtab").get_symbol_by_name("weights")
    assert symbol["st_size"] == 700104
    assert symbol["st_other"]["visibility"] == "STV_HIDDEN"
    assert elf.get_section_by_name(".note.GNU-stack")["sh_flags"] == 0


def test_weights_in_a_library(tmp_path):
    target = target_for()
    wanted = entries(tmp_path)
    write_weights_object(tmp_path / "w.o", iter(wanted), 700104, "weights", target)
    code = emit(llvm_ir(BASE), target)
    link_shared([tmp_path / "w.o", code], tmp_path / "w.so", soname="w.so", export=["base"])
    lib = ctypes.CDLL(str(tmp_path / "w.so"))
    lib.base.restype = ctypes.c_void_p
    base = lib.base()
    assert base % 64 == 0
    check(ctypes.string_at(base, 700104), wanted)
    assert not hasattr(lib, "weights")


def test_what_is_mapped(tmp_path):
    _, (mapped, _), (rows, _), (transposed, _), *_ = entries(tmp_path)
    assert mapped_file(mapped) == (tmp_path / "model.bin", 4)
    assert mapped_file(rows) == (tmp_path / "model.bin", 4 + 40 * 2800)
    assert mapped_file(rows.view(np.uint8).reshape(-1)[3:]) == (tmp_path / "model.bin", 4 + 40 * 2800 + 3)
    assert mapped_file(transposed) is None
    assert mapped_file(np.ones(3)) is None
    with (tmp_path / "model.bin").open("rb") as file:
        plain = np.frombuffer(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), np.uint8)
    assert mapped_file(plain[5:]) == (tmp_path / "model.bin", 5)
    writable = np.memmap(tmp_path / "model.bin", np.uint8, "c")
    assert mapped_file(writable) is None


def test_an_array_outside_is_a_bug(tmp_path):
    with pytest.raises(CompilerBug, match="do not fit"):
        write_weights_object(tmp_path / "w.o", [(np.ones(10), 0)], 79, "w", target_for())


def test_the_copy_falls_back_where_files_cannot_be_joined(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "copy_file_range", refuse)
    wanted = entries(tmp_path)
    write_weights_object(tmp_path / "w.o", iter(wanted), 700104, "weights", target_for())
    check((tmp_path / "w.o").read_bytes()[64:], wanted)


STREAM = r"""
import re, sys
import numpy as np
from pathlib import Path
from onnxc.targets import target_for
from onnxc.weights_object import write_weights_object
entries = ((np.full(8 << 20, i, np.float32), i << 25) for i in range(12))
write_weights_object(Path(sys.argv[1]), entries, 12 << 25, "w", target_for())
print(int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) >> 10)
"""


def test_memory_does_not_grow_with_the_weights(tmp_path):
    done = subprocess.run([sys.executable, "-c", STREAM, tmp_path / "w.o"], capture_output=True, text=True, check=True)
    assert (tmp_path / "w.o").stat().st_size > 12 << 25
    assert int(done.stdout) < 300  # MB, of which 150 are imports and 64 two arrays, for 400 of weights
