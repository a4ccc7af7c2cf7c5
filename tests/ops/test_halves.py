"""Operators on f16 and bf16: against the same operator in f32 on the same numbers, rounded once."""

from __future__ import annotations

import re

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper

import onnxc
from tests.ops.oracle import OPSET, difference, f32, run_compiled, run_reference

HALVES = {"f16": (np.float16, 2e-3), "bf16": (ml_dtypes.bfloat16, 1.6e-2)}

UNARY = [
    "Exp",
    "Tanh",
    "Sigmoid",
    "Erf",
    "Sqrt",
    "Relu",
    "Abs",
    "Neg",
    "Floor",
    "Softplus",
    "Gelu",
    "Elu",
    "LeakyRelu",
    "HardSigmoid",
    "HardSwish",
    "Reciprocal",
    "Softmax",
    "LogSoftmax",
    "GlobalAveragePool",
    "GlobalMaxPool",
    "ReduceSum",
    "ReduceMean",
    "ReduceMax",
    "ReduceL2",
]


def model(dtype: type) -> tuple[onnx.ModelProto, list[str]]:
    """Unary operators on "x" [2, 3, 40], binary ones on "x" and "z", a LayerNormalization and a MaxPool."""
    nodes = [helper.make_node(op, ["x"], [f"y_{op}"]) for op in UNARY]
    nodes += [helper.make_node(op, ["x", "w"], [f"y_{op}"]) for op in ("Add", "Mul", "Div", "Max", "Pow")]
    nodes.append(helper.make_node("MatMul", ["x", "z"], ["y_MatMul"]))
    nodes += [
        helper.make_node("LayerNormalization", ["x", "w", "w"], ["y_LayerNormalization"]),
        helper.make_node("MaxPool", ["x"], ["y_MaxPool"], kernel_shape=[3]),
        helper.make_node("AveragePool", ["x"], ["y_AveragePool"], kernel_shape=[3]),
        helper.make_node("Transpose", ["x"], ["y_Transpose"]),
        helper.make_node("Concat", ["x", "x"], ["y_Concat"], axis=0),
    ]
    type_ = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    shapes = {"x": [2, 3, 40], "z": [2, 40, 40], "w": [40]}
    outputs = [o for n in nodes for o in n.output]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, type_, s) for n, s in shapes.items()],
        [onnx.ValueInfoProto(name=o) for o in outputs],
    )
    typed = onnx.shape_inference.infer_shapes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)]))
    return helper.make_model(typed.graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10), outputs


@pytest.mark.parametrize("name", HALVES)
def test_halves(name):
    dtype, tolerance = HALVES[name]
    feeds = {"x": np.abs(f32(2, 3, 40)) + 0.1, "z": f32(2, 40, 40), "w": np.abs(f32(40)) + 0.5}
    rounded = {k: v.astype(dtype) for k, v in feeds.items()}
    compiled, outputs = model(dtype)
    got = run_compiled(compiled, [rounded])[0]
    want = run_reference(model(np.float32)[0], [{k: v.astype(np.float32) for k, v in rounded.items()}])[0]
    wrong = [
        f"{o}: {m}"
        for o, g, w in zip(outputs, got, want, strict=True)
        if (m := difference(np.asarray(g, np.float32), w, tolerance)) or g.dtype != dtype
    ]
    assert not wrong, "\n" + "\n".join(wrong)


def halves_model(nodes: list[onnx.NodeProto], dtype: type, shapes: dict, constants: dict, outputs: list[str], opset=18):
    """A model of nodes on inputs of these shapes, all halves of one type."""
    type_ = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info(n, type_, s) for n, s in shapes.items()],
        [helper.make_tensor_value_info(o, type_, None) for o in outputs],
        [onnx.helper.make_tensor(n, type_, a.shape, a.reshape(-1)) for n, a in constants.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def small_integers(*shape: int, low: int = -4, high: int = 5) -> np.ndarray:
    """Numbers whose products and sums f32 holds exactly, in any order."""
    return np.random.default_rng(sum(shape)).integers(low, high, shape).astype(np.float32)


@pytest.mark.parametrize("name", HALVES)
def test_each_op_of_a_chain_rounds(name):
    """Two products with Add, Mul and Relu behind them, whose exact results need more bits than halves have: as numpy
    does it, rounding after each op; an operand that another op reads too, and one that is a result."""
    dtype = HALVES[name][0]
    x, w, v = small_integers(7, 60), small_integers(60, 40), small_integers(40, 33)
    b, m = small_integers(40) / 8 + 0.125, small_integers(7, 1) + 0.7
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["p"]),
        helper.make_node("Add", ["p", "b"], ["s"]),
        helper.make_node("Mul", ["s", "m"], ["t"]),
        helper.make_node("Relu", ["t"], ["r"]),
        helper.make_node("Add", ["r", "s"], ["z"]),
        helper.make_node("Reshape", ["z", "shape"], ["z1"]),
        helper.make_node("Sub", ["z1", "c"], ["y"]),
        helper.make_node("Clip", ["z", "lo", "hi"], ["k"]),
        helper.make_node("MatMul", ["k", "v"], ["q"]),
    ]
    low, high, c = np.array(-9.0), np.array(11.0), np.array([0.3], np.float32)
    constants = {"w": w, "b": b, "v": v, "lo": low, "hi": high, "c": c}
    model = halves_model(nodes, dtype, {"x": [7, 60], "m": [7, 1]}, constants, ["y", "q", "r"])
    model.graph.initializer.append(onnx.numpy_helper.from_array(np.array([40, 7]), "shape"))

    def rounded(a: np.ndarray) -> np.ndarray:
        return a.astype(dtype).astype(np.float32)

    b, m, c, low, high = (rounded(np.asarray(a, np.float32)) for a in (b, m, c, low, high))
    s = rounded(rounded(x @ w) + b)
    r = np.maximum(rounded(s * m), 0)
    z = rounded(r + s)
    k = np.clip(z, low, high)
    wide = (k.astype(np.float64) @ v).astype(np.float32)
    want = [rounded(z.reshape(40, 7) - c), rounded(wide), r]
    got = run_compiled(model, [{"x": x.astype(dtype), "m": m.astype(dtype)}])[0]
    for g, e in zip(got, want, strict=True):
        assert g.dtype == dtype
        np.testing.assert_array_equal(g.astype(np.float32), e)


@pytest.mark.parametrize("name", HALVES)
@pytest.mark.parametrize("channels, group, window", [(3, 1, 3), (16, 1, 1), (16, 1, 3), (16, 16, 3), (16, 2, 5)])
def test_convolutions_round_once(name, channels, group, window):
    """By whichever algorithm: integers, so that the sums are exact; their result is rounded, then what follows."""
    dtype = HALVES[name][0]
    x = small_integers(1, channels, 12, 12, low=-2, high=3)
    w, b = small_integers(16, channels // group, window, window, low=-2, high=3), small_integers(16)
    pads = [window // 2] * 4
    nodes = [
        helper.make_node("Conv", ["x", "w", "b"], ["c"], pads=pads, group=group),
        helper.make_node("Mul", ["c", "f"], ["y"]),
    ]
    factor = np.array([1.3], np.float32).astype(dtype)
    model = halves_model(nodes, dtype, {"x": list(x.shape), "f": [1]}, {"w": w, "b": b}, ["y"])
    wide = halves_model(nodes[:1], np.float32, {"x": list(x.shape)}, {"w": w, "b": b}, ["c"])
    sums = np.rint(run_reference(wide, [{"x": x}])[0][0])
    want = (sums.astype(dtype).astype(np.float32) * factor.astype(np.float32)).astype(dtype)
    got = run_compiled(model, [{"x": x.astype(dtype), "f": factor}], strict=True)[0][0]
    np.testing.assert_array_equal(got.astype(np.float32), want.astype(np.float32))


@pytest.mark.parametrize("mcpu", ["x86-64-v2", "x86-64-v3"])
@pytest.mark.parametrize("name", HALVES)
def test_weights_stay_halves(name, mcpu, tmp_path):
    """An artefact holds its weights as the model does, where the CPU can widen them as it reads."""
    dtype = HALVES[name][0]
    w = np.random.default_rng(1).standard_normal((256, 512)).astype(dtype)
    nodes = [helper.make_node("MatMul", ["x", "w"], ["y"])]
    model = halves_model(nodes, dtype, {"x": ["n", 256]}, {"w": w}, ["y"])
    onnx.save(model, tmp_path / "m.onnx")
    onnxc.compile(tmp_path / "m.onnx", tmp_path / "m.mlir", mcpu=mcpu, emit="kernels")
    narrow = re.search(rf"x256x\d+x{name}>", (tmp_path / "m.mlir").read_text())
    assert bool(narrow) == (name == "bf16" or mcpu != "x86-64-v2")
    got = run_compiled(model, [{"x": np.eye(3, 256, dtype=np.float32).astype(dtype)}], mcpu=mcpu)[0][0]
    np.testing.assert_array_equal(got.astype(np.float32), w[:3].astype(np.float32))


def attention_nodes() -> list[onnx.NodeProto]:
    return [
        helper.make_node("Transpose", ["k"], ["kt"], perm=[0, 1, 3, 2]),
        helper.make_node("MatMul", ["q", "kt"], ["s"]),
        helper.make_node("Mul", ["s", "f"], ["t"]),
        helper.make_node("Softmax", ["t"], ["p"], axis=-1),
        helper.make_node("MatMul", ["p", "v"], ["y"]),
    ]


@pytest.mark.parametrize("width", [32, 160, "d"])
@pytest.mark.parametrize("name", ["f32", "f64", "f16", "bf16"])
def test_attention_of_any_type_and_width(name, width):
    """The kernel takes heads of at most 128 known elements in f32, and halves widened; others stay products."""
    dtype, tolerance = {"f32": (np.float32, 1e-5), "f64": (np.float64, 1e-12), **HALVES}[name]
    size = 24 if width == "d" else width
    rng = np.random.default_rng(3)
    feeds = {n: rng.standard_normal((1, 2, 5, size)).astype(dtype) for n in "qkv"}
    scale = np.array(size**-0.5)
    model = halves_model(attention_nodes(), dtype, {n: [1, 2, 5, width] for n in "qkv"}, {"f": scale}, ["y"])
    q, k, v = (a.astype(np.float64) for a in feeds.values())
    scores = np.exp(q @ k.swapaxes(-1, -2) * float(scale.astype(dtype)))
    want = scores / scores.sum(-1, keepdims=True) @ v
    got = run_compiled(model, [feeds])[0][0]
    assert got.dtype == dtype
    assert np.abs(got.astype(np.float64) - want).max() <= 3 * tolerance * np.abs(want).max()
