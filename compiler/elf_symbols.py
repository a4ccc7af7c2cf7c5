"""Reads the names in an ELF64 object's symbol table."""

from __future__ import annotations

import numpy as np

from onnxc.elf_records import HEADER, SECTION, SYMBOL, SYMTAB, text_at


def undefined_symbols(code: bytes) -> set[str]:
    """Names that the object refers to and does not define."""
    header = np.frombuffer(code, HEADER, 1)[0]
    sections = np.frombuffer(code, SECTION, header["section_count"], header["sections"])
    names = set()
    for table in sections[sections["type"] == SYMTAB]:
        symbols = np.frombuffer(code, SYMBOL, int(table["size"]) // SYMBOL.itemsize, table["offset"])[1:]
        start = int(sections[table["link"]]["offset"])
        names |= {text_at(code, start + name) for name in symbols["name"][symbols["section"] == 0].tolist()}
    return names
