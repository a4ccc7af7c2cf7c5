"""Looks into a library before it is loaded, so that a wrong file gives a clear error and none of its code runs."""

from __future__ import annotations

import os
import platform
import struct
from collections.abc import Iterator
from typing import BinaryIO

from onnxc.runtime import abi
from onnxc.runtime.errors import LoadError

MACHINES = {3: "i386", 40: "arm", 62: "x86_64", 183: "aarch64", 243: "riscv64"}
KINDS = {1: "an object file: link it into a program or a shared library", 2: "a program", 4: "a core dump"}
NOTE, DYNSYM = 7, 11
SHARED = 3
GLOBAL_FUNCTION = 0x12


def model_symbols(path: str) -> list[str]:
    """Names of the functions that give compiled models in the shared library at `path`.

    Raises LoadError for whatever is not a library of compiled models for this machine and this ABI.
    """
    try:
        with open(path, "rb") as file:
            return _model_symbols(path, file)
    except OSError as error:
        if isinstance(error, LoadError):
            raise
        raise LoadError(f"cannot read {path}: {error.strerror}") from error
    except (struct.error, ValueError, IndexError) as error:
        raise LoadError(f"{path} is damaged: its headers lead nowhere") from error


def _model_symbols(path: str, file: BinaryIO) -> list[str]:
    head = file.read(64)
    if head[:4] != b"\x7fELF":
        raise LoadError(f"{path} is not a compiled model: {_what_else(path, head)}")
    if head[4:6] != b"\x02\x01":
        raise LoadError(f"{path} is a library for a 32-bit or big-endian machine, this is {platform.machine()}")
    kind, machine = struct.unpack_from("<HH", head, 16)
    if machine != _own_machine():
        name = MACHINES.get(machine, f"machine {machine}")
        raise LoadError(f"{path} was compiled for {name}, this machine is {platform.machine()}")
    if kind != SHARED:
        raise LoadError(f"{path} cannot be loaded: it is {KINDS.get(kind, 'no shared library')}")
    sections = list(_sections(file, head))
    version = next(filter(None, (_abi_version(file, s) for s in sections if s[0] == NOTE)), None)
    if version is None:
        raise LoadError(f"{path} is a shared library, but no compiled model")
    if version[0] != abi.ONNXC_ABI_MAJOR:
        raise LoadError(
            f"{path} was compiled for version {version[0]} of the model interface, this onnxc has "
            f"{abi.ONNXC_ABI_MAJOR}: compile the model again"
        )
    symbols = [name for s in sections if s[0] == DYNSYM for name in _functions(file, sections, s)]
    found = [name for name in symbols if name.endswith("_model")]
    if not found:
        raise LoadError(f"{path} has no *_model function: the model's symbol is not exported")
    return found


def _what_else(path: str, head: bytes) -> str:
    if not head:
        return "the file is empty"
    if path.endswith((".onnx", ".onnx.json", ".pb")):
        return "compile it first (onnxc compile), or open it with onnxc.InferenceSession"
    if head.startswith(b"!<arch>"):
        return "it is a static library, to be linked into a program"
    return "it is no ELF shared library"


def _own_machine() -> int:
    return next((number for number, name in MACHINES.items() if name == platform.machine()), 0)


Section = tuple[int, int, int, int]
"""type, offset, size, link"""


def _sections(file: BinaryIO, head: bytes) -> Iterator[Section]:
    (start,) = struct.unpack_from("<Q", head, 40)
    size, count = struct.unpack_from("<HH", head, 58)
    for i in range(count):
        row = _read(file, start + i * size, 64)
        yield (*struct.unpack_from("<4xI16x", row), *struct.unpack_from("<QQI", row, 24))


def _read(file: BinaryIO, offset: int, size: int) -> bytes:
    """Exactly that many bytes; ValueError where the file has not got them."""
    if offset + size > os.fstat(file.fileno()).st_size:
        raise ValueError("truncated")
    file.seek(offset)
    return file.read(size)


def _abi_version(file: BinaryIO, section: Section) -> tuple[int, int] | None:
    """What the stub's note says; see stub.c."""
    note = _read(file, section[1], section[2])
    return struct.unpack_from("<II", note, 20) if note[12:18] == b"onnxc\0" and len(note) >= 28 else None


def _functions(file: BinaryIO, sections: list[Section], table: Section) -> Iterator[str]:
    names = _read(file, *sections[table[3]][1:3])
    if not names.startswith(b"\0"):
        raise ValueError("no table of names")
    rows = _read(file, *table[1:3])
    for name, info, _, section in struct.iter_unpack("<IBBH16x", rows):
        if info == GLOBAL_FUNCTION and section:
            yield names[name : names.index(b"\0", name)].decode()
