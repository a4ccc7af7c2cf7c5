"""Reads the names in an ELF64 object's symbol table."""

from __future__ import annotations

import struct

_SYMTAB = 2


def undefined_symbols(code: bytes) -> set[str]:
    """Names that the object refers to and does not define."""
    (section_table,) = struct.unpack_from("<Q", code, 40)
    entry_size, count = struct.unpack_from("<HH", code, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", code, section_table + i * entry_size) for i in range(count)]
    names = set()
    for _, kind, _, _, offset, size, link, _, _, symbol_size in headers:
        if kind != _SYMTAB:
            continue
        strings = headers[link][4]
        for at in range(offset + symbol_size, offset + size, symbol_size):
            name, _, _, section = struct.unpack_from("<IBBH", code, at)
            if section == 0:
                start = strings + name
                names.add(code[start : code.index(0, start)].decode())
    return names
