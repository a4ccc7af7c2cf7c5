"""Makes the ELF object that stands for the weights where the artefact is linked: their size and symbol, no content.

The linker would copy it, through memory; `weights_section.py` writes the weights into what it has linked.
"""

from __future__ import annotations

import numpy as np

from onnxc.elf_records import ALLOC, HEADER, NOBITS, PROGBITS, SECTION, SYMBOL, SYMTAB
from onnxc.targets import Target

ALIGNMENT = 64
_MACHINE = {
    "x86_64": (62, 0),
    "aarch64": (183, 0),
    "riscv64": (243, 5),
}  # e_machine, e_flags (riscv: RVC, double float)
_STRINGS = 3  # SHT_STRTAB
_RELOCATABLE, _CURRENT = 1, 1  # ET_REL, EV_CURRENT
_HIDDEN_OBJECT = (0x11, 2)  # a global object that is hidden


def weights_object(size: int, symbol: str, section: str, target: Target) -> bytes:
    """A relocatable object with one read-only section of `size` bytes, not in the file, and a hidden symbol there."""
    machine, flags = _MACHINE[target.arch]
    names = ["", section, ".note.GNU-stack", ".symtab", ".strtab"]
    strings = "\0".join([*names, symbol, ""]).encode()
    at = {name: strings.index(f"\0{name}\0".encode()) + 1 for name in [*names[1:], symbol]}
    symbols = np.zeros(2, SYMBOL)
    symbols[1] = (at[symbol], *_HIDDEN_OBJECT, 1, 0, size)
    table = HEADER.itemsize + len(strings)
    table += -table % 8
    sections = np.zeros(len(names), SECTION)
    #              name, type, flags, address, offset, size, link, info, align, entry size
    sections[1] = (at[section], NOBITS, ALLOC, 0, HEADER.itemsize, size, 0, 0, ALIGNMENT, 0)
    sections[2] = (at[names[2]], PROGBITS, 0, 0, HEADER.itemsize, 0, 0, 0, 1, 0)
    sections[3] = (at[names[3]], SYMTAB, 0, 0, table, symbols.nbytes, 4, 1, 8, SYMBOL.itemsize)
    sections[4] = (at[names[4]], _STRINGS, 0, 0, HEADER.itemsize, len(strings), 0, 0, 1, 0)
    head = np.zeros(1, HEADER)
    counts = (HEADER.itemsize, 0, 0, SECTION.itemsize, len(names), 4)
    head[0] = (b"\x7fELF\2\1\1", _RELOCATABLE, machine, _CURRENT, 0, 0, table + symbols.nbytes, flags, *counts)
    content = (head.tobytes() + strings).ljust(table, b"\0")
    return content + symbols.tobytes() + sections.tobytes()
