"""Writes the weights into an ELF object that only holds them; `weights_file.py` is for those too large for that.

Arrays are taken one at a time and streamed, so memory does not grow with the weights; what is mapped from a model's
file is copied from file to file by the kernel without passing through this process. (LLVM or a C compiler would need
two to three times the weights in memory.)
"""

from __future__ import annotations

import errno
import os
import struct
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from onnxc.errors import CompilerBug
from onnxc.targets import Target

Entries = Iterable[tuple[np.ndarray, int]]  # array, byte offset

ALIGNMENT = 64
_PIECE = 4 << 20
_WORTH_A_LOOK = 1 << 16  # smaller arrays are written sooner than looked up
_MACHINE = {
    "x86_64": (62, 0),
    "aarch64": (183, 0),
    "riscv64": (243, 5),
}  # e_machine, e_flags (riscv: RVC, double float)
_HEADER_BYTES = 64


def write_weights_object(path: Path, entries: Entries, size: int, symbol: str, target: Target) -> None:
    """Writes a relocatable object with one read-only section of `size` bytes and a hidden symbol at its start.

    Every array stands at its offset, which the kernels' code relies upon; bytes between arrays are 0. First on the link
    line, the section keeps out of the way of references between code and other data.
    """
    names = b"\0" + symbol.encode() + b"\0"
    sections = [b"", b".rodata." + symbol.encode(), b".note.GNU-stack", b".symtab", b".strtab", b".shstrtab"]
    section_names = b"\0".join(sections) + b"\0"
    data = _aligned(_HEADER_BYTES)
    symbols = data + _aligned(size)
    # name, type OBJECT and binding GLOBAL, visibility HIDDEN, section, value, size
    table = bytes(24) + struct.pack("<IBBHQQ", 1, 0x11, 2, 1, 0, size)
    strings = symbols + len(table)
    string_names = strings + len(names)
    headers = _aligned(string_names + len(section_names))

    def header(index: int, kind: int, at: int, length: int, **more: int) -> bytes:
        name = section_names.index(b"\0" + sections[index] + b"\0") + 1
        fields = (more.get(field, 0) for field in ("link", "info"))
        return struct.pack(
            "<IIQQQQIIQQ", name, kind, more.get("flags", 0), 0, at, length, *fields, more.get("align", 1),
            more.get("entry", 0),
        )  # fmt: skip

    with path.open("wb") as file:
        file.truncate(headers)
        _write_entries(file.fileno(), entries, size, data)
        machine, flags = _MACHINE[target.arch]
        head = struct.pack(
            "<16sHHIQQQIHHHHHH", b"\x7fELF\2\1\1", 1, machine, 1, 0, 0, headers, flags, 64, 0, 0, 64, 6, 5
        )
        os.pwrite(file.fileno(), head, 0)
        os.pwrite(file.fileno(), table + names + section_names, symbols)
        os.pwrite(
            file.fileno(),
            bytes(64)
            + header(1, 1, data, size, flags=2, align=ALIGNMENT)  # PROGBITS, ALLOC
            + header(2, 1, symbols, 0)
            + header(3, 2, symbols, len(table), link=4, info=1, align=8, entry=24)
            + header(4, 3, strings, len(names))
            + header(5, 3, string_names, len(section_names)),
            headers,
        )


def _write_entries(file: int, entries: Entries, size: int, base: int) -> None:
    for array, offset in entries:
        if offset < 0 or offset + array.nbytes > size:
            raise CompilerBug(
                "write_weights", f"{array.nbytes} bytes at {offset} do not fit in {size} bytes of weights"
            )
        source = mapped_file(array) if array.nbytes >= _WORTH_A_LOOK else None
        if source is None or not _copy(file, source, base + offset, array.nbytes):
            _write(file, array, base + offset)


def mapped_file(array: np.ndarray) -> tuple[Path, int] | None:
    """The file and offset that an array's memory is a read-only map of; None if it is not, or not of one piece."""
    if not array.flags.c_contiguous:
        return None
    start, end = array.ctypes.data, array.ctypes.data + array.nbytes
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as maps:
        for line in maps:
            bounds, access, offset, _, inode, *path = line.rstrip("\n").split(maxsplit=5)
            low, high = (int(bound, 16) for bound in bounds.split("-"))
            if low <= start < high:
                whole = end <= high and inode != "0" and access.startswith("r-")
                return (Path(path[0]), int(offset, 16) + start - low) if whole and path else None
    return None


def _copy(file: int, source: tuple[Path, int], at: int, size: int) -> bool:
    """Copies from file to file; False where the file systems cannot, or the file is not what was mapped."""
    path, start = source
    try:
        with path.open("rb") as origin:
            done = 0
            while done < size:
                copied = os.copy_file_range(origin.fileno(), file, size - done, start + done, at + done)
                if copied == 0:
                    return False
                done += copied
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise
        return False
    return True


def _write(file: int, array: np.ndarray, at: int) -> None:
    for piece in _pieces(array):
        done = 0
        while done < len(piece):
            done += os.pwrite(file, piece[done:], at + done)
        at += len(piece)


def _pieces(array: np.ndarray) -> Iterable[memoryview]:
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    for start in range(0, flat.size, _PIECE):
        yield memoryview(flat[start : start + _PIECE])


def _aligned(size: int) -> int:
    return -(-size // ALIGNMENT) * ALIGNMENT
