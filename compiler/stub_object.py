"""manifest -> object: compiles a model's descriptor and the run-time stub with zig, wherever no C compiler is.

The object depends on the manifest, the stub's sources, the target and zig alone: the same bytes in any folder.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import tempfile
from functools import cache
from importlib.metadata import version
from pathlib import Path

import platformdirs

from onnxc.descriptor import STUB, write_descriptor
from onnxc.errors import CompilerBug
from onnxc.manifest import Manifest
from onnxc.zig import zig_binary

# the glibc whose headers are used, the oldest that the architecture has from 2.17 (manylinux2014) on; nothing is linked
GLIBC = {"riscv64": "2.27"}
OLDEST_GLIBC = "2.17"
FLAGS = [
    *("-c", "-g0", "-O2", "-std=c11", "-fPIC", "-fvisibility=hidden"),
    *("-fno-stack-protector", "-fno-unwind-tables", "-fno-asynchronous-unwind-tables"),
    *("-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"),
]


def compile_stub(manifest: Manifest, triple: str, threads: bool, *, cache_dir: Path | None = None) -> bytes:
    """The object file of the model's descriptor and stub, for an LLVM triple or zig's own spelling of it.

    Kept by content in `cache_dir` (default: the user's cache folder); a folder that cannot be written is done without.
    """
    source = write_descriptor(manifest, triple, threads)
    target = zig_target(triple)
    key = hashlib.sha256("\0".join([source, target, *FLAGS, _stub_digest(), version("ziglang")]).encode()).hexdigest()
    kept = (cache_dir or Path(platformdirs.user_cache_dir("onnxc"))) / "stub" / f"{key}.o"
    data = _read(kept)
    if data is None:
        data = _compile(source, target)
        _keep(kept, data)
    return data


def zig_target(triple: str) -> str:
    """zig's spelling of an LLVM triple: three parts, and the glibc whose headers to use."""
    parts = [part for part in triple.split("-") if part not in ("unknown", "pc", "none")]
    arch, *rest = parts
    target = "-".join([arch, *rest])
    return f"{target}.{GLIBC.get(arch, OLDEST_GLIBC)}" if "-linux-gnu" in target else target


def _compile(source: str, target: str) -> bytes:
    with tempfile.TemporaryDirectory(prefix="onnxc-stub-") as name:
        folder = Path(name)
        (folder / "model.c").write_text(source, "utf-8")
        command = [zig_binary(), "cc", "-target", target, *FLAGS, "-iquote", str(STUB), "model.c", "-o", "model.o"]
        caches = {"ZIG_GLOBAL_CACHE_DIR": "zig", "ZIG_LOCAL_CACHE_DIR": "zig"}  # zig would keep every object for ever
        done = subprocess.run(command, cwd=folder, env=os.environ | caches, capture_output=True, text=True, check=False)
        if done.returncode:
            raise CompilerBug("compile_stub", f"zig cc failed for {target}:\n{done.stderr.strip()}")
        return (folder / "model.o").read_bytes()


@cache
def _stub_digest() -> str:
    digest = hashlib.sha256()
    for path in sorted([*STUB.glob("*.c"), *STUB.glob("*.h")]):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _read(kept: Path) -> bytes | None:
    """The kept object, unless it is not there or not whole (its first 32 bytes are its digest)."""
    try:
        data = kept.read_bytes()
    except OSError:
        return None
    return data[32:] if hashlib.sha256(data[32:]).digest() == data[:32] else None


def _keep(kept: Path, data: bytes) -> None:
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=kept.parent, delete=False) as scratch:
            scratch.write(hashlib.sha256(data).digest() + data)
        os.replace(scratch.name, kept)
    except OSError:
        return
