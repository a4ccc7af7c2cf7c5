"""Which algorithm is the fastest for which convolution: 40 shapes, each algorithm that can do one checked and timed.

    python -m tests.bench.tuned_convs [--json FILE] [NUMBER …]      (from the repository's top, on a quiet machine)
What the tuner does for a convolution of a model, for each shape: heuristic schedules, weights cold, results within 1e-4
of the direct sum's scale. Fails where an algorithm is wrong, or where one of the four is the fastest nowhere.
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
from onnx import TensorProto, helper, numpy_helper

from onnxc.cache import user_cache
from onnxc.compile_pool import CompilePool
from onnxc.options import Options
from onnxc.runtime.measure import measure_bundle
from onnxc.targets import target_for
from onnxc.tuning.bundle import BundleWriter, Portion
from onnxc.tuning.problems import Convolutions
from onnxc.tuning.tasks import Task

COLD_BYTES = 24_000_000
FAMILIES = ("direct", "im2col", "winograd", "fft")
# side, channels, filters, window and stride of each
SHAPES = [
    *((56, 64, 64, w, 1) for w in (1, 3, 5, 7)), *((28, 128, 128, w, 1) for w in (1, 3, 5)),
    *((14, 256, 256, w, 1) for w in (1, 3, 5)), *((7, 512, 512, w, 1) for w in (1, 3)),
    (56, 64, 128, 3, 2), (28, 128, 256, 3, 2), (14, 256, 512, 3, 2), (56, 64, 256, 1, 1), (56, 256, 64, 1, 1),
    (112, 32, 32, 3, 1), (112, 16, 16, 3, 1), (112, 24, 48, 3, 1), (224, 3, 32, 3, 2), (224, 3, 64, 7, 2),
    (128, 1, 16, 5, 1), (128, 3, 16, 9, 1), (128, 4, 8, 11, 1), (64, 16, 16, 9, 1), (64, 16, 16, 11, 1),
    (64, 32, 32, 13, 1), (32, 32, 32, 7, 1), (32, 64, 64, 9, 1), (32, 16, 64, 3, 1), (24, 48, 96, 3, 1),
    (96, 8, 8, 15, 1), (20, 20, 33, 3, 1), (33, 12, 20, 5, 1), (17, 96, 96, 3, 1), (40, 40, 40, 3, 1),
    (80, 20, 20, 3, 1), (13, 192, 192, 3, 1), (48, 6, 96, 3, 1), (64, 3, 64, 15, 2),
]  # fmt: skip


def model(path: Path, side: int, channels: int, filters: int, window: int, stride: int) -> Path:
    """The convolution between two others, so that it works on channels-last tensors as it would in a network."""
    random = np.random.default_rng(0)
    shapes = {"a": (channels, channels, 1, 1), "w": (filters, channels, window, window), "b": (filters,),
              "c": (8, filters, 1, 1)}  # fmt: skip
    weights = [numpy_helper.from_array(random.standard_normal(s, dtype=np.float32) / 8, n) for n, s in shapes.items()]
    nodes = [
        helper.make_node("Conv", ["x", "a"], ["t0"]),
        helper.make_node("Conv", ["t0", "w", "b"], ["t1"], pads=[window // 2] * 4, strides=[stride] * 2),
        helper.make_node("Relu", ["t1"], ["t2"]),
        helper.make_node("Conv", ["t2", "c"], ["t3"]),
        helper.make_node("GlobalAveragePool", ["t3"], ["y"]),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, channels, side, side))]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, 8, 1, 1))]
    graph = helper.make_graph(nodes, "g", inputs, outputs, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def problem(path: Path, channels: int, filters: int, window: int) -> Task | None:
    """The task of the convolution in the middle; None where there is one algorithm only."""
    marked = f"const f32[{window},{window},{channels},{filters}], const f32[{filters}]"
    return next((t for t in Convolutions(path, Options(mcpu="native")).tasks() if marked in t.signature), None)


def sweep(shape: Sequence[int], folder: Path) -> dict:
    """Times of all algorithms in milliseconds, and the fastest."""
    side, channels, filters, window, stride = shape
    name = f"{side}² {channels}→{filters} {window}×{window}/{stride}"
    task = problem(model(folder / "model.onnx", *shape), channels, filters, window)
    if task is None:
        return {"shape": name, "fastest": "direct", "ms": {}, "wrong": {}}
    writer = BundleWriter(CompilePool(target_for("native"), cache=user_cache()), 1, COLD_BYTES)
    writer.write(folder / "bundle", [Portion(task, range(len(task.candidates)))])
    (result,) = measure_bundle(folder / "bundle")["results"]
    names = [candidate.choice["algorithm"] for candidate in task.candidates]
    ms = {names[0]: result["default_ns"] / 1e6}
    wrong = {}
    for algorithm, told in zip(names[1:], result["candidates"][1:], strict=True):
        if told["verdict"] == "failed":
            wrong[algorithm] = told["why"]
        else:
            ms[algorithm] = told["ns"] / 1e6
    return {"shape": name, "default": names[0], "fastest": names[result["winner"]], "ms": ms, "wrong": wrong,
            "difference": max((r.get("difference", 0.0) for r in result["candidates"]), default=0.0)}  # fmt: skip


def main(arguments: Sequence[str]) -> int:
    chosen = [int(a) for a in arguments if a.isdecimal()] or range(len(SHAPES))
    rows = []
    for number in chosen:
        with tempfile.TemporaryDirectory() as folder:
            rows.append(sweep(SHAPES[number], Path(folder)))
        row = rows[-1]
        times = "  ".join(f"{name} {ms:.4f}" for name, ms in sorted(row["ms"].items(), key=lambda item: item[1]))
        sys.stdout.write(f"{number:2} {row['shape']:24s} {row['fastest']:10s} {times}\n")
        sys.stdout.writelines(f"   {name} is wrong: {why}\n" for name, why in row["wrong"].items())
        sys.stdout.flush()
    fastest = Counter(next(f for f in FAMILIES if row["fastest"].startswith(f)) for row in rows)
    sys.stdout.write(", ".join(f"{family} {fastest[family]}" for family in FAMILIES) + "\n")
    if "--json" in arguments:
        Path(arguments[list(arguments).index("--json") + 1]).write_text(json.dumps(rows, indent=1))
    return int(any(row["wrong"] for row in rows) or (len(rows) == len(SHAPES) and len(fastest) < len(FAMILIES)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
