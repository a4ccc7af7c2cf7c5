"""onnxc.h -> abi.py: writes the ctypes bindings with ctypesgen. For developers: `make bindings`.

The result is the same on every machine: the header is read with own sizes of the integer types, and what ctypesgen
adds of its own (a preamble, a library loader, comments with paths) is left out.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
NAMES = "tensor string dim value guard env variant pair model pool options context api"
STRUCTS = {f"struct_onnxc_{name}" for name in re.findall(r"\w+", NAMES)}
PREAMBLE = '''"""The structs and constants of onnxc.h for ctypes. Generated (`make bindings`): do not edit."""

from ctypes import CFUNCTYPE, POINTER, Structure, c_char, c_char_p, c_int, c_int32, c_int64, c_size_t
from ctypes import c_ubyte, c_uint, c_ulonglong, c_ushort

String = c_char_p


def UNCHECKED(result):
    """ctypesgen's mark of a result that is used as it comes."""
    return result


'''
INLINE = "context_create|context_destroy|output_shapes|run|message|context_variant|context_explain|context_pool"
STDINT = """typedef signed char int8_t; typedef short int16_t; typedef int int32_t; typedef long long int64_t;
typedef unsigned char uint8_t; typedef unsigned short uint16_t; typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
"""
STDDEF = "typedef unsigned long long size_t;\n#define NULL ((void *)0)\n"


def bindings() -> str:
    """The text of abi.py for the header as it is."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "fake").mkdir()
        (folder / "fake" / "stdint.h").write_text(STDINT)
        (folder / "fake" / "stddef.h").write_text(STDDEF)
        (folder / "onnxc.h").write_text((HERE / "onnxc.h").read_text())
        _ctypesgen(folder)
        return _trimmed((folder / "abi.py").read_text())


def _ctypesgen(folder: Path) -> None:
    preprocess = f"{shlex.quote(sys.executable)} -m ziglang cc -E -nostdinc -Ifake"
    options = ["--no-embed-preamble", "--strip-build-path", str(folder), "-x", f"^onnxc_({INLINE})$"]
    command = [sys.executable, "-c", "import ctypesgen.main; ctypesgen.main.main()", *options, "--cpp", preprocess]
    caches = {"ZIG_GLOBAL_CACHE_DIR": str(folder / "zig"), "ZIG_LOCAL_CACHE_DIR": str(folder / "zig")}
    environment = {**os.environ, **caches}  # there may be no home that can be written to
    subprocess.run([*command, "onnxc.h", "-o", "abi.py"], cwd=folder, env=environment, check=True, capture_output=True)


def _trimmed(text: str) -> str:
    """ctypesgen drops a struct that it does not understand with no more than a printed line: all must be there."""
    text = re.sub(r"# [\w/.-]+: \d+$", "", text[text.index("# No modules") :], flags=re.MULTILINE)
    text = re.sub(r"^try:\n    (.*)\nexcept:\n    pass\n", r"\1\n", text, flags=re.MULTILINE)
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    seen: set[str] = set()
    kept = []
    for line in lines:
        if re.fullmatch(r"\w+ = \w+", line):  # typedefs are printed twice
            if line in seen:
                continue
            seen.add(line)
        kept.append(line)
    body = re.sub(r"\n{3,}", "\n\n", "\n".join(kept)).strip() + "\n"
    missing = STRUCTS - set(re.findall(r"^class (\w+)", body, flags=re.MULTILINE))
    if missing:
        raise RuntimeError(f"ctypesgen dropped {', '.join(sorted(missing))}")
    return PREAMBLE + body


if __name__ == "__main__":
    (HERE / "abi.py").write_text(bindings())
