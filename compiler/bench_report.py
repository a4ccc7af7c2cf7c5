"""This file is the `onnxc bench` command: compiles, calls `bench.measure`, prints a table and writes JSON."""

from __future__ import annotations

import json
import os
import platform
import sys
from pathlib import Path
from typing import Any

from onnxc import bench
from onnxc.errors import UNREADABLE, OnnxcError
from onnxc.leftovers import temporary_folder
from onnxc.link import check_output, write_output
from onnxc.terminal import Terminal


def bench_model(model: Path, arguments: dict[str, Any]) -> None:
    """Measures as the command's arguments say and prints the result; fails where the two sides do not agree."""
    from onnxc.api import compile_for_here, needs_compiling
    from onnxc.cli import compile_arguments, make_feeds
    from onnxc.runtime import InferenceSession

    others = [name.strip() for name in (arguments["against"] or "").split(",") if name.strip()]
    options = compile_arguments(arguments)
    options.pop("threads", None)  # of the run, not of the artefact
    if others and not needs_compiling(model):
        raise OnnxcError(f"{others[0]} cannot run it", file=model, hint="give the .onnx model", exit_code=UNREADABLE)
    bench.check_peers(others)
    if arguments["json_file"] is not None:
        check_output(arguments["json_file"])
    plan = bench.Plan(arguments["threads"], arguments["rounds"], arguments["block_ms"] / 1e3)
    with temporary_folder() as folder, Terminal(arguments["verbose"]) as terminal:
        artefact = compile_for_here(model, folder, options, terminal) if needs_compiling(model) else model
        session = InferenceSession(str(artefact), threads=1)
        feeds = make_feeds(model, session, arguments["inputs"], arguments["seed"], arguments["dims"])
        runners = {"onnxc": artefact} | dict.fromkeys(others, model)
        timings = bench.measure(runners, feeds, plan, lambda done, all_: terminal.stage("measuring", done, all_))
    sys.stdout.write(as_table(model, feeds, plan, timings))
    if arguments["json_file"] is not None:
        facts = json.dumps(as_json(model, feeds, plan, timings), indent=1) + "\n"
        write_output(arguments["json_file"], facts.encode())
    for timing in timings:
        if timing.error is not None:
            raise OnnxcError(timing.error, file=model)
        if timing.difference is not None and timing.difference > bench.AGREE:
            raise OnnxcError(
                f"the outputs of onnxc and {timing.runner} differ by {timing.difference:.2g} of their scale"
            )


def as_table(model: Path, feeds: bench.Feeds, plan: bench.Plan, timings: list[bench.Timing]) -> str:
    """What was measured, a line a runner, and the ratio."""
    shapes = ", ".join(f"{name} {describe_feed(value)}" for name, value in feeds.items())
    clock = "CPU time" if plan.threads == 1 else "wall time"
    plural = "" if plan.threads == 1 else "s"
    lines = [
        f"{model.name} ({shapes})",
        f"{plan.threads} thread{plural} on each side, {clock}, {plan.rounds} interleaved blocks, load {load()}",
        f"{'':24}{'median':>12}{'quartiles':>26}{'runs':>8}{'load and first run':>20}",
    ]
    for timing in timings:
        name = f"{timing.runner} {timing.version}"
        if timing.error is not None:
            lines.append(f"{name:24}{timing.error}")
            continue
        between = " – ".join(duration(value) for value in timing.spread)
        lines.append(f"{name:24}{duration(timing.median):>12}{between:>26}{timing.runs:8}{duration(timing.load):>20}")
    for other in timings[1:]:
        if other.error is None and timings[0].error is None:
            share = bench.ratio(timings[0], other)
            lines.append(
                f"onnxc takes {share:.3f} of {other.runner}'s time (median of the rounds' ratios); "
                f"largest difference {other.difference:.1e} of the outputs' scale"
            )
    return "\n".join(lines) + "\n"


def as_json(model: Path, feeds: bench.Feeds, plan: bench.Plan, timings: list[bench.Timing]) -> dict[str, Any]:
    """The same with every block's time."""
    return {
        "model": str(model),
        "inputs": {name: describe_feed(value) for name, value in feeds.items()},
        "threads": plan.threads,
        "clock": "cpu" if plan.threads == 1 else "wall",
        "machine": platform.platform(),
        "load": load(),
        "runners": [{**vars(timing), "unit": "s"} for timing in timings],
        "ratios": {
            other.runner: bench.ratio(timings[0], other)
            for other in timings[1:]
            if other.error is None and timings[0].error is None
        },
    }


def describe_feed(value: Any) -> str:
    return f"{value.dtype}[{'×'.join(map(str, value.shape))}]"


def duration(seconds: float) -> str:
    """Four digits, in microseconds, milliseconds or seconds."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.4g} {unit}"
    return f"{seconds * 1e6:.4g} µs"


def load() -> str:
    """The machine's load average over the last minute: above the number of threads, others were at work."""
    return f"{os.getloadavg()[0]:.2f}"
