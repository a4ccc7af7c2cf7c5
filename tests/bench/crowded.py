"""How long a run takes while more processes want to run than there are cores, with one thread and with several.

    python -m tests.bench.crowded MODEL [--processes 10] [--threads 1,2] [--runs 2000]

MODEL is an ONNX model, compiled for this CPU, or a compiled one. All processes may use all of this process's CPUs. Wall
time, runs of each number of threads in blocks in turn; the median of runs is what a run takes that keeps its CPU, the
90th percentile tells of those that were interrupted.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from onnxc.api import InferenceSession, compile_for_here, needs_compiling
from onnxc.feeds import complete_feeds

BLOCK = 50  # runs


def _spin() -> None:
    while True:
        pass


@contextlib.contextmanager
def crowd(count: int) -> Iterator[None]:
    """So many processes that do nothing but run."""
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=_spin, daemon=True) for _ in range(count)]
    for process in processes:
        process.start()
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.join()


def measure(artefact: Path, threads: Sequence[int], runs: int) -> dict[int, list[float]]:
    """Milliseconds of each run, by the number of threads."""
    sessions = {count: InferenceSession(artefact, threads=count) for count in threads}
    feeds = complete_feeds(sessions[threads[0]].get_inputs(), {}, {}, seed=0)
    times: dict[int, list[float]] = {count: [] for count in threads}
    while len(times[threads[-1]]) < runs:
        for count, session in sessions.items():
            session.run(None, feeds)
            for _ in range(BLOCK):
                start = time.perf_counter()
                session.run(None, feeds)
                times[count].append(1e3 * (time.perf_counter() - start))
    return times


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--processes", type=int, default=10)
    parser.add_argument("--threads", default="1,2", help="with commas")
    parser.add_argument("--runs", type=int, default=2000)
    given = parser.parse_args(arguments)
    threads = [int(count) for count in given.threads.split(",")]
    with tempfile.TemporaryDirectory() as folder:
        artefact = compile_for_here(given.model, Path(folder)) if needs_compiling(given.model) else given.model
        for title, count in (("alone", 0), (f"beside {given.processes} busy processes", given.processes)):
            with crowd(count):
                times = measure(artefact, threads, given.runs)
            for number, found in times.items():
                middle, late = np.percentile(found, (50, 90))
                print(f"{title:28} {number} threads {middle:9.3f} ms, nine in ten below {late:9.3f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
