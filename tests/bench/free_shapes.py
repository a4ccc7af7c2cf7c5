"""Measures the code for free dims beside code for exact shapes, one operator a model.

    python -m tests.bench.free_shapes [PART OF A NAME …] [--folder DIR] [--prepare] [--placements N] [--rounds N]
                                      [--json FILE]

One thread, its CPU time, blocks of both sides in turn (compiler/bench.py); a ratio above 1 is what free dims cost. In
which sets of a cache weights and tensors lie moves times by some 5 %: each line is the median of several placements,
new processes that run new copies of both artefacts, and tells the ratios' range. Which copy comes first takes turns,
and all stay until a line is done: pages just freed are taken first, and would be the same ones again. Where ratios
differ by more than `SPREAD`, as they do for weights that just fail to fit into L2 (one row of 768×768: 0.93 to 1.09),
there are `MORE` times as many placements. Both sides of a run include the call from Python. "cold": products of one
input with so many weights that those are in L2 no more when their turn comes again. `--prepare` only compiles, into
`--folder`, where a later call finds the artefacts: a folder belongs to one version of the compiler.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean, median

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

from onnxc.api import InferenceSession
from onnxc.bench import Feeds, Pair, Plan, measure_pair
from onnxc.driver import compile_model
from onnxc.feeds import complete_feeds
from onnxc.options import Options

from .artefact_folder import add_arguments, artefact_folder

SPREAD = 0.04  # of the first placements' ratios
MORE = 4
COLD_BYTES = 12 << 20  # of weights: several times L2
HEADS, WIDTH = 12, 64
Dims = Sequence[int | str | None]


@dataclass(frozen=True)
class Family:
    """One model with free dims, and the sizes to measure."""

    name: str
    build: Callable[[], ModelProto]
    sizes: Sequence[Mapping[str, int]]


def matmul(k: int, n: int, copies: int = 1) -> ModelProto:
    """x [M, k] by `copies` different weights."""
    weights = {f"w{i}": _numbers(k, n, seed=i) for i in range(copies)}
    nodes = [helper.make_node("MatMul", ["x", name], [f"y{i}"]) for i, name in enumerate(weights)]
    return _model(nodes, {"x": ("M", k)}, {f"y{i}": ("M", n) for i in range(copies)}, weights)


def attention() -> ModelProto:
    """As exporters write it: heads split off q [1, S, 768], k and v [1, T, 768], and joined."""
    nodes = []
    for name, perm in (("q", (0, 2, 1, 3)), ("k", (0, 2, 3, 1)), ("v", (0, 2, 1, 3))):
        nodes.append(helper.make_node("Reshape", [name, "split"], [f"{name}_split"]))
        nodes.append(helper.make_node("Transpose", [f"{name}_split"], [f"{name}_heads"], perm=perm))
    nodes += [
        helper.make_node("MatMul", ["q_heads", "k_heads"], ["products"]),
        helper.make_node("Mul", ["products", "scale"], ["scores"]),
        helper.make_node("Softmax", ["scores"], ["shares"], axis=-1),
        helper.make_node("MatMul", ["shares", "v_heads"], ["result"]),
        helper.make_node("Transpose", ["result"], ["turned"], perm=(0, 2, 1, 3)),
        helper.make_node("Reshape", ["turned", "join"], ["y"]),
    ]
    constants = {
        "split": np.array([0, 0, HEADS, WIDTH]),
        "join": np.array([0, 0, HEADS * WIDTH]),
        "scale": np.float32(WIDTH**-0.5),
    }
    size = HEADS * WIDTH
    return _model(
        nodes, {"q": (1, "S", size), "k": (1, "T", size), "v": (1, "T", size)}, {"y": (1, "S", size)}, constants
    )


def rowwise(op: str, width: int, constants: Sequence[str] = ()) -> ModelProto:
    """x [N, width], each row by itself."""
    node = helper.make_node(op, ["x", *constants], ["y"], axis=-1)
    return _model([node], {"x": ("N", width)}, {"y": ("N", width)}, {name: _numbers(width) for name in constants})


def recurrent(op: str, gates: int, size: int) -> ModelProto:
    """x [S, B, size] through one layer of `size` cells."""
    weights = {"w": _numbers(1, gates * size, size), "r": _numbers(1, gates * size, size)}
    node = helper.make_node(op, ["x", *weights], ["y"], hidden_size=size)
    return _model([node], {"x": ("S", "B", size)}, {"y": ("S", 1, "B", size)}, weights)


def dense(k: int, n: int) -> ModelProto:
    """x [M, k] through a layer with bias and activation."""
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["sums"]), helper.make_node("Relu", ["sums"], ["y"])]
    return _model(nodes, {"x": ("M", k)}, {"y": ("M", n)}, {"w": _numbers(k, n), "b": _numbers(n)})


def batched(batch: int, k: int) -> ModelProto:
    """a [batch, M, k] by b [batch, k, M]."""
    node = helper.make_node("MatMul", ["a", "b"], ["y"])
    return _model([node], {"a": (batch, "M", k), "b": (batch, k, "M")}, {"y": (batch, "M", "M")}, {})


def by_input(k: int, n: int, turned: int = 0) -> ModelProto:
    """a [M, k] by b [k, n], an input as well, or by its transpose."""
    node = helper.make_node("Gemm", ["a", "b"], ["y"], transB=turned)
    return _model([node], {"a": ("M", k), "b": (n, k) if turned else (k, n)}, {"y": ("M", n)}, {})


def conv(channels: int, filters: int, window: int, stride: int = 1, group: int = 1) -> ModelProto:
    """An image [1, channels, H, W], padded so that it keeps its size but for the stride."""
    pads, strides = [window // 2] * 4, [stride] * 2
    node = helper.make_node("Conv", ["x", "w"], ["y"], pads=pads, strides=strides, group=group)
    weights = {"w": _numbers(filters, channels // group, window, window)}
    return _model([node], {"x": (1, channels, "H", "W")}, {"y": (1, filters, None, None)}, weights)


def block(channels: int, wide: int) -> ModelProto:
    """An inverted residual: expand, depthwise 3×3, project, each but the last with an activation."""
    nodes = [
        helper.make_node("Conv", ["x", "expand"], ["wide"]),
        helper.make_node("Relu", ["wide"], ["wide+"]),
        helper.make_node("Conv", ["wide+", "depthwise"], ["deep"], pads=[1] * 4, group=wide),
        helper.make_node("Relu", ["deep"], ["deep+"]),
        helper.make_node("Conv", ["deep+", "project"], ["narrow"]),
        helper.make_node("Add", ["narrow", "x"], ["y"]),
    ]
    weights = {
        "expand": _numbers(wide, channels, 1, 1),
        "depthwise": _numbers(wide, 1, 3, 3),
        "project": _numbers(channels, wide, 1, 1),
    }
    return _model(nodes, {"x": (1, channels, "H", "W")}, {"y": (1, channels, "H", "W")}, weights)


def pool(op: str, channels: int, **attributes) -> ModelProto:
    """An image [1, channels, H, W]."""
    node = helper.make_node(op, ["x"], ["y"], **attributes)
    return _model([node], {"x": (1, channels, "H", "W")}, {"y": (1, channels, None, None)}, {})


def families() -> Iterator[Family]:
    for k, n in ((768, 768), (768, 3072), (384, 1536), (256, 256)):
        rows = [{"M": m} for m in (1, 2, 4, 8, 16, 100)]
        copies = -(-COLD_BYTES // (4 * k * n))
        yield Family(f"matmul {k}x{n}", lambda k=k, n=n: matmul(k, n), rows)
        yield Family(f"matmul {k}x{n} cold", lambda k=k, n=n, copies=copies: matmul(k, n, copies), rows)
    tokens = [(1, 128), (1, 512), (8, 8), (32, 32), (128, 128), (512, 512)]
    yield Family("attention 12x64", attention, [{"S": s, "T": t} for s, t in tokens])
    yield Family("softmax 128", lambda: rowwise("Softmax", 128), [{"N": n} for n in (1, 128, 1536)])
    layernorm = lambda: rowwise("LayerNormalization", 768, ("scale", "bias"))  # noqa: E731
    yield Family("layernorm 768", layernorm, [{"N": n} for n in (1, 16, 128)])
    steps = [{"S": s, "B": b} for s, b in ((1, 1), (32, 1), (32, 8))]
    yield Family("lstm 256", lambda: recurrent("LSTM", 4, 256), steps)
    yield Family("gru 256", lambda: recurrent("GRU", 3, 256), steps)
    images = [{"H": side, "W": side} for side in (7, 14, 56)]
    yield Family("conv 1x1 128", lambda: conv(128, 128, 1), images)
    yield Family("conv 3x3 64", lambda: conv(64, 64, 3), images)
    yield from more_families(images)


def more_families(images: Sequence[Mapping[str, int]]) -> Iterator[Family]:
    yield Family("gemm 512x512 relu", lambda: dense(512, 512), [{"M": m} for m in (1, 8, 64)])
    yield Family("batched 12x64", lambda: batched(12, 64), [{"M": m} for m in (8, 33, 128)])
    rows = [{"M": m} for m in (1, 4, 16, 24, 100)]
    yield Family("by input 1024x1024", lambda: by_input(1024, 1024), rows)
    yield Family("by turned 256x1024", lambda: by_input(256, 1024, 1), rows)
    yield Family("conv 3x3/2 64", lambda: conv(64, 128, 3, 2), images)
    yield Family("conv 1x1/2 128", lambda: conv(128, 256, 1, 2), images)
    yield Family("conv 5x5 32", lambda: conv(32, 32, 5), images)
    yield Family("conv 3x3/2 3", lambda: conv(3, 32, 3, 2), [{"H": side, "W": side} for side in (32, 64, 224)])
    yield Family("depthwise 3x3 96", lambda: conv(96, 96, 3, 1, 96), images)
    yield Family("depthwise 5x5/2 96", lambda: conv(96, 96, 5, 2, 96), images)
    yield Family("inverted 24x144", lambda: block(24, 144), images)
    window = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1] * 4}
    yield Family("max pool 3x3/2 64", lambda: pool("MaxPool", 64, **window), images)
    yield Family("average pool 64", lambda: pool("GlobalAveragePool", 64), images)


def compiled(family: Family, dims: Mapping[str, int], folder: Path) -> Path:
    """The artefact with these dims fixed, from `folder` if it is there."""
    words = [*family.name.replace("/", " by ").split(), *(f"{k}{v}" for k, v in dims.items())]
    path = folder / f"{'_'.join(words)}.so"
    if not path.exists():
        compile_model(family.build(), path, Options(mcpu="native", dims=dict(dims)))
    return path


@dataclass(frozen=True)
class Effort:
    """How long a shape is measured, and in how many placements."""

    plan: Plan
    placements: int


def measure(family: Family, dims: Mapping[str, int], folder: Path, effort: Effort) -> dict:
    """A line of the table, medians over placements; times in seconds, `ratio` generic by exact, `ratios` one a
    placement: the median of its rounds."""
    sides = compiled(family, {}, folder), compiled(family, dims, folder)
    feeds = complete_feeds(InferenceSession(sides[0]).get_inputs(), {}, dims, seed=0)
    with tempfile.TemporaryDirectory() as folder:
        pairs = [place(sides, feeds, effort.plan, Path(folder), turn) for turn in range(effort.placements)]
        if spread(pairs) > SPREAD:
            more = range(effort.placements, MORE * effort.placements)
            pairs += [place(sides, feeds, effort.plan, Path(folder), turn) for turn in more]
    ratios = [median(pair.ratios) for pair in pairs]
    times = {"exact": median(pair.theirs for pair in pairs), "generic": median(pair.ours for pair in pairs)}
    return {"name": family.name, "dims": dict(dims), **times, "ratio": median(ratios), "ratios": ratios}


def place(sides: tuple[Path, Path], feeds: Feeds, plan: Plan, folder: Path, turn: int) -> Pair:
    """Generic beside exact in a placement of their own, the generic's pages taken first in every other `turn`."""
    copies = [folder / f"{turn}_{i}.so" for i in range(len(sides))]  # while a file is there, its pages stay in place
    for i in (0, 1) if turn % 2 == 0 else (1, 0):
        shutil.copy(sides[i], copies[i])
    return measure_pair(copies[0], copies[1], feeds, plan, lambda done, rounds: None)


def spread(pairs: Sequence[Pair]) -> float:
    ratios = [median(pair.ratios) for pair in pairs]
    return max(ratios) - min(ratios)


def line(row: Mapping) -> str:
    sizes = " ".join(f"{k}={v}" for k, v in row["dims"].items())
    times = f"{row['exact'] * 1e3:9.4f} {row['generic'] * 1e3:9.4f}"
    return f"{row['name']:22} {sizes:12} {times} {row['ratio']:6.2f}  {min(row['ratios']):.2f}–{max(row['ratios']):.2f}"


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help="only models whose name has one of these parts")
    add_arguments(parser)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--placements", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--block-ms", type=float, default=15)
    given = parser.parse_args(arguments)
    effort = Effort(Plan(rounds=given.rounds, block_seconds=given.block_ms / 1e3), given.placements)
    chosen = [f for f in families() if not given.parts or any(part in f.name for part in given.parts)]
    with artefact_folder(parser, given) as folder:
        for family in chosen:
            for dims in ({}, *family.sizes):
                compiled(family, dims, folder)
        if not given.prepare:
            report(chosen, folder, effort, given.json)


def report(chosen: Sequence[Family], folder: Path, effort: Effort, out: Path | None) -> None:
    print(f"{'ms':35} {'exact':>9} {'generic':>9}  ratio, of placements")
    rows = []
    for family in chosen:
        for dims in family.sizes:
            rows.append(measure(family, dims, folder, effort))
            print(line(rows[-1]), flush=True)
    found = [row["ratio"] for row in rows]
    print(f"{len(found)} shapes; ratio {geometric_mean(found):.3f} (geometric mean), {max(found):.2f} at most")
    if out:
        out.write_text(json.dumps(rows, indent=1) + "\n")


def _numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32) / np.float32(shape[-1] ** 0.5)


def _model(
    nodes: Sequence, inputs: Mapping[str, Dims], outputs: Mapping[str, Dims], constants: Mapping[str, np.ndarray]
) -> ModelProto:
    infos = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in values.items()]
        for values in (inputs, outputs)
    ]
    initializers = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(nodes, "free", *infos, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


if __name__ == "__main__":
    main(sys.argv[1:])
