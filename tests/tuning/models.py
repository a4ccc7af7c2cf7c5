"""Small models, and a progress that keeps what it is told."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from onnxc.passes.choices import Choices
from onnxc.progress import Progress


class Told(Progress):
    """Keeps lines."""

    def __init__(self) -> None:
        self.said: list[str] = []
        self.noted: list[str] = []

    def say(self, line: str) -> None:
        self.said.append(line)

    def note(self, line: str) -> None:
        self.noted.append(line)

    @property
    def warnings(self) -> list[str]:
        return [line for line in self.said if line.startswith("warning: ")]


class Asked(Choices):
    """Knows nothing, and keeps the signatures that it is asked for."""

    def __init__(self) -> None:
        self.kernels: list[str] = []
        self.convolutions: list[str] = []

    def schedule(self, signature: str) -> None:
        self.kernels.append(signature)

    def algorithm(self, signature: str) -> None:
        self.convolutions.append(signature)


def convnet() -> onnx.ModelProto:
    """conv1 (3×3, 32 channels) → Relu → conv2 (3×3) → flat → fc."""
    rng = np.random.default_rng(7)
    weights = {"w1": (32, 32, 3, 3), "w2": (24, 32, 3, 3), "w3": (24 * 144, 10)}
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], "conv1", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"], "relu1"),
        helper.make_node("Conv", ["b", "w2"], ["c"], "conv2", pads=[1, 1, 1, 1]),
        helper.make_node("Flatten", ["c"], ["d"], "flat"),
        helper.make_node("MatMul", ["d", "w3"], ["y"], "fc"),
    ]
    graph = helper.make_graph(
        nodes,
        "convnet",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 32, 12, 12])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10])],
        [numpy_helper.from_array(rng.standard_normal(s).astype(np.float32) / 9, n) for n, s in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
