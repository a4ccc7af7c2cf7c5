"""Times how long compiled models take from dlopen to the first result, from Python and from C, and their peak memory."""

from __future__ import annotations

import argparse
import struct
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

import numpy as np

from onnxc import runtime
from onnxc.feeds import complete_feeds
from onnxc.runtime import InferenceSession
from onnxc.zig import zig_binary

HERE = Path(__file__).parent
MEANING = """
Each round is a process of its own; medians over rounds of milliseconds of CPU time (one thread). "load" is the sum of its
parts: from Python making a session, from C dlopen and making a context, then on both sides what the first run takes more
than later ones ("first"). The pages of the library, nearly all of them weights, are brought in before the first run; what
that takes stands apart ("pages"). "faults" are the page faults of C's first run. MB are those of the Python process at its
peak, beside those of Python with numpy alone.
"""
COLUMNS = {
    "load": ("session", "first"),
    "C: load": ("dlopen", "create", "C first"),
}
PARTS = ("session", "first", "peak MB", "Python's", "dlopen", "create", "pages", "C first", "faults")
PYTHON = """
import resource, sys, time
import numpy as np
feeds = dict(np.load(sys.argv[2], allow_pickle=False))
import onnxc.runtime
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.thread_time()
session = onnxc.runtime.InferenceSession(sys.argv[1], threads=1)
created = time.thread_time()
for line in open("/proc/self/maps"):
    if sys.argv[1] in line and "r" in line.split()[1]:
        begin, end = (int(x, 16) for x in line.split()[0].split("-"))
        np.ctypeslib.as_array((np.ctypeslib.ctypes.c_ubyte * (end - begin)).from_address(begin))[::4096].max()
times = []
for _ in range(7):
    begin = time.thread_time()
    session.run(None, feeds)
    times.append(time.thread_time() - begin)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(1e3 * (created - start), 1e3 * (times[0] - min(times[1:])), peak / 1024, before / 1024)
"""


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser().parse_args(arguments)
    shown = ["load", *COLUMNS["load"], "C: load", *COLUMNS["C: load"], "pages", "faults", "peak MB", "Python's"]
    print(f"{'model':16} " + " ".join(f"{name:>8}" for name in shown))
    with tempfile.TemporaryDirectory() as folder:
        program = build(Path(folder))
        for model in options.models:
            row = measure(model.absolute(), program, Path(folder), options.rounds)
            print(f"{model.stem:16} " + " ".join(f"{row[name]:8.{digits(name)}f}" for name in shown), flush=True)


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(
        prog="tests.bench.load_times", description=str(__doc__) + MEANING,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    found.add_argument("models", nargs="+", type=Path, metavar="MODEL.so", help="compiled models")
    found.add_argument("--rounds", type=int, default=5, help="processes of which medians are taken (%(default)s)")
    return found


def digits(name: str) -> int:
    return 0 if name in ("faults", "peak MB", "Python's") else 2


def build(folder: Path) -> Path:
    """The C program beside this file."""
    include = f"-I{Path(runtime.__file__).parent}"
    command = [zig_binary(), "cc", "-O2", include, str(HERE / "load_times.c"), "-o", str(folder / "load_times")]
    subprocess.run(command, check=True)
    return folder / "load_times"


def measure(model: Path, program: Path, folder: Path, rounds: int) -> dict[str, float]:
    """The medians of `PARTS`, and of the sums that `COLUMNS` names."""
    session = InferenceSession(model)
    feeds = complete_feeds(session.get_inputs(), {}, {}, 0)
    np.savez(folder / "feeds.npz", **feeds)
    packed = b"".join(_packed(np.asarray(feeds[value.name], order="C")) for value in session.get_inputs())
    (folder / "inputs").write_bytes(packed)
    rows = []
    for _ in range(rounds):
        python = run([sys.executable, "-c", PYTHON, str(model), str(folder / "feeds.npz")])
        *parts, first, later, faults = run([str(program), str(model), session.library.symbol, str(folder / "inputs")])
        rows.append(dict(zip(PARTS, [*python, *parts, first - later, faults], strict=True)))
    for row in rows:
        row |= {total: sum(row[part] for part in parts) for total, parts in COLUMNS.items()}
    return {name: median(row[name] for row in rows) for name in rows[0]}


def _packed(array: np.ndarray) -> bytes:
    return struct.pack(f"=i{array.ndim + 1}q", array.ndim, *array.shape, array.nbytes) + array.tobytes()


def run(command: list[str]) -> list[float]:
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    return [float(word) for word in found.stdout.split()]


if __name__ == "__main__":
    main()
