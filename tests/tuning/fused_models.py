"""Small models whose kernels have several operators each."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import helper, numpy_helper

Nodes = list[tuple[str, list[str], list[str], str]]


def model(nodes: Nodes, shape: tuple, elem: type = np.float32, opset: int = 20, **weights: tuple) -> onnx.ModelProto:
    """x of the given shape → y; nodes as (operator, inputs, outputs, name), each named by its first output if not."""
    rng = np.random.default_rng(5)
    type_ = helper.np_dtype_to_tensor_dtype(np.dtype(elem))
    made = [helper.make_node(op, i, o, name or o[0], **_attributes(op)) for op, i, o, name in nodes]
    values = [numpy_helper.from_array(rng.standard_normal(s).astype(elem), n) for n, s in weights.items()]
    inputs = [helper.make_tensor_value_info("x", type_, shape)]
    outputs = [helper.make_tensor_value_info("y", type_, None)]
    graph = helper.make_graph(made, "g", inputs, outputs, values)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


def _attributes(op: str) -> dict:
    return {"Conv": {"pads": [1] * 4}, "Transpose": {"perm": [0, 2, 1]}, "Softmax": {"axis": -1}}.get(op, {})


def feed_forward(shape: tuple = (6, 20), elem: type = np.float32) -> onnx.ModelProto:
    """MatMul + Add + Gelu, one kernel."""
    nodes: Nodes = [
        ("MatMul", ["x", "w"], ["a"], "fc"),
        ("Add", ["a", "b"], ["c"], "bias"),
        ("Gelu", ["c"], ["y"], "gelu"),
    ]
    return model(nodes, shape, elem, w=(20, 24), b=(24,))


def residual() -> onnx.ModelProto:
    """Two values of the epilogue are read twice, and x by root and epilogue."""
    nodes: Nodes = [
        ("MatMul", ["x", "w"], ["a"], ""),
        ("Tanh", ["a"], ["t"], ""),
        ("Mul", ["a", "t"], ["m"], ""),
        ("Abs", ["m"], ["n"], ""),
        ("Add", ["n", "m"], ["o"], ""),
        ("Add", ["o", "x"], ["y"], ""),
    ]
    return model(nodes, (9, 12), w=(12, 12))


def convolution() -> onnx.ModelProto:
    """A convolution with SiLU, and an element-wise chain that is transposed in the end."""
    nodes: Nodes = [
        ("Conv", ["x", "w", "b"], ["a"], ""),
        ("Sigmoid", ["a"], ["s"], ""),
        ("Mul", ["a", "s"], ["m"], ""),
        ("Conv", ["m", "v"], ["c"], ""),
        ("Tanh", ["c"], ["t"], ""),
        ("Add", ["t", "x"], ["y"], ""),
    ]
    return model(nodes, (1, 12, 9, 7), w=(12, 12, 3, 3), b=(12,), v=(12, 12, 3, 3))


def rows() -> onnx.ModelProto:
    """Element-wise operators around a softmax, a normalisation and a mean."""
    nodes: Nodes = [
        ("Exp", ["x"], ["e"], ""),
        ("Sin", ["e"], ["s"], ""),
        ("Softmax", ["s"], ["p"], ""),
        ("Sqrt", ["p"], ["q"], ""),
        ("Add", ["q", "x"], ["r"], ""),
        ("LayerNormalization", ["r", "g"], ["l"], ""),
        ("Tanh", ["l"], ["t"], ""),
        ("ReduceMean", ["t", "axes"], ["y"], ""),
    ]
    made = model(nodes, ("n", 5, 33), g=(33,))
    made.graph.initializer.append(numpy_helper.from_array(np.array([1], np.int64), "axes"))
    return made


def moves() -> onnx.ModelProto:
    """Transpositions among element-wise operators."""
    nodes: Nodes = [
        ("Sqrt", ["x"], ["s"], ""),
        ("Transpose", ["s"], ["t"], ""),
        ("Mul", ["t", "t"], ["m"], ""),
        ("Exp", ["m"], ["e"], ""),
        ("Transpose", ["e"], ["y"], ""),
    ]
    return model(nodes, (3, "h", 17))


MODELS = {
    "feed_forward": (feed_forward(), (6, 20), np.float32),
    "free": (feed_forward(("n", 20)), (7, 20), np.float32),
    "half": (feed_forward(elem=np.float16), (6, 20), np.float16),
    "residual": (residual(), (9, 12), np.float32),
    "convolution": (convolution(), (1, 12, 9, 7), np.float32),
    "rows": (rows(), (4, 5, 33), np.float32),
    "moves": (moves(), (3, 8, 17), np.float32),
}
