"""Writes the weights into a linked file, in which the linker has only left room for them.

A section without content (.bss is one) costs the linker nothing, however large it is; here it gets its content. Arrays
are taken one at a time and streamed, so memory does not grow with the weights; what is mapped from a model's file is
copied from file to file by the kernel without passing through this process. `weights_file.py` is for weights too large
for a section.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import numpy as np

from onnxc.elf_records import HEADER, LOAD, NOBITS, PROGBITS, SEGMENT, sections_of, text_at
from onnxc.errors import CompilerBug

Entries = Iterable[tuple[np.ndarray, int]]  # array, byte offset

_PIECE = 4 << 20
_WORTH_A_LOOK = 1 << 16  # smaller arrays are written sooner than looked up


def fill_section(path: Path, name: str, entries: Entries) -> None:
    """Gives the NOBITS section `name` of the ELF64 file these arrays as content, each at its offset, 0 between them.

    In a shared library it must be the last of its segment, and what follows in the file moves back by whole pages; in
    a relocatable object it is appended.
    """
    data = bytearray(path.read_bytes())
    header = np.frombuffer(data, HEADER, 1)[0]
    sections = sections_of(data)
    segments = np.frombuffer(data, SEGMENT, header["segment_count"], header["segments"])
    names = int(sections[header["section_names"]]["offset"])
    (section,) = (each for each in sections if text_at(data, names + int(each["name"])) == name)
    if section["type"] != NOBITS:
        raise CompilerBug("fill_section", f"section {name} has content already")
    end, shift = len(data), 0
    at = end + -end % int(section["align"])
    if len(segments):
        end, at, shift = _make_room(header, sections, segments, section)
    section["type"], section["offset"] = PROGBITS, at
    size = int(section["size"])
    mode = path.stat().st_mode
    path.unlink()  # a new file: ext4 waits for the disk where one that was truncated is closed
    with path.open("xb") as file:
        os.fchmod(file.fileno(), mode)
        file.write(data[:end])
        file.truncate(max(at + size, len(data) + shift))
        _write_entries(file.fileno(), entries, size, at)
        os.pwrite(file.fileno(), data[end:], end + shift)


def _make_room(header: np.void, sections: np.ndarray, segments: np.ndarray, section: np.void) -> tuple[int, int, int]:
    """Moves what follows the section's segment: where that ends in the file, the content's place, the distance."""
    first, size = int(section["address"]), int(section["size"])
    ends = segments["address"] + segments["memory_size"]
    around = (segments["type"] == LOAD) & (segments["address"] <= first) & (ends == first + size)
    (number,) = np.flatnonzero(around)
    segment = segments[number]
    end = int(segment["offset"] + segment["file_size"])
    at = int(segment["offset"]) + first - int(segment["address"])
    page = int(segments["align"].max())
    shift = -(-(at + size - end) // page) * page
    segment["file_size"] = segment["memory_size"]
    for table in (sections, segments):
        table["offset"][table["offset"] >= end] += shift
    header["sections"] += shift
    return end, at, shift


def _write_entries(file: int, entries: Entries, size: int, base: int) -> None:
    """Writes each array in a thread of its own while the next one is made."""
    with ThreadPoolExecutor(1) as writer:
        before: Future[None] | None = None
        for array, offset in entries:
            if offset < 0 or offset + array.nbytes > size:
                raise CompilerBug(
                    "fill_section", f"{array.nbytes} bytes at {offset} do not fit in {size} bytes of weights"
                )
            if before is not None:
                before.result()
            before = writer.submit(_write_array, file, array, base + offset)
        if before is not None:
            before.result()


def _write_array(file: int, array: np.ndarray, at: int) -> None:
    source = mapped_file(array) if array.nbytes >= _WORTH_A_LOOK else None
    if source is None or not _copy(file, source, at, array.nbytes):
        _write(file, array, at)


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
