"""Measures every algorithm on convolutions of all kinds, and how well the heuristics choose among them.

    python -m tests.bench.conv_sweep [PART OF A NAME …] [--mcpu CPU] [--algorithms A,B] [--json FILE] [--rounds N]

One thread, its CPU time. The algorithms that can do a shape are measured in turn within each round; a line of the table
has their medians in µs, marks the one that the heuristics choose, and gives its regret, its time over the best one's.
Each result is compared with the plain sum in float64: `error` is the largest difference over the largest element.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from statistics import geometric_mean, median

import numpy as np
from onnx import numpy_helper

from onnxc.driver import compile_model
from onnxc.errors import UNREADABLE, OnnxcError
from onnxc.options import Options
from onnxc.passes.conv_algorithms import ALGORITHMS
from onnxc.runtime import InferenceSession

from ..kernels.test_conv import reference
from .conv_shapes import SHAPES, ConvShape, model

BLOCK_NANOSECONDS = 4_000_000


def build(
    shape: ConvShape, algorithm: str | None, folder: Path, mcpu: str = "native"
) -> tuple[InferenceSession | None, str]:
    """The compiled model and the algorithm it uses, `algorithm` or else what the heuristics choose; no session where
    the algorithm cannot do the convolution."""
    path = Path(tempfile.mkstemp(suffix=".so", dir=folder)[1])  # two loaded files must not share a name
    options = Options(mcpu=mcpu, threads=1)
    if algorithm is not None:
        override = path.with_suffix(".toml")
        override.write_text(f'["*"]\nalgorithm = "{algorithm}"\n')
        options = replace(options, override=override)
    try:
        report = compile_model(model(shape, np.random.default_rng(0)), path, options)
    except OnnxcError as refusal:
        if algorithm is None or refusal.exit_code != UNREADABLE:
            raise
        return None, algorithm
    return InferenceSession(str(path), threads=1), chosen(report.log)


def chosen(log: Sequence[tuple[str, str]]) -> str:
    """The algorithm that the passes' log tells of."""
    for name, text in log:
        if name == "use_winograd":
            return "winograd4" if "F(4x4" in text else "winograd2"
        if name.startswith("use_"):
            return name.removeprefix("use_")
    return "direct"


def measure(shape: ConvShape, algorithms: Sequence[str], rounds: int, folder: Path, mcpu: str = "native") -> dict:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((1, *shape.size, shape.channels), np.float32)
    _, default = build(shape, None, folder, mcpu)
    wanted = [name for name in ALGORITHMS if name in {*algorithms, "direct", default}]
    sessions = {name: session for name in wanted if (session := build(shape, name, folder, mcpu)[0]) is not None}
    expected = plain(shape, x)
    errors = {}
    for name, session in sessions.items():
        (result,) = session.run(None, {"x": x})
        errors[name] = float(np.abs(result - expected).max() / np.abs(expected).max())
    times: dict[str, list[float]] = {name: [] for name in sessions}
    for _ in range(rounds):
        for name, session in sessions.items():
            times[name].append(per_call(session, {"x": x}))
    best = {name: median(t) for name, t in times.items()}
    regret = median(a / min(row) for a, *row in zip(times[default], *times.values(), strict=True))
    return {"shape": str(shape), "flops": shape.flops, "ns": best, "errors": errors, "chosen": default,
            "best": min(best, key=best.__getitem__), "regret": regret}  # fmt: skip


def plain(shape: ConvShape, x: np.ndarray) -> np.ndarray:
    """The convolution in float64."""
    w, bias = (numpy_helper.to_array(t) for t in model(shape, np.random.default_rng(0)).graph.initializer)
    rank = len(shape.size)
    last = np.moveaxis(w, (0, 1), (-1, -2))
    return reference(x, last, bias.astype(np.float64), [shape.stride] * rank, [shape.dilation] * rank, shape.pads, 1)


def per_call(session: InferenceSession, feeds: dict) -> float:
    """Nanoseconds of CPU time of a run, over a block of runs."""
    begin, runs = time.thread_time_ns(), 0
    while True:
        session.run(None, feeds)
        runs += 1
        spent = time.thread_time_ns() - begin
        if spent > BLOCK_NANOSECONDS:
            return spent / runs


def line(row: dict) -> str:
    cells = []
    for name in ALGORITHMS:
        ns = row["ns"].get(name)
        mark = "*" if name == row["chosen"] else " "
        cells.append(" " * 11 if ns is None else f"{ns / 1e3:9.1f}{mark} ")
    speed = row["flops"] / row["ns"][row["best"]]
    worst = max(row["errors"].values()) / row["errors"]["direct"]
    return f"{row['shape']:34}{''.join(cells)} {row['regret']:5.2f} {speed:7.1f} {worst:5.1f}"


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", help="only shapes whose name has one of these parts")
    parser.add_argument("--algorithms", default=",".join(ALGORITHMS), help="those to measure, with commas")
    parser.add_argument("--mcpu", default="native", help="the CPU to compile for; this machine runs it")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rounds", type=int, default=7)
    given = parser.parse_args(arguments)
    names = "".join(f"{name:>10} " for name in ALGORITHMS)
    print(f"{'µs':34}{names} regret GFLOP/s error÷direct's")
    rows = []
    for shape in SHAPES:
        if given.parts and not any(part in str(shape) for part in given.parts):
            continue
        with tempfile.TemporaryDirectory() as folder:
            rows.append(measure(shape, given.algorithms.split(","), given.rounds, Path(folder), given.mcpu))
        print(line(rows[-1]))
        sys.stdout.flush()
    right = sum(row["chosen"] == row["best"] for row in rows)
    print(f"chosen best in {right} of {len(rows)}; regret {geometric_mean(row['regret'] for row in rows):.3f} "
          f"(geometric mean), {max(row['regret'] for row in rows):.2f} at most")  # fmt: skip
    if given.json:
        given.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main(sys.argv[1:])
