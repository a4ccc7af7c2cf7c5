"""Which algorithm is the fastest for which convolution, as the tuner finds it: each that can do it is checked and timed.

    python -m tests.bench.tuned_convs [PART OF A NAME …] [--json FILE]      (from the repository's top, on a quiet machine)
The shapes are those of conv_shapes.py. As for a convolution of a model: heuristic schedules, weights cold, results within
1e-4 of the direct sum's scale. Fails where an algorithm is wrong, or where one of the four is the fastest nowhere.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx

from onnxc.cache import user_cache
from onnxc.compile_pool import CompilePool
from onnxc.options import Options
from onnxc.runtime.measure import measure_bundle
from onnxc.targets import target_for
from onnxc.tuning.bundle import BundleWriter, Portion
from onnxc.tuning.problems import Algorithms
from onnxc.tuning.tasks import Task

from .conv_shapes import SHAPES, ConvShape, model

COLD_BYTES = 24_000_000
FAMILIES = ("direct", "im2col", "winograd", "fft")


def problem(shape: ConvShape, folder: Path) -> Task | None:
    """The convolution as a task of the tuner; None where there is one algorithm only."""
    onnx.save(model(shape, np.random.default_rng(0)), folder / "model.onnx")
    tasks = Algorithms(folder / "model.onnx", Options(mcpu="native")).tasks()
    return tasks[0] if tasks else None


def sweep(shape: ConvShape, folder: Path) -> dict:
    """Times of all algorithms in milliseconds, and the fastest."""
    task = problem(shape, folder)
    if task is None:
        return {"shape": str(shape), "fastest": "direct", "ms": {}, "wrong": {}}
    writer = BundleWriter(CompilePool(target_for("native"), cache=user_cache()), 1, COLD_BYTES)
    writer.write(folder / "bundle", [Portion(task, range(len(task.candidates)))])
    (result,) = measure_bundle(folder / "bundle")["results"]
    names = [candidate.choice["algorithm"] for candidate in task.candidates]
    ms, wrong = {names[0]: result["default_ns"] / 1e6}, {}
    for algorithm, told in zip(names[1:], result["candidates"][1:], strict=True):
        if told["verdict"] == "failed":
            wrong[algorithm] = told["why"]
        else:
            ms[algorithm] = told["ns"] / 1e6
    difference = max(told.get("difference", 0.0) for told in result["candidates"])
    return {"shape": str(shape), "default": names[0], "fastest": names[result["winner"]], "ms": ms, "wrong": wrong,
            "difference": difference}  # fmt: skip


def show(row: dict) -> str:
    times = "  ".join(f"{name} {ms:.4f}" for name, ms in sorted(row["ms"].items(), key=lambda item: item[1]))
    wrong = "".join(f"   {name} is wrong: {why}\n" for name, why in row["wrong"].items())
    return f"{row['shape']:28s} {row['fastest']:10s} {times}\n{wrong}"


def main(arguments: Sequence[str]) -> int:
    file = arguments[list(arguments).index("--json") + 1] if "--json" in arguments else None
    parts = [a for a in arguments if a not in ("--json", file)]
    chosen = [shape for shape in SHAPES if not parts or any(part in str(shape) for part in parts)]
    rows = []
    for shape in chosen:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(sweep(shape, Path(folder)))
        sys.stdout.write(show(rows[-1]))
        sys.stdout.flush()
    fastest = Counter(next(f for f in FAMILIES if row["fastest"].startswith(f)) for row in rows)
    sys.stdout.write(", ".join(f"{family} {fastest[family]}" for family in FAMILIES) + "\n")
    if file is not None:
        Path(file).write_text(json.dumps(rows, indent=1))
    return int(any(row["wrong"] for row in rows) or (not parts and len(fastest) < len(FAMILIES)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
