"""Finds the zig program of the ziglang package: our linker, C compiler and table of CPUs."""

from __future__ import annotations

import functools
from pathlib import Path


@functools.cache
def zig_binary() -> str:
    """Path of the zig program: run directly, it spares the Python start of `python -m ziglang` (0.13 of 0.15 s)."""
    import ziglang

    return str(Path(ziglang.__file__).parent / "zig")
