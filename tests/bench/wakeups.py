"""How often a thread that is woken after a sleep starts on its waker's CPU, and how late: why the pool bars that CPU.

    python -m tests.bench.wakeups [--rounds 400]

Builds wakeups.c with the C compiler that the compiler itself uses; medians and the largest, µs, from the call that wakes
to the woken thread's first step of work. Alone, then beside a busy process on each CPU.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from onnxc.zig import zig_binary

from .crowded import crowd

HERE = Path(__file__).parent
MEANING = {
    "plain": "where the system puts it",
    "moves": "it leaves its waker's CPU once it is awake",
    "barred": "its waker has barred that CPU to it",
}


class Row(NamedTuple):
    """How many of `rounds` ran on the waker's CPU; median and largest time in µs."""

    same: int
    rounds: int
    median: float
    most: float


def build(folder: Path) -> Path:
    """The program that measures."""
    stub, program = HERE.parent.parent / "runtime_stub", folder / "wakeups"
    flags = ["-O2", "-pthread", f"-I{stub}"]
    subprocess.run([zig_binary(), "cc", *flags, str(HERE / "wakeups.c"), "-o", str(program)], check=True)
    return program


def measured(program: Path, rounds: int) -> dict[str, Row]:
    """What it prints, by the way of waking."""
    lines = subprocess.run([program, str(rounds)], check=True, capture_output=True, text=True, timeout=600).stdout
    rows = (line.split() for line in lines.splitlines())
    return {name: Row(int(same), int(all_), int(ns) / 1e3, int(most) / 1e3) for name, same, all_, ns, most in rows}


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=400)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        program = build(Path(folder))
        cpus = len(os.sched_getaffinity(0))
        for title, busy in (("alone", 0), (f"beside {cpus} busy processes", cpus)):
            print(title)
            with crowd(busy):
                for name, row in measured(program, given.rounds).items():
                    print(f"  {name:8} {row.same:5} of {row.rounds} on the waker's CPU, {row.median:9.1f} µs, at most "
                          f"{row.most:9.1f}   {MEANING[name]}", flush=True)  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1:])
