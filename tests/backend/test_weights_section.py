"""Weights reach libraries and objects unchanged, streamed, at their offsets."""

import ctypes
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
from onnxc.link import link_relocatable, link_shared
from onnxc.targets import target_for
from onnxc.weights_object import weights_object
from onnxc.weights_section import fill_section, mapped_file

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


SIZE, SECTION = 700104, ".onnxc.weights"
TRIPLES = ["x86_64", "aarch64", "riscv64"]


def link(tmp_path, wanted, target, linker=link_shared, **more):
    """The weights and a function that gives their address, linked."""
    objects = [weights_object(SIZE, "weights", SECTION, target), emit(llvm_ir(BASE), target)]
    out = tmp_path / "linked"
    linker(objects, out, export=["base"], finish=lambda file: fill_section(file, SECTION, iter(wanted)), **more)
    return out


@pytest.mark.parametrize("triple", TRIPLES)
def test_a_relocatable_object(tmp_path, triple):
    wanted = entries(tmp_path)
    elf = ELFFile.load_from_path(link(tmp_path, wanted, target_for(None, triple), link_relocatable))
    assert elf.get_machine_arch() == {"x86_64": "x64", "aarch64": "AArch64", "riscv64": "RISC-V"}[triple]
    section = elf.get_section_by_name(SECTION)
    assert section["sh_type"] == "SHT_PROGBITS" and section["sh_flags"] == 2
    assert section["sh_addralign"] == 64 and section["sh_offset"] % 64 == 0 and section["sh_size"] == SIZE
    check(section.data(), wanted)
    assert section.data()[15:64] == bytes(49)
    (symbol,) = elf.get_section_by_name(".symtab").get_symbol_by_name("weights")
    assert symbol["st_size"] == SIZE and symbol["st_info"]["bind"] == "STB_LOCAL"
    assert elf.get_section_by_name(".note.GNU-stack")["sh_flags"] == 0


@pytest.mark.parametrize("triple", TRIPLES)
def test_segments_of_a_library(tmp_path, triple):
    wanted = entries(tmp_path)
    out = link(tmp_path, wanted, target_for(None, triple), soname="w.so")
    elf = ELFFile.load_from_path(out)
    loads = [segment for segment in elf.iter_segments() if segment["p_type"] == "PT_LOAD"]
    end = 0
    for load in loads:  # what a loader maps: page by page, in order, nothing twice, all of it in the file
        assert load["p_offset"] % load["p_align"] == load["p_vaddr"] % load["p_align"]
        assert load["p_offset"] >= end
        end = load["p_offset"] + load["p_filesz"]
    assert end <= out.stat().st_size
    for section in elf.iter_sections():
        inside = [s for s in loads if s["p_vaddr"] <= section["sh_addr"] < s["p_vaddr"] + s["p_memsz"]]
        if section["sh_flags"] & 2 and section["sh_type"] != "SHT_NOBITS":
            assert section["sh_offset"] - inside[0]["p_offset"] == section["sh_addr"] - inside[0]["p_vaddr"]
    check(elf.get_section_by_name(SECTION).data(), wanted)
    dynamic = next(segment for segment in elf.iter_segments() if segment["p_type"] == "PT_DYNAMIC")
    assert out.stat().st_mode & 0o111  # as the linker made it
    assert dynamic["p_offset"] == elf.get_section_by_name(".dynamic")["sh_offset"]


def test_weights_in_a_library(tmp_path):
    wanted = entries(tmp_path)
    lib = ctypes.CDLL(str(link(tmp_path, wanted, target_for(), soname="w.so")))
    lib.base.restype = ctypes.c_void_p
    base = lib.base()
    assert base % 64 == 0
    check(ctypes.string_at(base, SIZE), wanted)
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
        link(tmp_path, [(np.ones(10), SIZE - 79)], target_for(), soname="w.so")


def test_a_section_is_filled_once(tmp_path):
    out = link(tmp_path, [], target_for(), soname="w.so")
    with pytest.raises(CompilerBug, match="has content"):
        fill_section(out, SECTION, [])


def test_the_copy_falls_back_where_files_cannot_be_joined(tmp_path, monkeypatch):
    def refuse(*_):
        raise OSError(18, "Invalid cross-device link")

    monkeypatch.setattr(os, "copy_file_range", refuse)
    wanted = entries(tmp_path)
    elf = ELFFile.load_from_path(link(tmp_path, wanted, target_for(), link_relocatable))
    check(elf.get_section_by_name(SECTION).data(), wanted)


STREAM = r"""
import re, sys
import numpy as np
from pathlib import Path
from onnxc.targets import target_for
from onnxc.weights_object import weights_object
from onnxc.weights_section import fill_section
entries = ((np.full(8 << 20, i, np.float32), i << 25) for i in range(12))
path = Path(sys.argv[1])
path.write_bytes(weights_object(12 << 25, "w", ".weights", target_for()))
fill_section(path, ".weights", entries)
print(int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) >> 10)
"""


def test_memory_does_not_grow_with_the_weights(tmp_path):
    done = subprocess.run([sys.executable, "-c", STREAM, tmp_path / "w.o"], capture_output=True, text=True, check=True)
    assert (tmp_path / "w.o").stat().st_size > 12 << 25
    assert int(done.stdout) < 300  # MB, of which 150 are imports and 64 two arrays, for 400 of weights
