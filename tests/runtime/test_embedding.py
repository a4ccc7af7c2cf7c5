"""Models linked into a C program: every function of onnxc.h, every message, the typed entry."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from onnxc.c_header import write_header
from onnxc.cache import ObjectCache
from onnxc.link import link_relocatable
from onnxc.manifest import Manifest, Value
from onnxc.stub_object import compile_stub
from tests.runtime import handmade
from tests.runtime.handmade import FLOAT, HERE, INT64, TRIPLE, Workshop

EXPECTED = """\
create: 0
no input: 1 0 inputs are given, the model has 1: 'x'
no output: 1 0 outputs are given, the model has 1: 'y'
name: 1 'q' is given where input 'x' is expected
type: 1 input 'x' is tensor(double), not tensor(float)
no type: 1 input 'x' is tensor(unknown), not tensor(float)
rank: 1 input 'x' has 3 dims [3, 4, 1], not 2 (the model takes ['N', 4])
no dims: 1 input 'x' has no dims
dim: 1 input 'x': dim 1 is 5, not 4 (the model takes ['N', 4])
negative: 1 input 'x': dim 0 is negative (-3)
no data: 1 input 'x' has no data
few bytes: 1 input 'x' has 47 bytes, too few for its dims [3, 4]
small output: 1 output 'y' [3, 4] needs 48 bytes, its buffer has 47
output name: 1 'z' is given where output 'y' is expected
none served: 1
run: 0
1 12 48 2 generic
own memory: 0
own memory: 0
12 aligned 1
shapes: 0
3 x 4, 48 bytes, workspace 0
bad data: 6 node 'Gather_3' (Gather): index out of range
good data: 0
9, two models share a pool: 1
threads: 1 -2 threads are asked for; 0 means all that this process may use
unusable: 1 -2 threads are asked for; 0 means all that this process may use
allocations: 4
misaligned: 1 the given workspace is not aligned to 64 bytes
small workspace: 1 the given workspace has 40 bytes, these shapes need 48
typed: 0
2 22
"""


def manifests() -> list[Manifest]:
    errors = ("not this one", "node 'Gather_3' (Gather): index out of range")
    ab = tuple(Value(name, FLOAT, (3, 4)) for name in ("a", "b"))
    return [
        handmade.add(),
        handmade.simple("gather", INT64, ("N",), ("N",), FLOAT, errors=errors),
        Manifest("fixed", ab, (Value("y", FLOAT, (3, 4)),), (handmade.variant("sum", workspace=64),)),
    ]


def libc() -> str:
    """This process's own C library: a program can be linked against it without any other file."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        if line.endswith("/libc.so.6"):
            return line.split()[-1]
    pytest.skip("no glibc")


@pytest.fixture(scope="module")
def headers(workshop: Workshop) -> Path:
    folder = workshop.folder / "include"
    folder.mkdir(exist_ok=True)
    for manifest in manifests():
        (folder / f"{manifest.symbol}.h").write_text(write_header(manifest))
    return folder


def test_program_with_three_models(workshop: Workshop, headers: Path) -> None:
    flags = ["-g0", "-O2", "-std=c11", *handmade.WARNINGS, "-target", "x86_64-linux-gnu.2.17"]
    flags += ["-iquote", handmade.STUB, "-iquote", headers, "-fno-sanitize=all"]
    workshop.zig(["cc", "-c", *flags, HERE / "program.c", "-o", "program.o"])
    models = []
    for manifest in manifests():
        models.append(workshop.folder / f"model_{manifest.symbol}.o")
        stub = compile_stub(manifest, TRIPLE, True, cache=ObjectCache(workshop.folder / "cache"))
        link_relocatable([workshop.entries(), stub], models[-1], export=[f"{manifest.symbol}_model"])
    loader = "/lib64/ld-linux-x86-64.so.2"
    workshop.zig(["ld.lld", "-pie", "-dynamic-linker", loader, "-o", "program", "program.o", *models, libc()])
    done = subprocess.run([workshop.folder / "program"], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == EXPECTED


def test_generated_header_is_clean_cpp(workshop: Workshop, headers: Path) -> None:
    source = workshop.folder / "embed.cpp"
    source.write_text(
        '#include "fixed.h"\n#include "add.h"\n'
        "static float a[FIXED_INPUT_0_ELEMENTS], y[FIXED_OUTPUT_0_ELEMENTS];\n"
        "int main() { return fixed_run(a, a, y, nullptr) + ADD_INPUT_0_RANK; }\n"
    )
    flags = ["-c", "-std=c++17", *handmade.WARNINGS, "-target", "x86_64-linux-gnu", "-iquote", handmade.STUB]
    workshop.zig(["c++", *flags, "-iquote", headers, source, "-o", "embed.o"])
    assert "add_run" not in (headers / "add.h").read_text()


def test_header_of_hostile_names() -> None:
    value = Value('*/ int evil; /* "\\\n', FLOAT, ("*/", None, 3))
    text = write_header(Manifest("a */ b", (value,), (), (handmade.variant("add"),), producer="*/"))
    assert text.count("*/") == text.count("/*")
    assert "evil" in text and "\n int evil" not in text
