"""Small models with one layer of every kind that has schedules to choose from."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

rng = np.random.default_rng(0)


def save(path: Path, nodes, x: tuple, y: tuple, weights: dict[str, tuple]) -> Path:
    """A model of one input and one output with random weights of the given shapes."""
    values = [numpy_helper.from_array(rng.standard_normal(s).astype(np.float32), n) for n, s in weights.items()]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, x)]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, y)]
    graph = helper.make_graph(nodes, "g", inputs, outputs, values)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    onnx.save(model, path)
    return path


def convolutions(path: Path) -> Path:
    """Few channels, grouped Winograd, 1×1 with a residual, depthwise, transposed: all channels last inside."""
    node = helper.make_node
    nodes = [
        node("Conv", ["x", "w0", "b0"], ["t0"], pads=[1] * 4),
        node("Relu", ["t0"], ["t1"]),
        node("Conv", ["t1", "w1", "b1"], ["t2"], pads=[1] * 4),
        node("Conv", ["t2", "w2"], ["t3"]),
        node("Add", ["t3", "t1"], ["t4"]),
        node("Conv", ["t4", "w3"], ["t5"], pads=[1] * 4, group=32),
        node("ConvTranspose", ["t5", "w4"], ["y"], strides=[2, 2]),
    ]
    weights = {"w0": (32, 3, 3, 3), "b0": (32,), "w1": (32, 32, 3, 3), "b1": (32,), "w2": (32, 32, 1, 1)}
    return save(path, nodes, (1, 3, 12, 12), (1, 16, 24, 24), {**weights, "w3": (32, 1, 3, 3), "w4": (32, 16, 2, 2)})


def planes(path: Path) -> Path:
    """A convolution that stays channels first."""
    nodes = [helper.make_node("Conv", ["x", "w"], ["y"], pads=[1] * 4)]
    return save(path, nodes, (1, 3, 16, 64), (1, 8, 16, 64), {"w": (8, 3, 3, 3)})


def matmuls(path: Path, rows: int | str = 40) -> Path:
    """A constant second operand, and one that is not."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["t0"]),
        helper.make_node("Relu", ["t0"], ["t1"]),
        helper.make_node("Transpose", ["t1"], ["t2"], perm=[1, 0]),
        helper.make_node("MatMul", ["t1", "t2"], ["y"]),
    ]
    return save(path, nodes, (rows, 50), (rows, rows), {"w": (50, 70)})
