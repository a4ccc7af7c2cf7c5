"""manifest -> object: compiles a model's descriptor and the run-time stub with zig, wherever no C compiler is.

The object depends on the manifest, the stub's sources, the target and zig alone: the same bytes in any folder.
"""

from __future__ import annotations

from collections.abc import Callable

from onnxc.cache import ObjectCache, cache_key
from onnxc.descriptor import STUB, write_descriptor, write_stub
from onnxc.errors import CompilerBug
from onnxc.leftovers import run_program, temporary_folder
from onnxc.link import link_relocatable
from onnxc.manifest import Manifest
from onnxc.zig import zig_binary

# the glibc whose headers are used, the oldest that the architecture has from 2.17 (manylinux2014) on; nothing is linked
GLIBC = {"riscv64": "2.27"}
OLDEST_GLIBC = "2.17"
FLAGS = [
    *("-c", "-g0", "-O2", "-std=c11", "-fPIC", "-fvisibility=hidden"),
    *("-fno-stack-protector", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables"),
    *("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"),
    "-Wno-overlength-strings",  # names and metadata are as long as the model likes
]


def compile_stub(manifest: Manifest, triple: str, threads: bool, *, cache: ObjectCache | None = None) -> bytes:
    """The object file of the model's descriptor and stub, for an LLVM triple or zig's own spelling of it.

    Kept by content in `cache`; None: made anew. The stub, which is most of it, is the same for all models.
    """
    target = zig_target(triple)
    descriptor = write_descriptor(manifest, triple, threads)
    weights_file = manifest.weights is not None and manifest.weights.file is not None
    stub = write_stub(threads, weights_file)

    def join() -> bytes:
        parts = [_kept(cache, (source, target), lambda source=source: _compile(source, target))
                 for source in (stub, descriptor)]  # fmt: skip
        with temporary_folder() as folder:
            link_relocatable(parts, folder / "model.o", export=[f"{manifest.symbol}_model"])
            return (folder / "model.o").read_bytes()

    return _kept(cache, (stub, descriptor, target), join)


def compile_timing(triple: str, *, cache: ObjectCache | None = None) -> bytes:
    """The object of timing.c, which bundles of candidates have in place of a stub."""
    source, target = '#include "timing.c"\n', zig_target(triple)
    return _kept(cache, (source, target), lambda: _compile(source, target))


def compile_measuring(triple: str, *, cache: ObjectCache | None = None) -> bytes:
    """The object of measure.c, which is all of a program that measures candidates but these and their plan."""
    source, target = '#include "measure.c"\n', zig_target(triple)
    return _kept(cache, (source, target), lambda: _compile(source, target))


def compile_plan(source: str, triple: str) -> bytes:
    """The object of the tables that such a program reads (plan.h)."""
    return _compile(source, zig_target(triple))


def _kept(cache: ObjectCache | None, parts: tuple[str, ...], make: Callable[[], bytes]) -> bytes:
    if cache is None:
        return make()
    key = cache_key("stub", *parts, *FLAGS)
    data = cache.get(key)
    if data is None:
        data = make()
        cache.put(key, data)
    return data


def zig_target(triple: str) -> str:
    """zig's spelling of an LLVM triple: three parts, and the glibc whose headers to use."""
    parts = [part for part in triple.split("-") if part not in ("unknown", "pc", "none")]
    arch, *rest = parts
    target = "-".join([arch, *rest])
    return f"{target}.{GLIBC.get(arch, OLDEST_GLIBC)}" if "-linux-gnu" in target else target


def _compile(source: str, target: str) -> bytes:
    with temporary_folder() as folder:
        (folder / "model.c").write_text(source, "utf-8")
        command = [zig_binary(), "cc", "-target", target, *FLAGS, "-iquote", str(STUB), "model.c", "-o", "model.o"]
        caches = {"ZIG_GLOBAL_CACHE_DIR": "zig", "ZIG_LOCAL_CACHE_DIR": "zig"}  # zig would keep every object for ever
        done = run_program(command, folder=folder, variables=caches)
        if done.returncode:
            raise CompilerBug("compile_stub", f"zig cc failed for {target}:\n{done.stderr.strip()}")
        return (folder / "model.o").read_bytes()
