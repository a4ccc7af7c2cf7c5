"""Reads the names in an ELF64 object's symbol table."""

from __future__ import annotations

from onnxc.elf_records import SYMBOL, SYMTAB, content, sections_of, text_at


def undefined_symbols(code: bytes) -> set[str]:
    """Names that the object refers to and does not define."""
    sections, names = sections_of(code), set()
    for table in sections[sections["type"] == SYMTAB]:
        symbols = content(code, table, SYMBOL)[1:]
        start = int(sections[table["link"]]["offset"])
        names |= {text_at(code, start + name) for name in symbols["name"][symbols["section"] == 0].tolist()}
    return names
