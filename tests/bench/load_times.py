"""Times how long compiled models take from dlopen to the first result, from Python and from C, and their peak memory.

    python -m tests.bench.load_times MODEL.so…

Each time in a process of its own, the median of 5: making a session (or dlopen and a context) and the first run, less
what a run takes later on. The pages of the library, nearly all of them weights, are brought in between the two; what
that takes stands apart. Milliseconds of CPU time (one thread), and MB of the Python process at its peak, beside those of
Python with numpy alone.
"""

from __future__ import annotations

import struct
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median

import numpy as np

from onnxc import runtime
from onnxc.feeds import complete_feeds
from onnxc.runtime import InferenceSession
from onnxc.zig import zig_binary

ROUNDS = 5
HERE = Path(__file__).parent
PYTHON = """
import resource, sys, time
import numpy as np
feeds = dict(np.load(sys.argv[2], allow_pickle=False))
import onnxc.runtime
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.process_time()
session = onnxc.runtime.InferenceSession(sys.argv[1], threads=1)
created = time.process_time()
for line in open("/proc/self/maps"):
    if sys.argv[1] in line and "r" in line.split()[1]:
        begin, end = (int(x, 16) for x in line.split()[0].split("-"))
        np.ctypeslib.as_array((np.ctypeslib.ctypes.c_ubyte * (end - begin)).from_address(begin))[::4096].max()
ready = time.process_time()
times = []
for _ in range(7):
    begin = time.process_time()
    session.run(None, feeds)
    times.append(time.process_time() - begin)
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
print(1e3 * (created - start + times[0] - min(times[1:])), 1e3 * (ready - created), peak / 1024, before / 1024)
"""


def main(models: list[str]) -> None:
    print(f"{'model':16} {'Python':>8} {'C':>8} {'pages':>8} {'peak MB':>8} {'of it Python':>12}")
    with tempfile.TemporaryDirectory() as folder:
        program = build(Path(folder))
        for model in map(Path, models):
            python, c, pages, peak, before = measure(model.absolute(), program, Path(folder))
            print(f"{model.stem:16} {python:8.2f} {c:8.2f} {pages:8.2f} {peak:8.0f} {before:12.0f}", flush=True)


def build(folder: Path) -> Path:
    """The C program beside this file."""
    include = f"-I{Path(runtime.__file__).parent}"
    command = [zig_binary(), "cc", "-O2", include, str(HERE / "load_times.c"), "-o", str(folder / "load_times")]
    subprocess.run(command, check=True)
    return folder / "load_times"


def measure(model: Path, program: Path, folder: Path) -> tuple[float, ...]:
    """Milliseconds from Python and from C, of paging in, and the Python process's MB at its peak and before."""
    session = InferenceSession(model)
    feeds = complete_feeds(session.get_inputs(), {}, {}, 0)
    np.savez(folder / "feeds.npz", **feeds)
    packed = b"".join(_packed(np.asarray(feeds[value.name], order="C")) for value in session.get_inputs())
    (folder / "inputs").write_bytes(packed)
    symbol = session.library.symbol
    python = [run([sys.executable, "-c", PYTHON, str(model), str(folder / "feeds.npz")]) for _ in range(ROUNDS)]
    c = [run([str(program), str(model), symbol, str(folder / "inputs")]) for _ in range(ROUNDS)]
    columns = [median(column) for column in zip(*python, strict=True)]
    return columns[0], median(row[0] for row in c), columns[1], columns[2], columns[3]


def _packed(array: np.ndarray) -> bytes:
    return struct.pack(f"=i{array.ndim + 1}q", array.ndim, *array.shape, array.nbytes) + array.tobytes()


def run(command: list[str]) -> list[float]:
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    return [float(word) for word in found.stdout.split()]


if __name__ == "__main__":
    main(sys.argv[1:])
