"""Concats that are written in place: by every kind of kernel, read in part and as a whole, at sizes known late, in
branches and by two Concats at once; against onnxruntime's results."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper, parser

import onnxc
from tests.ops.oracle import OPSET, difference, f32, run_compiled, run_reference

rng = np.random.default_rng(5)


def model(body: str, weights: dict[str, tuple[int, ...]]) -> onnx.ModelProto:
    made = parser.parse_model(f'<ir_version: 10, opset_import: ["" : {OPSET}]>\n{body}')
    for name, shape in weights.items():
        array = rng.standard_normal(shape).astype(np.float32) / np.float32(np.prod(shape[1:]) ** 0.5)
        made.graph.initializer.append(numpy_helper.from_array(array, name))
    made.graph.initializer.append(numpy_helper.from_array(f32(4) * 0 + np.float32([1, 1, 2, 2]), "scales"))
    return made


# Every producer, and every reader of a part and of the whole: direct, depthwise, few-channel (patch), Winograd-sized,
# transposed, pool, resize, map, a residual add in the epilogue of a convolution.
NET = """g (float[N, 16, 12, 12] x) => (float[N, 40, 12, 12] y, float[N, 80, 12, 12] z, float[N, 16, 12, 12] both) {
    a = Conv <kernel_shape = [1, 1]> (x, w1)
    b = Relu(a)
    c = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1], group = 16> (b, w2)
    d = MaxPool <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (b)
    e = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (d, w3)
    f = Sigmoid(e)
    h = MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (e)
    up = Resize <mode = "nearest"> (h, , scales)
    t = ConvTranspose <kernel_shape = [2, 2], strides = [2, 2]> (h, w4)
    z = Concat <axis = 1> (b, d, f, up, t)
    r = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (z, w5)
    s = Relu(r)
    both = Add(s, b)
    q = Conv <kernel_shape = [1, 1]> (both, w6)
    y = Concat <axis = 1> (q, s)
}"""
WEIGHTS = {"w1": (16, 16, 1, 1), "w2": (16, 1, 3, 3), "w3": (16, 16, 3, 3), "w4": (16, 16, 2, 2), "w5": (16, 80, 3, 3),
           "w6": (24, 16, 1, 1)}  # fmt: skip


@pytest.mark.parametrize("batches", [(1,), (3, 2)], ids=["one", "several"])
def test_kernels_write_and_read_parts(batches: tuple[int, ...]) -> None:
    made = model(NET, WEIGHTS)
    if batches == (1,):
        made.graph.input[0].type.tensor_type.shape.dim[0].dim_value = 1
    compare(made, [{"x": f32(n, 16, 12, 12)} for n in batches], joins=2)


# The parts of a list of tokens (one of them twice) and of their features (one an output too, one an input).
LISTS = """g (float[1, 7, 16] x, float[1, 3, 16] w) => (float[1, 16, 16] y, float[1, 7, 80] z, float[1, 7, 16] a) {
    a = Tanh(x)
    b = MatMul(a, m)
    c = Relu(b)
    d = Softmax <axis = -1> (w)
    e = Neg(w)
    y0 = Concat <axis = 1> (d, e, d)
    y1 = Concat <axis = 1> (y0, c)
    y = Identity(y1)
    h = Neg(a)
    z = Concat <axis = 2> (h, a, x, b, h)
}"""


def test_lists_and_features() -> None:
    compare(model(LISTS, {"m": (16, 16)}), [{"x": f32(1, 7, 16), "w": f32(1, 3, 16)}], joins=2)


# In a branch, whose parts come from inside and from outside; two Concats of one part.
BRANCH = """g (float[2, 6, 16] x, bool c) => (float[2, 6, 48] y, float[2, 6, 32] z) {
    a = Tanh(x)
    b = MatMul(a, m)
    y = If (c) <then_branch = t () => (float[2, 6, 48] p) { u = Neg(b) v = MatMul(u, m) p = Concat <axis = 2> (u, v, a) },
                else_branch = e () => (float[2, 6, 48] q) { w = Exp(b) q = Concat <axis = 2> (w, b, b) }>
    z = Concat <axis = 2> (b, a)
}"""


def test_branches() -> None:
    compare(model(BRANCH, {"m": (16, 16)}), [{"x": f32(2, 6, 16), "c": np.array(c)} for c in (True, False)], joins=3)


# Dense blocks: each Concat takes the parts of the one before, where they lie, and one more.
DENSE = """g (float[2, 16, 9, 9] x) => (float[2, 16, 9, 9] y) {
    a = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (x, w1)
    b = Concat <axis = 1> (x, a)
    c = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (b, w2)
    d = Concat <axis = 1> (x, a, c)
    e = Conv <kernel_shape = [3, 3], pads = [1, 1, 1, 1]> (d, w3)
    f = Concat <axis = 1> (x, a, c, e)
    y = Conv <kernel_shape = [1, 1]> (f, w4)
}"""


def test_dense_blocks() -> None:
    weights = {"w1": (16, 16, 3, 3), "w2": (16, 32, 3, 3), "w3": (16, 48, 3, 3), "w4": (16, 64, 1, 1)}
    compare(model(DENSE, weights), [{"x": f32(2, 16, 9, 9)}], joins=3)


def compare(made: onnx.ModelProto, runs: list[dict[str, np.ndarray]], joins: int) -> None:
    """The results, and how many Concats are made in place."""
    onnx.checker.check_model(made)
    with tempfile.TemporaryDirectory() as folder:
        onnxc.compile(made, Path(folder) / "m.mlir", mcpu="native", emit="kernels")
        assert (Path(folder) / "m.mlir").read_text().count('"kernel.join"') == joins
    for ours, theirs in zip(run_compiled(made, runs), run_reference(made, runs), strict=True):
        for output, got, want in zip(made.graph.output, ours, theirs, strict=True):
            message = difference(got, want, 1e-5)
            assert not message, f"{helper.printable_value_info(output)}: {message}"
