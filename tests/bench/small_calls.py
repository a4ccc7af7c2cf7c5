"""Times calls of small models: the C entry beside the reading of their bytes from L2, and Python's run beside the C entry.

    python -m tests.bench.small_calls MODEL.so… [--rounds N]

One thread, µs of CPU time, all three in each round; medians over rounds, of the ratio and the overhead, too. "bytes" are
the weights, inputs and outputs, all that a run has to move; "read" is how long the core reads as many, again and again.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import subprocess
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median

import numpy as np

from onnxc import runtime
from onnxc.feeds import complete_feeds
from onnxc.runtime import InferenceSession, abi
from onnxc.zig import zig_binary

from .limits import Limits

HERE = Path(__file__).parent
LEAST_BYTES = 1 << 12  # what less takes to read is the clock's own time
BLOCK_NANOSECONDS = 2_000_000


def main(arguments: Sequence[str] | None = None) -> None:
    options = parser().parse_args(arguments)
    limits = Limits()
    print(f"{'model':16} {'MB':>6} {'read':>7} {'C':>7} {'ratio':>6} {'Python':>7} {'beyond C':>8}")
    with tempfile.TemporaryDirectory() as folder:
        clock = build(Path(folder))
        for path in options.models:
            row = measure(path, clock, limits, options.rounds)
            print(f"{path.stem:16} {{mb:6.2f}} {{read:7.2f}} {{c:7.2f}} {{ratio:6.2f}} {{python:7.2f}} {{beyond:8.2f}}".format(**row), flush=True)  # fmt: skip


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(prog="tests.bench.small_calls", description="Times calls of small models.")
    found.add_argument("models", nargs="+", type=Path, metavar="MODEL.so", help="compiled models of fixed sizes")
    found.add_argument("--rounds", type=int, default=31, help="rounds of which medians are taken (%(default)s)")
    return found


def build(folder: Path) -> ctypes.CDLL:
    """small_calls.c as a library."""
    library = folder / "small_calls.so"
    flags = ["-O2", "-shared", "-fPIC", f"-I{Path(runtime.__file__).parent}"]
    subprocess.run([zig_binary(), "cc", *flags, str(HERE / "small_calls.c"), "-o", str(library)], check=True)
    found = ctypes.CDLL(str(library))
    found.nanoseconds.restype = ctypes.c_double
    return found


def measure(path: Path, clock: ctypes.CDLL, limits: Limits, rounds: int) -> dict[str, float]:
    """MB that a run moves, µs of reading them, of the C entry and of Python's run, and the medians of what they are apart."""
    session = InferenceSession(path.absolute(), threads=1)
    feeds = complete_feeds(session.get_inputs(), {}, {}, 0)
    results = session.run(None, feeds)
    size = sum(array.nbytes for array in [*map(np.asarray, feeds.values()), *results])
    size += json.loads(session.library.report or '{"weights": {"bytes": 0}}')["weights"]["bytes"]
    call = c_call(session, feeds, results, clock)
    count = max(1, int(BLOCK_NANOSECONDS / call(3)))
    rows = []
    for _ in range(rounds):
        read = max(size, LEAST_BYTES) / limits.reading(max(size, LEAST_BYTES))
        c, python = call(count), python_call(session, feeds, count)
        rows.append((read / 1e3, c / 1e3, c / read, python / 1e3, (python - c) / 1e3))
    return {"mb": size / 1e6} | dict(zip(("read", "c", "ratio", "python", "beyond"), map(median, zip(*rows, strict=True)), strict=True))  # fmt: skip


def c_call(session: InferenceSession, feeds: dict, results: list[np.ndarray], clock: ctypes.CDLL) -> Callable[[int], float]:  # fmt: skip
    """A function of how many runs, which gives the nanoseconds of one."""
    library = session.library
    context = library.create_context(abi.onnxc_options(size=ctypes.sizeof(abi.onnxc_options), threads=1))
    arrays = [np.ascontiguousarray(feeds[value.name]) for value in library.inputs]
    inputs, outputs = tensors(arrays, [value.dtype for value in library.inputs]), tensors(results, [0] * len(results))

    def run(count: int) -> float:
        found = clock.nanoseconds(context, inputs, len(arrays), outputs, len(results), ctypes.c_int32(count))
        if found < 0:
            raise RuntimeError(library.message(context))
        return found

    return run


def tensors(arrays: Sequence[np.ndarray], types: Sequence[int]) -> ctypes.Array:
    found = (abi.onnxc_tensor * max(1, len(arrays)))()
    for tensor, array, dtype in zip(found, arrays, types, strict=False):
        tensor.data, tensor.bytes, tensor.rank, tensor.dtype = array.ctypes.data, array.nbytes, array.ndim, dtype
        tensor.dims = (ctypes.c_int64 * array.ndim)(*array.shape)
    return found


def python_call(session: InferenceSession, feeds: dict, count: int) -> float:
    start = time.thread_time_ns()
    for _ in range(count):
        session.run(None, feeds)
    return (time.thread_time_ns() - start) / count


if __name__ == "__main__":
    main()
