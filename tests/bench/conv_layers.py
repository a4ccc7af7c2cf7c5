"""Times models of many equal convolutions, a layer of them: few pixels by weights beyond L2, and chains with SiLU.

    python -m tests.bench.conv_layers [PART OF A NAME …] [--threads 1] [--rounds 6]
    python -m tests.bench.conv_layers --folder NEW --prepare          (with one version of the compiler)
    python -m tests.bench.conv_layers --folder NEW --beside OLD       (both prepared)

"direct": the direct sum is asked for, and layers are as many as make weights come from L3 or memory each time. "SiLU":
what the heuristics choose, five layers one after the other. One process each, blocks in turn (compiler/bench.py); with
`--beside` a second column is the other version's, and the ratio the median of the rounds'.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from onnxc.api import InferenceSession
from onnxc.bench import Plan, measure, measure_pair
from onnxc.driver import compile_model
from onnxc.feeds import complete_feeds
from onnxc.options import Options

from .artefact_folder import add_arguments, artefact_folder


@dataclass(frozen=True)
class Layers:
    """`count` convolutions of a square image, padded so that it keeps its size before strides: beside each other, all
    of one input, by the direct sum; or, with `silu`, one after the other."""

    side: int
    channels: int
    filters: int
    window: int
    count: int
    stride: int = 1
    silu: bool = False

    @property
    def name(self) -> str:
        steps = f"/{self.stride}" if self.stride > 1 else ""
        what = "SiLU" if self.silu else "direct"
        return f"{self.side}²{steps} {self.channels}→{self.filters} {self.window}×{self.window} {what}"


LAYERS = (
    Layers(7, 512, 512, 3, 11), Layers(7, 1024, 1024, 3, 3), Layers(7, 160, 160, 5, 12),
    Layers(14, 256, 512, 3, 12, stride=2), Layers(7, 256, 512, 3, 12), Layers(8, 384, 384, 3, 12),
    Layers(80, 16, 16, 3, 5, silu=True), Layers(40, 32, 32, 3, 5, silu=True), Layers(56, 64, 64, 3, 5, silu=True),
)  # fmt: skip


def model(layers: Layers) -> onnx.ModelProto:
    rng, k = np.random.default_rng(0), layers.window
    scale = np.float32((layers.channels * k * k) ** -0.5)
    weights, nodes, x = {}, [], "x"
    for i in range(layers.count):
        weights[f"w{i}"] = rng.standard_normal((layers.filters, layers.channels, k, k), np.float32) * scale
        conv = f"c{i}" if layers.silu else f"y{i}"
        nodes.append(
            helper.make_node("Conv", [x, f"w{i}"], [conv], conv, pads=[k // 2] * 4, strides=[layers.stride] * 2)
        )
        if layers.silu:
            nodes += [
                helper.make_node("Sigmoid", [conv], [f"s{i}"]),
                helper.make_node("Mul", [conv, f"s{i}"], [f"y{i}"]),
            ]
            x = f"y{i}"
    out = (layers.side - 1) // layers.stride + 1
    shapes = (1, layers.channels, layers.side, layers.side), (1, layers.filters, out, out)
    last = layers.count - 1
    results = [f"y{last}"] if layers.silu else [f"y{i}" for i in range(layers.count)]
    values = [
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name in names]
        for names, shape in zip((["x"], results), shapes, strict=True)
    ]
    initializers = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "layers", *values, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


def compiled(layers: Layers, folder: Path) -> Path:
    """The artefact for this CPU, from `folder` if it is there."""
    path = folder / f"{layers.name.replace(' ', '_').replace('/', 's')}.so"
    if not path.exists():
        override = folder / "direct.toml"
        override.write_text('["*"]\nalgorithm = "direct"\n')
        compile_model(model(layers), path, Options(mcpu="native", override=None if layers.silu else override))
    return path


def row(layers: Layers, folder: Path, other: Path | None, plan: Plan) -> str:
    """A line of the table: milliseconds a layer, and beside another version's artefact its time and the ratio."""
    path = compiled(layers, folder)
    feeds = complete_feeds(InferenceSession(path).get_inputs(), {}, {}, seed=0)
    scale = 1e3 / layers.count
    if other is None:
        (timing,) = measure({"onnxc": path}, feeds, plan, lambda done, rounds: None)
        return f"{layers.name:24} {scale * timing.median:9.3f}"
    pair = measure_pair(path, other / path.name, feeds, plan, lambda done, rounds: None)
    return f"{layers.name:24} {scale * pair.ours:9.3f} {scale * pair.theirs:9.3f} {median(pair.ratios):6.2f}"


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", help="only layers whose name has one of these parts")
    add_arguments(parser)
    parser.add_argument("--beside", type=Path, help="a folder that another version has prepared")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=6)
    given = parser.parse_args(arguments)
    chosen = [layers for layers in LAYERS if not given.parts or any(part in layers.name for part in given.parts)]
    with artefact_folder(parser, given) as folder:
        for layers in chosen:
            compiled(layers, folder)
        if given.prepare:
            return
        print(f"{'ms a layer':24} {'now':>9} {'' if given.beside is None else '   before  ratio'}")
        for layers in chosen:
            print(row(layers, folder, given.beside, Plan(given.threads, given.rounds)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
