"""This file measures an artefact against another runtime on the same model, inputs and number of threads.

Each runner lives in a process of its own, pinned to as many CPUs as it has threads. Short blocks of runs alternate in
rotating order, so that whatever else the machine does meets all runners alike; the ratio is taken within each round.
One thread is judged by CPU time, which time-sharing does not change; several by wall time.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from importlib.util import find_spec
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from onnxc.errors import UNREADABLE, OnnxcError
from onnxc.leftovers import ended_at_ctrl_c

Feeds = Mapping[str, Any]
#: Beyond this share of the output's scale two runners do not compute the same.
AGREE = 1e-3
#: No block has more runs than this, however short one is.
MOST_RUNS = 5000


@dataclass(frozen=True)
class Plan:
    """What is measured, and how long."""

    threads: int = 1
    rounds: int = 12
    block_seconds: float = 0.08


@dataclass
class Timing:
    """One runner's times a run in seconds, a value a block, and how its outputs compare with the first runner's."""

    runner: str
    version: str
    load: float = 0.0
    blocks: list[float] = field(default_factory=list)
    runs: int = 0
    difference: float | None = None
    error: str | None = None

    @property
    def median(self) -> float:
        return median(self.blocks)

    @property
    def spread(self) -> tuple[float, float]:
        """The quartiles of the blocks."""
        return quartiles(self.blocks)


def open_onnxc(path: Path, threads: int) -> Callable[[Feeds], Sequence[Any]]:
    """Runs an artefact of onnxc."""
    from onnxc.runtime import InferenceSession

    session = InferenceSession(str(path), threads=threads)
    return lambda feeds: session.run(None, feeds)


def open_onnxruntime(path: Path, threads: int) -> Callable[[Feeds], Sequence[Any]]:
    """Runs a model by onnxruntime on the CPU with all of its optimisations."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda feeds: session.run(None, dict(feeds))


def open_openvino(path: Path, threads: int) -> Callable[[Feeds], Sequence[Any]]:
    """Runs a model by OpenVINO on the CPU for the least latency, in f32 (it would choose bf16 by itself)."""
    import openvino  # pyright: ignore[reportMissingImports]  # installed for measurements only

    options = {
        "INFERENCE_NUM_THREADS": threads,
        "NUM_STREAMS": "1",
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_PRECISION_HINT": "f32",
    }
    compiled = openvino.Core().compile_model(str(path), "CPU", options)
    request, outputs = compiled.create_infer_request(), list(compiled.outputs)

    def run(feeds: Feeds) -> Sequence[Any]:
        results = request.infer(dict(feeds), share_inputs=True, share_outputs=True)
        return [results[output] for output in outputs]

    return run


#: other runtimes to measure against
PEERS = {"onnxruntime": open_onnxruntime, "openvino": open_openvino}
#: `generic` is another artefact of onnxc: the model without variants or without tuning
RUNNERS = {"onnxc": open_onnxc, "generic": open_onnxc, **PEERS}


def check_peers(names: Iterable[str]) -> None:
    """Refuses what is no other runtime or is not installed."""
    for name in names:
        if name not in PEERS:
            raise OnnxcError(
                f"cannot measure against '{name}'", hint=f"known: {', '.join(PEERS)}", exit_code=UNREADABLE
            )
        if find_spec(name) is None:
            raise OnnxcError(f"{name} is not installed", hint=f"pip install {name}", exit_code=UNREADABLE)


def measure(runners: Mapping[str, Path], feeds: Feeds, plan: Plan, tell: Callable[[int, int], None]) -> list[Timing]:
    """Times each runner (a name of RUNNERS, and the file it runs); outputs are compared with the first's.

    A runner that fails is reported with its error and the others go on. `tell(done, rounds)` is called a round.
    """
    workers = {name: Worker(name, path, plan) for name, path in runners.items()}
    with contextlib.ExitStack() as exits:
        for worker in workers.values():
            exits.callback(worker.close)
            exits.enter_context(ended_at_ctrl_c(worker.process.kill))
        timings = {name: worker.load(feeds) for name, worker in workers.items()}
        _compare(list(timings.values()), workers)
        able = [name for name, timing in timings.items() if timing.error is None]
        counts = {name: workers[name].calibrate(plan.block_seconds) for name in able}
        for step in range(plan.rounds):
            turn = step % max(1, len(able))
            for name in able[turn:] + able[:turn]:
                timings[name].blocks.append(workers[name].block(counts[name]))
                timings[name].runs += counts[name]
            tell(step + 1, plan.rounds)
    return list(timings.values())


@dataclass(frozen=True)
class Pair:
    """Two artefacts beside each other: seconds of a run (medians), and the rounds' ratios."""

    ours: float
    theirs: float
    ratios: list[float]


def measure_pair(ours: Path, theirs: Path, feeds: Feeds, plan: Plan, tell: Callable[[int, int], None]) -> Pair:
    """An artefact beside another one of the same model. OnnxcError where one of them fails."""
    timings = measure({"onnxc": ours, "generic": theirs}, feeds, plan, tell)
    for timing, path in zip(timings, (ours, theirs), strict=True):
        if timing.error is not None:
            raise OnnxcError(timing.error, file=path)
    one, other = timings
    return Pair(one.median, other.median, ratios(one, other))


def ratios(ours: Timing, theirs: Timing) -> list[float]:
    """Our time by theirs in each round."""
    return [a / b for a, b in zip(ours.blocks, theirs.blocks, strict=True)]


def ratio(ours: Timing, theirs: Timing) -> float:
    """The median over rounds of our time by theirs."""
    return median(ratios(ours, theirs))


def quartiles(values: Sequence[float]) -> tuple[float, float]:
    """The lower and the upper one."""
    low, high = np.percentile(values, (25, 75))
    return float(low), float(high)


class Worker:
    """A process that runs one model on request."""

    def __init__(self, runner: str, path: Path, plan: Plan) -> None:
        context = multiprocessing.get_context("spawn")
        self.runner, self.clock = runner, time.process_time if plan.threads == 1 else time.perf_counter
        self.pipe, theirs = context.Pipe()
        arguments = (theirs, runner, path, plan.threads)
        self.process = context.Process(target=serve, args=arguments, daemon=True)
        blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # inherited: Ctrl-C is the parent's
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        theirs.close()

    def load(self, feeds: Feeds) -> Timing:
        """Opens the model and runs it once; the timing has the error where that fails."""
        timing = Timing(self.runner, version_of(self.runner))
        try:
            timing.load, self.outputs = self.ask("load", feeds)
        except OnnxcError as error:
            timing.error = str(error)
        return timing

    def calibrate(self, seconds: float) -> int:
        """How many runs fill a block of `seconds`, after some that warm caches and threads up."""
        self.ask("block", 2)
        return int(min(MOST_RUNS, max(1, seconds / max(1e-7, min(self.ask("block", 1) for _ in range(3))))))

    def block(self, count: int) -> float:
        """Seconds a run over a block of `count` runs."""
        return self.ask("block", count)

    def ask(self, request: str, argument: Any) -> Any:
        try:
            self.pipe.send((request, argument))
            done, answer = self.pipe.recv()
        except (EOFError, BrokenPipeError, ConnectionResetError):
            self.process.join()
            raise OnnxcError(f"{self.runner} ended with exit code {self.process.exitcode}") from None
        if not done:
            raise OnnxcError(f"{self.runner}: {answer}")
        return answer

    def close(self) -> None:
        self.pipe.close()
        self.process.join(timeout=5)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()


def serve(pipe: Connection, runner: str, path: Path, threads: int) -> None:
    """The worker's side: answers requests until the pipe closes."""
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    clock = time.process_time if threads == 1 else time.perf_counter
    run: Callable[[Feeds], Sequence[Any]] | None = None
    feeds: Feeds = {}
    while True:
        try:
            request, argument = pipe.recv()
        except EOFError:
            return
        try:
            if request == "load":
                start, feeds = time.perf_counter(), argument
                run = RUNNERS[runner](path, threads)
                outputs = run(feeds)
                answer: Any = time.perf_counter() - start, outputs
            else:
                assert run is not None
                run(feeds)  # the caches are its own again
                start = clock()
                for _ in range(argument):
                    run(feeds)
                answer = (clock() - start) / argument
            pipe.send((True, answer))
        except BrokenPipeError:  # the parent is gone
            return
        except Exception as error:  # whatever a runtime raises is told to the user, not handled
            pipe.send((False, " ".join(str(error).split()) or type(error).__name__))


def _compare(timings: Sequence[Timing], workers: Mapping[str, Worker]) -> None:
    """Sets each later timing's difference from the first one's outputs, as a share of the output's scale."""
    if not timings or timings[0].error is not None:
        return
    want = workers[timings[0].runner].outputs
    for timing in timings[1:]:
        if timing.error is None:
            timing.difference = _difference(workers[timing.runner].outputs, want)


def _difference(got: Any, want: Any) -> float:
    if isinstance(want, list | tuple):
        if len(got) != len(want):
            return float("inf")
        return max((_difference(g, w) for g, w in zip(got, want, strict=True)), default=0.0)
    if isinstance(want, dict):
        return max((_difference(got.get(key), value) for key, value in want.items()), default=0.0)
    a, b = np.asarray(got), np.asarray(want)
    if a.shape != b.shape:
        return float("inf")
    if a.dtype.kind in "OUSb" or not a.size:
        return 0.0 if (a == b).all() else float("inf")
    a, b = a.astype(np.float64), b.astype(np.float64)
    finite = np.isfinite(b)
    if (np.isnan(a) != np.isnan(b)).any() or (a[~finite & ~np.isnan(b)] != b[~finite & ~np.isnan(b)]).any():
        return float("inf")
    scale = float(np.abs(b[finite]).max(initial=0.0)) or 1.0
    return float(np.abs(a[finite] - b[finite]).max(initial=0.0)) / scale


def version_of(runner: str) -> str:
    """The version; onnxc's own, installed or not."""
    import onnxc

    return onnxc.__version__ if RUNNERS[runner] is open_onnxc else version(runner)
