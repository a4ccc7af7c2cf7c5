"""Links objects into the artefact with the LLD inside the ziglang package.

Nothing is ever written over: the result is made in a scratch folder beside the output and renamed, since a library
of that name may be loaded. No path, time or build id gets into the result.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from onnxc.errors import CompilerBug, OnnxcError
from onnxc.localise_symbols import localise_hidden
from onnxc.zig import zig_binary

Object = Path | bytes  # a file, or an object's bytes


def link_shared(objects: Sequence[Object], out: Path, *, soname: str, export: Sequence[str]) -> None:
    """Writes a shared library that exports exactly `export`; libc's functions stay undefined and without version.

    Give the weights object first: then no reference of the code crosses it, however large it is.
    """
    with scratch_beside(out) as scratch:
        script = scratch / "exports"
        script.write_text("{ global: " + " ".join(f"{name};" for name in export) + " local: *; };\n")
        linked = scratch / "linked"
        options = ["-shared", "-z", "now", "-z", "relro", "-z", "noexecstack", "--build-id=none", "--hash-style=gnu"]
        options += ["-O2", "--gc-sections", "-soname", soname, f"--version-script={script}"]
        _run_zig("ld.lld", [*options, "-o", str(linked), *_as_files(objects, scratch)])
        os.replace(linked, out)


def link_relocatable(objects: Sequence[Object], out: Path, *, export: Sequence[str]) -> None:
    """Writes one object file in which every symbol but `export` is local, so that two models link into one program."""
    with scratch_beside(out) as scratch:
        linked = _relocatable(objects, scratch, export)
        os.replace(linked, out)


def archive(objects: Sequence[Object], out: Path, *, member: str, export: Sequence[str]) -> None:
    """Writes a static library with one member, the object of `link_relocatable`."""
    with scratch_beside(out) as scratch:
        (scratch / "in").mkdir()
        linked = _relocatable(objects, scratch, export).rename(scratch / "in" / member)
        _run_zig("ar", ["rcsD", str(scratch / "library"), str(linked)])
        os.replace(scratch / "library", out)


def write_output(out: Path, data: bytes) -> None:
    """Writes a file whole or not at all."""
    with scratch_beside(out) as scratch:
        (scratch / "data").write_bytes(data)
        os.replace(scratch / "data", out)


@contextlib.contextmanager
def scratch_beside(out: Path) -> Iterator[Path]:
    """A folder on the output's file system that is gone afterwards, whatever happens; OSErrors become OnnxcErrors."""
    scratch = None
    try:
        scratch = Path(tempfile.mkdtemp(prefix=".onnxc-", dir=out.absolute().parent))
        yield scratch
        if out.is_dir():
            raise IsADirectoryError(21, "is a folder")
    except OSError as error:
        raise OnnxcError("cannot write the output", file=out, why=error.strerror or str(error), exit_code=2) from error
    finally:
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)


def _relocatable(objects: Sequence[Object], scratch: Path, export: Sequence[str]) -> Path:
    linked = scratch / "linked"
    _run_zig("ld.lld", ["-r", "--build-id=none", "-o", str(linked), *_as_files(objects, scratch)])
    localise_hidden(linked, set(export))
    return linked


def _as_files(objects: Sequence[Object], scratch: Path) -> list[str]:
    files = []
    for number, item in enumerate(objects):
        if isinstance(item, bytes):
            path = scratch / f"{number}.o"
            path.write_bytes(item)
        else:
            path = item
        files.append(str(path))
    return files


def _run_zig(tool: str, arguments: Sequence[str]) -> None:
    """Runs a tool of zig; a full disk is the user's matter, anything else it complains of is ours."""
    done = subprocess.run([zig_binary(), tool, *arguments], capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return
    said = done.stderr.strip() or f"exit status {done.returncode}"
    for sign in ("No space left on device", "Permission denied", "Read-only file system", "Disk quota exceeded"):
        if sign in said:
            raise OSError(0, sign)
    raise CompilerBug("link", f"{tool}: {said[:2000]}")
