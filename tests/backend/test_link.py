"""Libraries, objects and archives: what they export, that models combine, same bytes, whole or not at all."""

import ctypes
import io
import os
import subprocess
import sys
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile

from onnxc.elf_symbols import undefined_symbols
from onnxc.emit_object import emit
from onnxc.errors import CompilerBug, OnnxcError
from onnxc.link import archive, check_output, link_relocatable, link_shared, write_output
from onnxc.targets import target_for
from onnxc.zig import zig_binary

from .test_emit_object import llvm_ir

TARGET = target_for()


def objects(model, value, target=TARGET):
    """Two objects: `<model>_model` calls the hidden `kernel` of the other, which reads a constant."""
    main = f"""
    llvm.func hidden @kernel(i32) -> i32
    llvm.func @{model}_model(%x: i32) -> i32 {{
      %0 = llvm.call @kernel(%x) : (i32) -> i32
      llvm.return %0 : i32
    }}"""
    kernel = f"""
    llvm.mlir.global internal constant @table(dense<[1, {value}, 3, {value}]> : tensor<4xi32>) : !llvm.array<4 x i32>
    llvm.func hidden @kernel(%x: i32) -> i32 {{
      %0 = llvm.mlir.addressof @table : !llvm.ptr
      %1 = llvm.getelementptr %0[%x] : (!llvm.ptr, i32) -> !llvm.ptr, i32
      %2 = llvm.load %1 : !llvm.ptr -> i32
      llvm.return %2 : i32
    }}"""
    return [emit(llvm_ir(main), target), emit(llvm_ir(kernel), target)]


def exported(path):
    symbols = ELFFile(io.BytesIO(path.read_bytes())).get_section_by_name(".dynsym").iter_symbols()
    return {symbol.name for symbol in symbols if symbol.name and symbol["st_shndx"] != "SHN_UNDEF"}


def global_symbols(path):
    symbols = ELFFile(io.BytesIO(path.read_bytes())).get_section_by_name(".symtab").iter_symbols()
    return {symbol.name for symbol in symbols if symbol["st_info"]["bind"] == "STB_GLOBAL"}


def test_library_exports_one_symbol_and_runs(tmp_path):
    link_shared(objects("a", 42), tmp_path / "a.so", soname="a.so", export=["a_model"])
    assert exported(tmp_path / "a.so") == {"a_model"}
    assert ctypes.CDLL(str(tmp_path / "a.so")).a_model(1) == 42
    elf = ELFFile(io.BytesIO((tmp_path / "a.so").read_bytes()))
    dynamic = list(elf.get_section_by_name(".dynamic").iter_tags())
    assert not [tag for tag in dynamic if tag.entry.d_tag == "DT_NEEDED"]
    assert [tag.soname for tag in dynamic if tag.entry.d_tag == "DT_SONAME"] == ["a.so"]
    assert not [name for name in (s.name for s in elf.iter_sections()) if "note.gnu.build" in name]


def test_a_loaded_library_may_be_replaced(tmp_path):
    link_shared(objects("a", 42), tmp_path / "a.so", soname="a.so", export=["a_model"])
    first = ctypes.CDLL(str(tmp_path / "a.so"))
    link_shared(objects("a", 43), tmp_path / "a.so", soname="a.so", export=["a_model"])
    assert first.a_model(1) == 42
    assert os.listdir(tmp_path) == ["a.so"]


@pytest.mark.parametrize("triple", ["x86_64", "aarch64", "riscv64"])
def test_relocatable_object_has_one_global(tmp_path, triple):
    target = target_for(None, triple)
    link_relocatable(objects("a", 7, target), tmp_path / "a.o", export=["a_model"])
    assert global_symbols(tmp_path / "a.o") == {"a_model"}
    assert undefined_symbols((tmp_path / "a.o").read_bytes()) == set()
    assert os.listdir(tmp_path) == ["a.o"]


@pytest.mark.parametrize("suffix", [".o", ".a"])
def test_two_models_in_one_program(tmp_path, suffix):
    for model, value in (("a", 7), ("b", 8)):
        if suffix == ".o":
            link_relocatable(objects(model, value), tmp_path / f"{model}.o", export=[f"{model}_model"])
        else:
            archive(objects(model, value), tmp_path / f"{model}.a", member=f"{model}.o", export=[f"{model}_model"])
    program = """
    __attribute__((naked, noreturn)) void _start(void) { __asm__("and $-16, %rsp; call go"); }
    int a_model(int), b_model(int);
    void go(void) {
        long code = 10 * a_model(1) + b_model(3);
        __asm__ volatile("syscall" : : "a"(60L), "D"(code));
        for (;;) {}
    }"""
    (tmp_path / "p.c").write_text(program)
    compiled = [
        zig_binary(),
        "cc",
        "-target",
        "x86_64-linux-musl",
        "-g0",
        "-O2",
        "-fno-stack-protector",
        "-ffreestanding",
    ]
    env = os.environ | {"ZIG_GLOBAL_CACHE_DIR": str(tmp_path / "z"), "ZIG_LOCAL_CACHE_DIR": str(tmp_path / "z")}
    subprocess.run([*compiled, "-c", "p.c", "-o", "p.o"], cwd=tmp_path, env=env, check=True)
    libraries = [f"a{suffix}", f"b{suffix}"]
    subprocess.run([zig_binary(), "ld.lld", "-static", "p.o", *libraries, "-o", "p"], cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "p"], check=False).returncode == 78


MAKE = """
import sys
from pathlib import Path
from onnxc.link import archive, link_relocatable, link_shared
from tests.backend.test_link import objects
out = Path(sys.argv[1])
link_shared(objects("m", 5), out / "m.so", soname="m.so", export=["m_model"])
link_relocatable(objects("m", 5), out / "m.o", export=["m_model"])
archive(objects("m", 5), out / "m.a", member="m.o", export=["m_model"])
"""


def test_same_bytes_in_any_folder(tmp_path):
    made = []
    for name, seed in (("one", "1"), ("another/deeper", "2")):
        folder = tmp_path / name
        folder.mkdir(parents=True)
        env = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join([str(Path.cwd()), *sys.path])}
        subprocess.run([sys.executable, "-c", MAKE, folder], check=True, env=env, cwd=tmp_path)
        made.append({file: (folder / file).read_bytes() for file in ("m.so", "m.o", "m.a")})
    assert made[0] == made[1]
    for data in made[0].values():
        assert str(tmp_path).encode() not in data


def test_an_output_that_cannot_be_written(tmp_path):
    with pytest.raises(OnnxcError, match="cannot write the output: No such file") as caught:
        link_shared(objects("a", 1), tmp_path / "none" / "a.so", soname="a.so", export=["a_model"])
    assert caught.value.exit_code == 2
    (tmp_path / "a.so").mkdir()
    with pytest.raises(OnnxcError, match=r"a\.so: cannot write the output"):
        link_shared(objects("a", 1), tmp_path / "a.so", soname="a.so", export=["a_model"])
    assert os.listdir(tmp_path) == ["a.so"]


@pytest.mark.parametrize(
    ("end", "told"),
    [
        (
            "echo 'ld.lld: error: failed to write: No space left on device' >&2; exit 1",
            "No space left.*hint: free some",
        ),
        ("kill -BUS $$", "No space left on device .hint: free some"),
        ("kill -XFSZ $$", "File too large"),
    ],
)
def test_a_full_disk(tmp_path, monkeypatch, end, told):
    """The linker says so, or dies of what it has mapped."""
    (tmp_path / "lld").write_text(f"#!/bin/sh\n{end}\n")
    (tmp_path / "lld").chmod(0o755)
    monkeypatch.setattr("onnxc.link.zig_binary", lambda: str(tmp_path / "lld"))
    with pytest.raises(OnnxcError, match=told):
        link_shared([b""], tmp_path / "a.so", soname="a.so", export=[])
    assert os.listdir(tmp_path) == ["lld"]


def test_other_complaints_of_the_linker_are_bugs(tmp_path):
    with pytest.raises(CompilerBug, match=r"ld\.lld"):
        link_shared([b"no object"], tmp_path / "a.so", soname="a.so", export=[])
    assert os.listdir(tmp_path) == []


def test_write_output(tmp_path):
    write_output(tmp_path / "x.ll", b"one")
    write_output(tmp_path / "x.ll", b"two")
    assert (tmp_path / "x.ll").read_bytes() == b"two"
    assert os.listdir(tmp_path) == ["x.ll"]


def test_a_link_stays_one(tmp_path):
    """What it stands for is written, also in another folder, or where there is nothing yet."""
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there" / "file")
    for data in (b"new", b"again"):
        check_output(tmp_path / "link")
        write_output(tmp_path / "link", data)
        assert (tmp_path / "link").is_symlink() and (tmp_path / "there" / "file").read_bytes() == data
    assert os.listdir(tmp_path / "there") == ["file"]


def test_what_is_no_file_is_not_replaced(tmp_path):
    """A pipe, as a device of those whom root's programs could take away."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(OnnxcError, match="it is no regular file") as refused:
        check_output(pipe)
    with pytest.raises(OnnxcError, match="is no regular file"):
        write_output(pipe, b"data")
    assert refused.value.exit_code == 2 and pipe.is_fifo()
