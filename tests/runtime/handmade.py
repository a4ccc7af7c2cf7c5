"""Builds the hand-made models of models.c into libraries, by the same steps as the compiler's own artefacts."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Sequence
from pathlib import Path

from onnxc.cache import ObjectCache
from onnxc.descriptor import STUB
from onnxc.link import link_relocatable, link_shared
from onnxc.manifest import Manifest, Value, Variant
from onnxc.stub_object import compile_stub
from onnxc.zig import zig_binary

HERE = Path(__file__).parent
TRIPLE = "x86_64-unknown-linux-gnu"
FLOAT, INT64, STRING, BFLOAT16 = 1, 7, 8, 16
WARNINGS = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]


class Workshop:
    """Compiles into one folder, with zig's caches inside it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._entries: Path | None = None

    def zig(self, arguments: Sequence[str | Path]) -> subprocess.CompletedProcess[str]:
        """Runs zig; fails with its messages."""
        env = {"ZIG_GLOBAL_CACHE_DIR": str(self.folder / "zig"), "ZIG_LOCAL_CACHE_DIR": str(self.folder / "zig")}
        done = subprocess.run(
            [zig_binary(), *map(str, arguments)], cwd=self.folder, env=env, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stderr
        return done

    def entries(self) -> Path:
        """The object of models.c."""
        if self._entries is None:
            self._entries = self.folder / "entries.o"
            flags = ["-c", "-g0", "-O2", "-fPIC", "-target", "x86_64-linux-gnu.2.17", "-iquote", STUB]
            self.zig(["cc", *flags, HERE / "models.c", "-o", self._entries])
        return self._entries

    def part(self, name: str, source: str) -> ctypes.CDLL:
        """A library of source alone, which includes a file of the stub's that needs no other."""
        file, built = self.folder / f"part_{name}.c", self.folder / f"part_{name}.so"
        file.write_text(source)
        flags = ["-c", "-g0", "-O2", "-fPIC", "-D_GNU_SOURCE", "-target", "x86_64-linux-gnu.2.17", "-iquote", STUB]
        self.zig(["cc", *flags, file, "-o", file.with_suffix(".o")])
        self.zig(["ld.lld", "-shared", "-o", built, file.with_suffix(".o")])
        return ctypes.CDLL(str(built))

    def library(
        self, manifest: Manifest, *, threads: bool = True, weights: Path | None = None, file: str | None = None
    ) -> Path:
        """The shared library of one model."""
        stub = compile_stub(manifest, TRIPLE, threads, cache=ObjectCache(self.folder / "cache"))
        out = self.folder / f"{file or manifest.symbol}.so"
        objects = [*([weights] if weights else []), self.entries(), stub]
        link_shared(objects, out, soname=out.name, export=[f"{manifest.symbol}_model"])
        return out

    def relocatable(self, manifest: Manifest) -> Path:
        """The object file of one model, to be linked into a program."""
        stub = compile_stub(manifest, TRIPLE, True, cache=ObjectCache(self.folder / "cache"))
        out = self.folder / f"{manifest.symbol}.o"
        link_relocatable([self.entries(), stub], out, export=[f"{manifest.symbol}_model"])
        return out


def variant(entries: str, name: str = "generic", prepare: str = "", **facts: object) -> Variant:
    """A variant of the entries of that name in models.c."""
    return Variant(name, f"{prepare or entries}_prepare", f"{entries}_run", "x86-64", **facts)  # type: ignore[arg-type]


def add(name: str = "add", **facts: object) -> Manifest:
    """y = x + 1 for x of [N, 4]."""
    x, y = Value("x", FLOAT, ("N", 4)), Value("y", FLOAT, ("N", 4))
    given = {"variants": (variant("add"),), "errors": ("node 'Add_0' (Add): the batch is too large",), **facts}
    return Manifest(name, (x,), (y,), **given)  # type: ignore[arg-type]


def simple(name: str, dtype: int, in_dims: tuple, out_dims: tuple, out_dtype: int | None = None, **facts) -> Manifest:
    """A model with one input x and one output y whose entries are named like it."""
    x, y = Value("x", dtype, in_dims), Value("y", out_dtype or dtype, out_dims)
    return Manifest(name, (x,), (y,), **{"variants": (variant(name),), **facts})
