"""Times a parallel region of the stub's pool on two threads: hot, woken after a pause, with a busy process beside.

    python -m tests.bench.barrier

Builds barrier.c with the C compiler that the compiler itself uses; medians and 90th percentiles, µs.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from onnxc.zig import zig_binary

HERE = Path(__file__).parent
MEANING = {
    "hot": "an empty region straight after another",
    "woken": "the same after 5 ms: the worker sleeps",
    "serial": "40 µs of arithmetic, one thread",
    "shared": "the same in a region",
    "serial,idle": "400 µs of arithmetic after 5 ms, one thread",
    "shared,idle": "the same in a region",
    "serial,run": "60 times 80 µs of arithmetic, one thread",
    "shared,run": "the same in 60 regions",
}


def build(folder: Path) -> Path:
    """The program that measures."""
    stub, program = HERE.parent.parent / "runtime_stub", folder / "barrier"
    flags = ["-O2", "-pthread", f"-I{stub}"]
    subprocess.run([zig_binary(), "cc", *flags, str(HERE / "barrier.c"), "-o", str(program)], check=True)
    return program


def measured(program: Path, *arguments: str) -> dict[str, tuple[float, float]]:
    """What it prints: name → (median, 90th percentile) in µs."""
    lines = subprocess.run([program, *arguments], check=True, capture_output=True, text=True, timeout=600).stdout
    rows = (line.split() for line in lines.splitlines())
    return {name: (int(median) / 1000, int(p90) / 1000) for name, median, p90 in rows}


def main() -> int:
    """Prints both tables."""
    with tempfile.TemporaryDirectory() as folder:
        program = build(Path(folder))
        for title, arguments in (("alone", ()), ("a busy process on CPU 1", ("1", "1"))):
            print(title)
            for name, (median, p90) in measured(program, *arguments).items():
                print(f"  {name:12} {median:9.2f} {p90:9.2f} µs   {MEANING[name]}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
