"""Kernels that take turns by rows: the same bits as one after another, for every window, thread count and buffer size,
and onnxruntime's values."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

import onnxc
from onnxc import pipeline
from onnxc.passes import band_plan, interleave_kernels, row_turns
from tests.ops.oracle import OPSET, run_reference

rng = np.random.default_rng(11)

# Expand, depthwise, project and a residual, as in MobileNetV2; odd sizes, activations, a kernel of 5 with stride 2 and
# uneven pads, a dilated one whose taps leave rows out.
BLOCKS = """g (float[2, 8, 37, 41] x) => (float[2, 8, 37, 41] y, float[2, 12, 19, 20] z, float[2, 8, 17, 21] v) {
    a = Conv <kernel_shape = [1, 1]> (x, w1, b1)
    a6 = Clip (a, zero, six)
    d = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1], group = 24> (a6, w2)
    dr = Relu (d)
    p = Conv <kernel_shape = [1, 1]> (dr, w3)
    y = Add (p, x)
    a2 = Conv <kernel_shape = [1, 1]> (y, w1, b1)
    s = Sigmoid (a2)
    e = Conv <kernel_shape = [5, 5], pads = [2, 1, 2, 2], strides = [2, 2], group = 24> (s, w4)
    h = HardSwish (e)
    z = Conv <kernel_shape = [1, 1]> (h, w5)
    a3 = Conv <kernel_shape = [1, 1]> (y, w1)
    l = Conv <kernel_shape = [3, 3], pads = [3, 3, 3, 3], dilations = [4, 3], strides = [2, 2], group = 24> (a3, w2)
    v = Conv <kernel_shape = [1, 1]> (l, w3)
}"""
BLOCK_WEIGHTS = {"w1": (24, 8, 1, 1), "b1": (24,), "w2": (24, 1, 3, 3), "w3": (8, 24, 1, 1), "w4": (24, 1, 5, 5),
                 "w5": (12, 24, 1, 1)}  # fmt: skip
# Few-channel and plain convolutions, pools of both kinds, one along a line.
POOLS = """g (float[1, 3, 47, 33] x, float[1, 6, 90] t) => (float[1, 16, 11, 8] y, float[1, 20, 22, 16] z, float[1, 20, 44] v) {
    a = Conv <kernel_shape = [7, 7], pads = [3, 3, 3, 3], strides = [2, 2]> (x, w1)
    r = Relu (a)
    m = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1], strides = [2, 2]> (r)
    y = Conv <kernel_shape = [2, 2], strides = [1, 1]> (m, w4)
    c = Conv <kernel_shape = [3, 3], pads = [0, 1, 0, 1]> (x, w2)
    g0 = AveragePool <kernel_shape = [2, 2], strides = [2, 2]> (c)
    z = Conv <kernel_shape = [1, 1]> (g0, w5)
    l = Conv <kernel_shape = [3], pads = [0, 0]> (t, w3)
    v = MaxPool <kernel_shape = [2], strides = [2]> (l)
}"""
POOL_WEIGHTS = {"w1": (16, 3, 7, 7), "w2": (20, 3, 3, 3), "w3": (20, 6, 3), "w4": (16, 16, 2, 2), "w5": (20, 20, 1, 1)}


def model(body: str, weights: dict[str, tuple[int, ...]]) -> onnx.ModelProto:
    made = parser.parse_model(f'<ir_version: 10, opset_import: ["" : {OPSET}]>\n{body}')
    arrays = {name: rng.standard_normal(shape) / max(1, np.prod(shape[1:])) ** 0.5 for name, shape in weights.items()}
    for name, array in {**arrays, "zero": np.array(0), "six": np.array(6)}.items():
        if name in body:
            made.graph.initializer.append(numpy_helper.from_array(np.array(array, np.float32), name))
    return made


def compiled(made: onnx.ModelProto, path: Path, monkeypatch: pytest.MonkeyPatch, *, turns: bool) -> onnxc.Report:
    """Compiles for caches in which even these tensors are large, or without the pass."""
    with monkeypatch.context() as m:
        m.setattr(row_turns, "LARGE", 1 << 40)
        m.setattr(row_turns, "ROOM_OF_MORE", row_turns.ROOM)  # on every core chains as long as they may be
        if not turns:
            kept = tuple(p for p in pipeline.PIPELINE["kernels"] if p is not interleave_kernels.interleave_kernels)
            m.setitem(pipeline.PIPELINE, "kernels", kept)
        return onnxc.compile(made, path, mcpu="native")


@pytest.mark.parametrize("room", [1, 3])
@pytest.mark.parametrize(("body", "weights", "chains"), [(BLOCKS, BLOCK_WEIGHTS, [3, 3, 3]), (POOLS, POOL_WEIGHTS, [2, 3, 3])],
                         ids=["blocks", "pools"])  # fmt: skip
def test_same_bits(body: str, weights: dict, chains: list[int], room: int, tmp_path: Path, monkeypatch) -> None:
    made = model(body, weights)
    feeds = {
        i.name: rng.standard_normal([d.dim_value for d in i.type.tensor_type.shape.dim]).astype(np.float32)
        for i in made.graph.input
    }
    compiled(made, tmp_path / "plain.so", monkeypatch, turns=False)
    monkeypatch.setattr(band_plan, "ROOM", room)
    report = compiled(made, tmp_path / "turns.so", monkeypatch, turns=True)
    lengths = [text.count("k_") for name, text in report.log if name == "interleave_kernels"]
    assert sorted(lengths) == chains
    expected = onnxc.InferenceSession(tmp_path / "plain.so", threads=1).run(None, feeds)
    for threads in (1, 2, 3, 7):
        session = onnxc.InferenceSession(tmp_path / "turns.so", threads=threads)
        for _ in range(20):
            for one, other in zip(session.run(None, feeds), expected, strict=True):
                np.testing.assert_array_equal(one.view(np.int32), other.view(np.int32))
    for one, other in zip(expected, run_reference(made, [feeds])[0], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)
