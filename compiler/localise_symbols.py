"""Makes the inner symbols of a relocatable object local.

Objects of several kernels call each other by hidden symbols, which still clash when two models are linked into one
program. After `ld.lld -r` has joined them nobody outside needs the names. The file is changed in place: the symbol
table is re-ordered (ELF wants local symbols first) and everything that numbers symbols follows.
"""

from __future__ import annotations

import mmap
from pathlib import Path

import numpy as np

from onnxc.elf_records import ADDRSIG, GROUP, RELA, RELOCATION, SYMBOL, SYMTAB, content, sections_of, text_at


def localise_hidden(path: Path, keep: set[str]) -> None:
    """Every defined global symbol of the ELF64 object becomes local, except those named in `keep`."""
    with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as data:
        sections = sections_of(data)
        try:
            _localise(data, sections, keep)
        finally:
            del sections  # the map cannot be closed while an array looks into it


def _localise(data: mmap.mmap, sections: np.ndarray, keep: set[str]) -> None:
    table = sections[sections["type"] == SYMTAB][0]
    symbols = content(data, table, SYMBOL)
    strings = int(sections[table["link"]]["offset"])
    names = [text_at(data, strings + start) for start in symbols["name"].tolist()]
    kept = np.array([name in keep for name in names])
    defined = symbols["section"] != 0
    symbols["info"][defined & ~kept] &= 0xF  # binding 0: local
    symbols["other"][defined & ~kept] &= 0xFC  # visibility means nothing for a local symbol
    is_global = symbols["info"] >> 4 != 0
    order = np.argsort(is_global, kind="stable")
    new_number = np.empty_like(order)
    new_number[order] = np.arange(len(order))
    symbols[:] = symbols[order]
    for section in sections:
        if section["type"] == SYMTAB:
            section["info"] = int((~is_global).sum())
        elif section["type"] == RELA:
            relocations = content(data, section, RELOCATION)
            relocations["symbol"] = new_number[relocations["symbol"]]
        elif section["type"] == GROUP:
            section["info"] = new_number[section["info"]]
        elif section["type"] == ADDRSIG:
            section["size"] = 0  # a hint for the linker that numbers symbols; without it nothing is lost
