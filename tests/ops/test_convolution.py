"""Convolutions whose algorithm the heuristics choose: errors against float64, threads, what strict leaves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnxc
from onnxc.runtime.errors import ModelError

from ..kernels.test_conv import reference

RNG = np.random.default_rng(0)
# images, size, channels, filters, window, pads, the pass that takes it
CASES = [
    (2, (20, 23), 32, 48, (7, 7), [3, 3, 3, 3], "use_fft"),
    (1, (28, 28), 64, 40, (5, 5), [2, 2, 0, 1], "use_fft"),
    (1, (40, 17), 17, 33, (3, 9), [1, 4, 1, 4], "use_fft"),
    (3, (300,), 32, 64, (31,), [30, 0], "use_fft"),
    (1, (21, 30), 48, 64, (7, 1), [3, 0, 3, 0], "use_fft"),
    (2, (33, 28), 48, 64, (3, 3), [1, 1, 1, 1], "use_winograd"),
    (2, (5, 21, 18), 16, 24, (3, 3, 3), [1, 1, 1, 1, 1, 1], "use_winograd"),
    (1, (4, 20, 24), 24, 128, (2, 3, 3), [0, 1, 1, 1, 1, 1], "use_winograd"),
    (1, (9000,), 16, 16, (63,), [31, 31], "use_fft"),
]  # fmt: skip
ERROR = 2.5  # rms, in units of the plain sum's: Fourier's 0.4 to 1.8, Winograd's 2.2


def conv_model(images, size, w, bias, pads):
    """Conv and Relu with a free batch."""
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [images, c, *dims])
        for name, c, dims in (("x", w.shape[1], size), ("y", w.shape[0], [None] * len(size)))
    )
    nodes = [helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=pads), helper.make_node("Relu", ["c"], ["y"])]
    constants = [numpy_helper.from_array(w, "w"), numpy_helper.from_array(bias, "b")]
    graph = helper.make_graph(nodes, "g", [x], [y], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def last(array):
    return np.moveaxis(array, 1, -1)


@pytest.mark.parametrize("images, size, c, m, window, pads, taken", CASES)
def test_errors(images, size, c, m, window, pads, taken, tmp_path: Path):
    x = RNG.standard_normal((images, c, *size), np.float32)
    w, bias = RNG.standard_normal((m, c, *window), np.float32), RNG.standard_normal(m, np.float32)
    model = conv_model("N" if images > 1 else 1, size, w, bias, pads)
    ones = [1] * len(size)
    weights = np.moveaxis(w, (0, 1), (-1, -2))
    exact = np.maximum(reference(last(x), weights, bias.astype(np.float64), ones, ones, pads, 1), 0)
    results = {}
    for strict in (False, True):
        report = onnxc.compile(model, tmp_path / f"{strict}.so", mcpu="native", strict=strict)
        assert any(name == taken for name, _ in report.log) != strict
        one, two = (
            onnxc.InferenceSession(str(tmp_path / f"{strict}.so"), threads=n).run(None, {"x": x})[0] for n in (1, 2)
        )
        assert one.tobytes() == two.tobytes()
        results[strict] = np.sqrt(np.mean((last(one) - exact) ** 2))
    assert results[False] <= ERROR * results[True]
    (peer,) = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": x})
    np.testing.assert_allclose(one, peer, atol=1e-5 * np.abs(exact).max(), rtol=0)


# channels, filters, window, pads, the pass that takes it though images may have any size
FREE = [
    (64, 48, (3, 3), [1, 1, 1, 1], "use_winograd"),
    (17, 33, (3, 3), [2, 0, 1, 1], "use_winograd"),
    (32, 48, (5, 5), [0, 0, 0, 0], "use_fft"),
    (48, 33, (1, 9), [0, 4, 0, 4], "use_fft"),
    (32, 64, (31,), [30, 0], "use_fft"),
]
SIZES = [(1, 1, 1), (1, 2, 3), (2, 0, 5), (1, 5, 0), (0, 5, 5), (1, 5, 5), (2, 33, 28), (1, 64, 65), (3, 7, 130)]


def free_model(w, bias, pads):
    """Conv and Relu over images of free sizes, channels last outside."""
    sides = ["H", "W"][: w.ndim - 2]
    rank = len(sides)
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", *dims, c])
        for name, c, dims in (("x", w.shape[1], sides), ("y", w.shape[0], [None] * rank))
    )
    nodes = [
        helper.make_node("Transpose", ["x"], ["first"], perm=[0, rank + 1, *range(1, rank + 1)]),
        helper.make_node("Conv", ["first", "w", "b"], ["c"], pads=pads, name="conv"),
        helper.make_node("Relu", ["c"], ["r"]),
        helper.make_node("Transpose", ["r"], ["y"], perm=[0, *range(2, rank + 2), 1]),
    ]
    constants = [numpy_helper.from_array(w, "w"), numpy_helper.from_array(bias, "b")]
    graph = helper.make_graph(nodes, "g", [x], [y], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def run(session, x):
    """The result, or why there is none."""
    try:
        return session.run(None, {"x": x})[0]
    except ModelError as error:
        return str(error)


@pytest.mark.parametrize("c, m, window, pads, taken", FREE)
def test_images_of_any_size(c, m, window, pads, taken, tmp_path: Path):
    """Also empty ones, and windows larger than the image, which are refused in the same words as by the plain sum."""
    rank = len(window)
    w = RNG.standard_normal((m, c, *window), np.float32)
    bias = RNG.standard_normal(m, np.float32)
    model = free_model(w, bias, pads)
    for strict in (False, True):
        report = onnxc.compile(model, tmp_path / f"{strict}.so", mcpu="native", strict=strict)
        assert any(name == taken for name, _ in report.log) != strict
    plain = onnxc.InferenceSession(str(tmp_path / "True.so"), threads=1)
    one, two = (onnxc.InferenceSession(str(tmp_path / "False.so"), threads=n) for n in (1, 2))
    weights, ones = np.moveaxis(w, (0, 1), (-1, -2)), [1] * rank
    for images, *size in SIZES:
        x = RNG.standard_normal((images, *size[:rank], c), np.float32)
        expected, result, other = (run(session, x) for session in (plain, one, two))
        if isinstance(expected, str):
            assert result == other == expected
            continue
        assert result.shape == expected.shape
        assert result.tobytes() == other.tobytes()
        if expected.size:
            exact = np.maximum(reference(x, weights, bias.astype(np.float64), ones, ones, pads, 1), 0)
            np.testing.assert_allclose(result, exact, rtol=0, atol=1e-5 * np.abs(exact).max())


@pytest.mark.parametrize("free", [("n", "c", 8, 9), (1, "c", "h", 9), (1, "c", 8, 9), ("n", "c", "h", "w")])
@pytest.mark.parametrize(
    "op, window, attributes",
    [
        ("Conv", (16, 8, 3, 3), {"pads": [1] * 4}),
        ("Conv", (8, 1, 3, 3), {"group": 8}),
        ("Conv", (16, 4, 3, 3), {"group": 2}),
        ("Conv", (24, 8, 1, 1), {}),
        ("ConvTranspose", (8, 4, 4, 4), {"strides": [2, 2]}),
        ("ConvTranspose", (8, 1, 3, 3), {"group": 8}),
    ],
)
def test_channels_that_only_the_weights_tell(op, window, attributes, free, tmp_path: Path):
    """Exporters leave every dim of an input free: the number of channels is that of the weights, or the run fails."""
    w = numpy_helper.from_array(RNG.standard_normal(window, np.float32), "w")
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, d) for n, d in (("x", free), ("y", [None] * 4)))
    graph = helper.make_graph([helper.make_node(op, ["x", "w"], ["y"], name="node", **attributes)], "g", [x], [y], [w])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnxc.compile(model, tmp_path / "m.so", mcpu="native", variants=["c=8"])
    session = onnxc.InferenceSession(tmp_path / "m.so")
    image = RNG.standard_normal((1, 8, 8, 9), np.float32)
    want = onnxruntime.InferenceSession(model.SerializeToString()).run(None, {"x": image})[0]
    for taken in ("c=8", "generic"):
        got = session.run(None, {"x": image})[0]
        assert session.variant.name == taken
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)
        onnxc.compile(model, tmp_path / "g.so", mcpu="native")
        session = onnxc.InferenceSession(tmp_path / "g.so")
    with pytest.raises(ModelError, match="node 'node': input channels: c and 8 differ"):
        session.run(None, {"x": RNG.standard_normal((1, 16, 8, 9), np.float32)})
