"""Wrong files, machines, interfaces and weights: each a one-paragraph error that names the thing."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import struct
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnxc import runtime
from onnxc.cache import ObjectCache
from onnxc.manifest import Weights, weights_trailer
from onnxc.runtime import InferenceSession, abi, elf
from onnxc.stub_object import compile_stub
from onnxc.weights_file import write_weights_file
from tests.runtime import handmade
from tests.runtime.handmade import Workshop

X = np.arange(12, dtype=np.float32).reshape(3, 4)
W = np.array([1, 10, 100, 1000], np.float32)


def patched(path: Path, out: Path, offset: int, data: bytes) -> Path:
    whole = bytearray(path.read_bytes())
    whole[offset : offset + len(data)] = data
    out.write_bytes(whole)
    return out


def test_wrong_files(add: Path, workshop: Workshop, tmp_path: Path) -> None:
    whole = add.read_bytes()
    note = whole.index(b"onnxc\0") + 8
    files = {
        "missing.so": (None, "cannot read .*missing.so: No such file"),
        "empty.so": (b"", "the file is empty"),
        "text.so": (b"hello", "no ELF shared library"),
        "model.onnx": (b"\x08\x0a", "compile it first"),
        "archive.a": (b"!<arch>\n", "static library"),
        "short.so": (whole[:3000], "is damaged"),
        "header.so": (whole[:40], "is damaged|not a compiled"),
    }
    for name, (data, message) in files.items():
        if data is not None:
            (tmp_path / name).write_bytes(data)
        with pytest.raises(runtime.LoadError, match=message) as caught:
            InferenceSession(tmp_path / name)
        assert caught.value.exit_code == 2 and "\n" not in str(caught.value)
    with pytest.raises(runtime.LoadError, match=r"Is a directory"):
        InferenceSession(tmp_path)
    with pytest.raises(runtime.LoadError, match="was compiled for aarch64, this machine is x86_64"):
        InferenceSession(patched(add, tmp_path / "arm.so", 18, struct.pack("<H", 183)))
    with pytest.raises(runtime.LoadError, match="32-bit or big-endian"):
        InferenceSession(patched(add, tmp_path / "small.so", 4, b"\x01"))
    with pytest.raises(runtime.LoadError, match="version 9 of the model interface"):
        InferenceSession(patched(add, tmp_path / "new.so", note, struct.pack("<I", 9)))
    with pytest.raises(runtime.LoadError, match="an object file"):
        InferenceSession(workshop.relocatable(handmade.add("loose")))


def test_library_of_something_else(workshop: Workshop) -> None:
    source = workshop.folder / "other.c"
    source.write_text("int my_model(void) { return 1; }")
    workshop.zig(["cc", "-c", "-g0", "-O2", "-fPIC", "-target", "x86_64-linux-gnu", source, "-o", "other.o"])
    workshop.zig(["ld.lld", "-shared", "-o", "other.so", "other.o"])
    with pytest.raises(runtime.LoadError, match="a shared library, but no compiled model"):
        InferenceSession(workshop.folder / "other.so")


def test_every_truncation_is_an_error(add: Path, tmp_path: Path) -> None:
    whole = add.read_bytes()
    path = tmp_path / "cut.so"
    for size in range(0, len(whole), 997):
        path.write_bytes(whole[:size])
        with pytest.raises(runtime.LoadError):
            InferenceSession(path)


def test_cpu_that_lacks_features(workshop: Workshop) -> None:
    features = ("sse3", "ssse3", "sse4.1", "not-detectable")
    manifest = handmade.add("picky", variants=(handmade.variant("add", features=features),))
    path = workshop.library(manifest)
    session = InferenceSession(path)
    names = session.library.feature_names
    assert session.library.variants[0].features == features[:3]
    message = "model 'picky' was compiled for x86-64, but this CPU lacks ssse3, sse4.1"
    with pytest.raises(runtime.CpuError, match=re.escape(message) + "$"):
        InferenceSession(path, isa_mask=1 << names.index("sse3"))


def test_detected_features_are_the_kernels_own(add: Path) -> None:
    library = InferenceSession(add).library
    mask = library.api.cpu_features()
    found = {name for bit, name in enumerate(library.feature_names) if mask >> bit & 1}
    flags = set(re.search("^flags.*", Path("/proc/cpuinfo").read_text(), re.MULTILINE)[0].split())
    names = {"avx2": "avx2", "fma": "fma", "avx512f": "avx512f", "avx512vnni": "avx512_vnni", "bmi2": "bmi2",
             "f16c": "f16c", "sse4.2": "sse4_2", "lzcnt": "abm", "gfni": "gfni", "avxvnni": "avx_vnni"}  # fmt: skip
    assert {ours for ours, theirs in names.items() if theirs in flags} == found & set(names)


def weights_object(workshop: Workshop) -> Path:
    source = workshop.folder / "weights.c"
    source.write_text('__attribute__((visibility("hidden"))) extern const float scale_w[4];\n'
                      "const float scale_w[4] = {1, 10, 100, 1000};")  # fmt: skip
    workshop.zig(["cc", "-c", "-g0", "-fPIC", "-target", "x86_64-linux-gnu", source, "-o", "weights.o"])
    return workshop.folder / "weights.o"


def test_weights_in_the_library(workshop: Workshop) -> None:
    scale = (handmade.variant("scale", prepare="add"),)
    path = workshop.library(
        handmade.add("scaled", variants=scale, weights=Weights(16, symbol="scale_w")), weights=weights_object(workshop)
    )
    np.testing.assert_array_equal(InferenceSession(path).run(None, {"x": X})[0], X * W + 100)


def test_weights_beside_the_library(workshop: Workshop, tmp_path: Path) -> None:
    written = tmp_path / "written"
    weights = write_weights_file(written, [(W[:1], 0), (W[3:], 12)], 16, "beside.weights")
    good = W[:1].tobytes() + bytes(8) + W[3:].tobytes() + weights_trailer(weights.digest)
    assert written.read_bytes() == good
    scale = W * [1, 0, 0, 1]
    manifest = handmade.add("beside", variants=(handmade.variant("scale", prepare="add"),), weights=weights)
    path = workshop.library(manifest)
    beside = path.with_name("beside.weights")
    for data, message in {
        None: f"cannot open {beside}, the weights of model 'beside': No such file",
        good[:-1]: f"{beside} has 95 bytes, but the weights of model 'beside' have 96",
        good[:-1] + b"!": "holds other weights than model 'beside' was compiled with",
    }.items():
        if data is not None:
            beside.write_bytes(data)
        with pytest.raises(runtime.LoadError, match=re.escape(message)):
            InferenceSession(path)
    written.rename(beside)
    here = os.getcwd()
    os.chdir(path.parent)
    try:
        session = InferenceSession(path.name)
    finally:
        os.chdir(here)
    beside.rename(tmp_path / "elsewhere")
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], X * scale + 100)
    other = InferenceSession(path, weights_path=tmp_path / "elsewhere")
    np.testing.assert_array_equal(other.run(None, {"x": X})[0], X * scale + 100)


def test_one_exported_symbol_and_only_libc_undefined(add: Path, workshop: Workshop) -> None:
    plain = workshop.library(handmade.add(), threads=False, file="plain")
    assert symbols(add)[0] == symbols(plain)[0] == {"add_model"}
    assert "pthread_create" in symbols(add)[1]
    assert symbols(plain)[1] == {"clock_gettime", "free", "malloc", "memcpy", "memmove", "memset", "strcmp", "strlen",
                                 "syscall", "vsnprintf"} & symbols(plain)[1]  # fmt: skip
    assert InferenceSession(plain, threads=8).threads == 1
    np.testing.assert_array_equal(InferenceSession(plain).run(None, {"x": X})[0], X + 1)


def symbols(path: Path) -> tuple[set[str], set[str]]:
    from elftools.elf.elffile import ELFFile

    with path.open("rb") as file:
        all_ = list(ELFFile(file).get_section_by_name(".dynsym").iter_symbols())[1:]
        defined = {s.name for s in all_ if s["st_shndx"] != "SHN_UNDEF"}
        return defined, {s.name for s in all_} - defined


def test_same_bytes_in_any_folder(tmp_path: Path) -> None:
    libraries = []
    for name in ("a", "b"):
        (tmp_path / name / "deeper").mkdir(parents=True)
        workshop = Workshop(tmp_path / name / "deeper")
        libraries.append(workshop.library(handmade.add()).read_bytes())
    assert libraries[0] == libraries[1]


def test_importing_takes_little() -> None:
    """Beside numpy nothing but the runtime itself and ctypes, and little to do in them: 12 ms after 90 of numpy."""
    code = """if True:
        import sys, numpy
        before, lines = set(sys.modules), 0
        def note(frame, event, argument):
            global lines
            lines += event == "line"
            return note if "<frozen" not in frame.f_code.co_filename else None  # importing as such
        sys.settrace(note)
        import onnxc.runtime
        sys.settrace(None)
        print(lines, *sorted(set(sys.modules) - before))
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    lines, *loaded = done.stdout.split()
    assert 500 < int(lines) < 2500
    assert "onnxc.runtime.session" in loaded and len(loaded) < 24
    others = [name for name in loaded if name != "onnxc" and not name.startswith("onnxc.runtime")]
    assert set(others) <= {"ctypes", "_ctypes", "ctypes._endian", "struct", "_struct"}


def test_bindings_match_the_header(workshop: Workshop) -> None:
    from onnxc.runtime.make_abi import bindings

    assert bindings() == (handmade.STUB / "abi.py").read_text()
    checks = []
    for name, layout in vars(abi).items():
        if name.startswith("struct_") and hasattr(layout, "_fields_"):
            places = [(f"sizeof({name[7:]})", ctypes.sizeof(layout))]
            places += [(f"offsetof({name[7:]}, {f[0]})", getattr(layout, f[0]).offset) for f in layout._fields_]
            checks += [f'_Static_assert({c} == {ours}, "{c}");' for c, ours in places]
    assert len(checks) > 80
    source = workshop.folder / "layout.c"
    source.write_text('#include "onnxc.h"\n' + "\n".join(checks))
    workshop.zig(["cc", "-c", "-target", "x86_64-linux-gnu", "-iquote", handmade.STUB, source, "-o", "layout.o"])


@pytest.mark.parametrize("language", ["c11", "c++17"])
def test_header_is_clean(workshop: Workshop, language: str) -> None:
    source = workshop.folder / f"clean.{'c' if language == 'c11' else 'cpp'}"
    source.write_text('#include "onnxc.h"\nint main(void) { return 0; }\n')
    flags = ["-c", f"-std={language}", *handmade.WARNINGS, "-target", "x86_64-linux-gnu", "-iquote", handmade.STUB]
    workshop.zig(["c++" if "+" in language else "cc", *flags, source, "-o", "clean.o"])
    assert len((handmade.STUB / "onnxc.h").read_text().splitlines()) < 200


def test_weights_must_fit(tmp_path: Path) -> None:
    for entries, message in [([(W, 0), (W, 8)], "overlap at offset 8"), ([(W, 4)], "take 20 bytes, not 16")]:
        with pytest.raises(ValueError, match=message):
            write_weights_file(tmp_path / "w", entries, 16, "w")


def places_of_headers(library: bytes) -> list[int]:
    """The ELF header's and the section headers'."""
    return [*range(64), *range(len(library) - 64 * 20, len(library))]


def test_a_damaged_byte_is_an_error(add: Path, tmp_path: Path) -> None:
    """Or changes nothing: any of the headers', off by one, with a bit more, or of all ones."""
    whole, path = add.read_bytes(), tmp_path / "damaged.so"
    path.write_bytes(whole)
    with path.open("r+b", buffering=0) as file:
        for place in places_of_headers(whole):
            for value in {(whole[place] + 1) % 256, whole[place] ^ 8, 255}:
                os.pwrite(file.fileno(), bytes([value]), place)
                with contextlib.suppress(runtime.LoadError):
                    assert elf.model_symbols(str(path)) == ["add_model"], (place, value)
            os.pwrite(file.fileno(), whole[place : place + 1], place)


@given(changes=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), min_size=1, max_size=8))
@settings(max_examples=300)
def test_damaged_headers_are_errors(add: Path, tmp_path: Path, changes: list) -> None:
    whole = bytearray(add.read_bytes())
    places = places_of_headers(whole)
    for place, value in changes:
        whole[places[place % len(places)]] = value
    path = tmp_path / "damaged.so"
    path.write_bytes(whole)
    with contextlib.suppress(runtime.LoadError):
        assert elf.model_symbols(str(path)) == ["add_model"]


@pytest.mark.parametrize("triple", ["aarch64-unknown-linux-gnu", "riscv64-unknown-linux-gnu", "x86_64-linux-musl"])
def test_stub_compiles_for(triple: str) -> None:
    weights = Weights(16, file="beside.weights", digest="0" * 64)
    for threads, manifest in ((True, handmade.add(weights=weights)), (False, handmade.add())):
        assert compile_stub(manifest, triple, threads)[:4] == b"\x7fELF"


def test_stub_is_the_same_from_the_cache(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path)
    first = compile_stub(handmade.add(), handmade.TRIPLE, True, cache=cache)
    assert cache.size()[0] == 3  # the stub, the descriptor, both
    assert compile_stub(handmade.add(), handmade.TRIPLE, True, cache=cache) == first
    assert compile_stub(handmade.add(), handmade.TRIPLE, True) == first
    assert compile_stub(handmade.add(), handmade.TRIPLE, False, cache=cache) != first
