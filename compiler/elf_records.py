"""The records of ELF64 files, little endian, as numpy types (System V ABI, "Object Files")."""

from __future__ import annotations

import mmap

import numpy as np

PROGBITS, SYMTAB, RELA, NOBITS, GROUP, ADDRSIG = 1, 2, 4, 8, 17, 0x6FFF4C03  # kinds of sections
LOAD = 1  # a kind of segment
ALLOC = 2  # a flag of sections

HEADER = np.dtype(
    [("ident", "S16"), ("type", "<u2"), ("machine", "<u2"), ("version", "<u4"), ("entry", "<u8"), ("segments", "<u8")]
    + [("sections", "<u8"), ("flags", "<u4"), ("size", "<u2"), ("segment_size", "<u2"), ("segment_count", "<u2")]
    + [("section_size", "<u2"), ("section_count", "<u2"), ("section_names", "<u2")]
)
SEGMENT = np.dtype(
    [("type", "<u4"), ("flags", "<u4"), ("offset", "<u8"), ("address", "<u8"), ("physical", "<u8")]
    + [("file_size", "<u8"), ("memory_size", "<u8"), ("align", "<u8")]
)
SECTION = np.dtype(
    [("name", "<u4"), ("type", "<u4"), ("flags", "<u8"), ("address", "<u8"), ("offset", "<u8"), ("size", "<u8")]
    + [("link", "<u4"), ("info", "<u4"), ("align", "<u8"), ("entry_size", "<u8")]
)
SYMBOL = np.dtype(
    [("name", "<u4"), ("info", "u1"), ("other", "u1"), ("section", "<u2"), ("value", "<u8"), ("size", "<u8")]
)
RELOCATION = np.dtype([("offset", "<u8"), ("kind", "<u4"), ("symbol", "<u4"), ("addend", "<i8")])


File = bytes | bytearray | mmap.mmap


def sections_of(data: File) -> np.ndarray:
    """The section headers, a view of the file's bytes."""
    header = np.frombuffer(data, HEADER, 1)[0]
    return np.frombuffer(data, SECTION, header["section_count"], header["sections"])


def content(data: File, section: np.void, dtype: np.dtype) -> np.ndarray:
    """A section's records, a view of the file's bytes."""
    return np.frombuffer(data, dtype, int(section["size"]) // dtype.itemsize, int(section["offset"]))


def text_at(data: File, start: int) -> str:
    """The name that stands at an offset, up to its zero."""
    return data[start : data.find(b"\0", start)].decode()
