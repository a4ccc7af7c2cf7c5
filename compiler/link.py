"""Links objects into the artefact with the LLD inside the ziglang package.

Nothing is ever written over: the result is made in a scratch folder beside the output and renamed, since a library
of that name may be loaded. No path, time or build id gets into the result.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from onnxc.errors import CompilerBug, OnnxcError
from onnxc.leftovers import is_temporary, run_program, temporary_folder
from onnxc.localise_symbols import localise_hidden
from onnxc.zig import zig_binary

Object = Path | bytes  # a file, or an object's bytes
Finish = Callable[[Path], None]  # what is still done to the linked file


def link_shared(
    objects: Sequence[Object], out: Path, *, soname: str, export: Sequence[str], finish: Finish = lambda linked: None
) -> None:
    """Writes a shared library that exports exactly `export`; libc's functions stay undefined and without version."""
    with scratch_beside(out) as scratch:
        script = scratch / "exports"
        script.write_text("{ global: " + " ".join(f"{name};" for name in export) + " local: *; };\n")
        linked = scratch / "linked"
        options = ["-shared", "-z", "now", "-z", "relro", "-z", "noexecstack", "--build-id=none", "--hash-style=gnu"]
        options += ["-O2", "--gc-sections", "-soname", soname, f"--version-script={script}"]
        _run_zig("ld.lld", [*options, "-o", str(linked), *_as_files(objects, scratch)])
        finish(linked)
        publish({out: linked})


def link_program(objects: Sequence[Object], out: Path, *, tail: Sequence[bytes | Path]) -> None:
    """Writes an executable that needs no library at all; `tail`, bytes and files, follows it in its file."""
    with scratch_beside(out) as scratch:
        linked = scratch / "linked"
        options = ["-static", "-z", "noexecstack", "--build-id=none", "-O2", "--gc-sections", "--strip-all"]
        _run_zig("ld.lld", [*options, "-o", str(linked), *_as_files(objects, scratch)])
        with linked.open("ab") as file:
            for part in tail:
                file.write(part if isinstance(part, bytes) else part.read_bytes())
        linked.chmod(0o755)
        publish({out: linked})


def link_relocatable(
    objects: Sequence[Object], out: Path, *, export: Sequence[str], finish: Finish = lambda linked: None
) -> None:
    """Writes one object file in which every symbol but `export` is local, so that two models link into one program."""
    with scratch_beside(out) as scratch:
        linked = _relocatable(objects, scratch, export)
        finish(linked)
        publish({out: linked})


def archive(
    objects: Sequence[Object], out: Path, *, member: str, export: Sequence[str], finish: Finish = lambda linked: None
) -> None:
    """Writes a static library with one member, the object of `link_relocatable`."""
    with scratch_beside(out) as scratch:
        (scratch / "in").mkdir()
        linked = _relocatable(objects, scratch, export).rename(scratch / "in" / member)
        finish(linked)
        _run_zig("ar", ["rcsD", str(scratch / "library"), str(linked)])
        publish({out: scratch / "library"})


def write_output(out: Path, data: bytes) -> None:
    """Writes a file whole or not at all."""
    with scratch_beside(out) as scratch:
        (scratch / "data").write_bytes(data)
        publish({out: scratch / "data"})


def copy_output(made: Path, out: Path) -> None:
    """Writes a copy of a file, whole or not at all, which may be executed if that one may."""
    with scratch_beside(out) as scratch:
        shutil.copy(made, scratch / "copy")
        publish({out: scratch / "copy"})


def check_output(out: Path) -> None:
    """Refuses, before any work, an output that could not be written in the end."""
    parent = _place_of(out).parent
    why = _obstacle(out)
    if why is None and not parent.is_dir():
        why = f"'{parent}' is not a folder" if parent.exists() else f"there is no folder '{parent}'"
    elif why is None and not os.access(parent, os.W_OK | os.X_OK):
        why = f"the folder '{parent}' is not writable"
    if why is not None:
        raise OnnxcError("cannot write the output", file=out, why=why, exit_code=2)


def publish(made: Mapping[Path, Path]) -> None:
    """Gives files from a scratch folder their names, or those that symbolic links stand for; none where one of the
    names is a folder's, a device's or a pipe's, which a program run as root would replace."""
    for out in made:
        if (why := _obstacle(out)) is not None:
            raise OnnxcError("cannot write the output", file=out, why=why, exit_code=2)
    for out, file in made.items():
        os.replace(file, _place_of(out))


def _obstacle(out: Path) -> str | None:
    """Why what has an output's name may not be replaced."""
    if out.is_dir():
        return "it is a folder"
    return "it is no regular file" if out.exists() and not out.is_file() else None


def _place_of(out: Path) -> Path:
    """Where an output is written: a symbolic link stays one."""
    return Path(os.path.realpath(out))


@contextlib.contextmanager
def scratch_beside(out: Path) -> Iterator[Path]:
    """A folder on the output's file system that is gone afterwards, whatever happens; OSErrors become OnnxcErrors."""
    parent = _place_of(out).parent
    if is_temporary(parent):  # a part of an output whose own scratch folder this is
        with tempfile.TemporaryDirectory(dir=parent) as inner:
            yield Path(inner)
        return
    try:
        with temporary_folder(parent) as scratch:
            yield scratch
    except OSError as error:
        why = error.strerror or str(error)
        raise OnnxcError("cannot write the output", file=out, why=why, hint=room_hint(error), exit_code=2) from error


def room_hint(error: OSError) -> str | None:
    """What to do where the disk is full."""
    if error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return None
    return "free some space there, or choose another folder; making an artefact takes up to twice its size"


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
    done = run_program([zig_binary(), tool, *arguments])
    if done.returncode == 0:
        return
    said = done.stderr.strip() or f"exit status {done.returncode}"
    # what it writes is mapped: where the disk has no more blocks, that is a signal
    code = {-signal.SIGBUS: errno.ENOSPC, -signal.SIGXFSZ: errno.EFBIG}.get(done.returncode)
    for sign in (errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EDQUOT, errno.EFBIG):
        code = sign if os.strerror(sign) in said else code
    if code is not None:
        raise OSError(code, os.strerror(code))
    raise CompilerBug("link", f"{tool}: {said[:2000]}")
