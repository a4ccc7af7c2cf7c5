"""Small models whose inputs have free dims."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper

Dims = Sequence[int | str | None]


def _model(nodes, x: tuple[str, Dims], y: tuple[str, Dims], weights: dict[str, np.ndarray]) -> ModelProto:
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, dims) for name, dims in (x, y)]
    constants = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "test", values[:1], values[1:], constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)


def _random(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape, dtype=np.float32) / np.float32(shape[-1] ** 0.5)


def tokens(*, width: int = 48, dims: Dims = ("batch", "seq")) -> ModelProto:
    """x [batch, seq, width]: a matmul, an activation, a softmax, another matmul."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], "first"),
        helper.make_node("Relu", ["a"], ["b"], "relu"),
        helper.make_node("Softmax", ["b"], ["c"], "softmax", axis=-1),
        helper.make_node("MatMul", ["c", "v"], ["y"], "second"),
    ]
    weights = {"w": _random(width, 96), "v": _random(96, 40)}
    return _model(nodes, ("x", (*dims, width)), ("y", (*dims, 40)), weights)


def image(*, dims: Dims = ("batch", 3, "h", "w")) -> ModelProto:
    """x [batch, 3, h, w]: two 3×3 convolutions, a pooling and a classifier."""
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], "conv1", pads=[1, 1, 1, 1], strides=[2, 2]),
        helper.make_node("Relu", ["a"], ["b"], "relu1"),
        helper.make_node("Conv", ["b", "w2"], ["c"], "conv2", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["d"], "relu2"),
        helper.make_node("GlobalAveragePool", ["d"], ["e"], "pool"),
        helper.make_node("Flatten", ["e"], ["f"], "flatten"),
        helper.make_node("Gemm", ["f", "w3"], ["y"], "classify"),
    ]
    weights = {"w1": _random(32, 3, 3, 3), "w2": _random(40, 32, 3, 3), "w3": _random(40, 10)}
    return _model(nodes, ("x", dims), ("y", (dims[0], 10)), weights)


def filtering(channels: int = 128) -> ModelProto:
    """x [batch, channels, h, w] through one 3×3 convolution."""
    node = helper.make_node("Conv", ["x", "w"], ["y"], "conv", pads=[1, 1, 1, 1])
    dims = ("batch", channels, "h", "w")
    return _model([node], ("x", dims), ("y", dims), {"w": _random(channels, channels, 3, 3)})


def product(dims: Dims) -> ModelProto:
    """x [n, k] by a matrix of 5 rows."""
    return _model(
        [helper.make_node("MatMul", ["x", "w"], ["y"])], ("x", dims), ("y", (dims[0], 3)), {"w": _random(5, 3)}
    )


def reshaping(dims: Dims = ("n", "m")) -> ModelProto:
    """x [n, m] in rows of 4: legal where n·m is a multiple of 4; a run tells."""
    nodes = [helper.make_node("Reshape", ["x", "shape"], ["a"], "rows"), helper.make_node("Relu", ["a"], ["y"], "relu")]
    weights = {"shape": np.array([-1, 4], np.int64)}
    return _model(nodes, ("x", dims), ("y", ("r", 4)), weights)


def attention(*, heads: int = 2, width: int = 16) -> ModelProto:
    """x [batch, seq, heads·width] attends to itself."""
    size = heads * width
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["q"], "query"),
        helper.make_node("Attention", ["q", "x", "x"], ["y"], "attention", q_num_heads=heads, kv_num_heads=heads),
    ]
    model = _model(nodes, ("x", ("batch", "seq", size)), ("y", ("batch", "seq", size)), {"w": _random(size, size)})
    model.opset_import[0].version = 23
    return model
