"""Models that break ONNX's rules or ask for the impossible are refused with a message, quickly and never by a fault."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnxc
from onnxc.errors import CompilerBug, OnnxcError

HUGE = 1 << 62


def refusal(model: onnx.ModelProto) -> str:
    """What the model is refused with."""
    try:
        errors = onnxc.check(model)
    except CompilerBug:
        raise
    except OnnxcError as error:
        return str(error)
    return "\n".join(map(str, errors))


def model_of(op: str, shape: list, *constants: object, **attributes: object) -> onnx.ModelProto:
    """One node on the input x of this shape and on constants."""
    arrays = {f"c{i}": np.asarray(value) for i, value in enumerate(constants) if value is not None}
    names = ["x", *(f"c{i}" if value is not None else "" for i, value in enumerate(constants))]
    node = helper.make_node(op, names, ["y"], **attributes)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)
    weights = [numpy_helper.from_array(array, name) for name, array in arrays.items()]
    graph = helper.make_graph([node], "g", [x], [onnx.ValueInfoProto(name="y")], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])


@pytest.mark.parametrize(
    "model",
    [
        model_of("Relu", [HUGE, HUGE]),
        model_of("Flatten", [HUGE, 4, 4]),
        model_of("ReduceSum", [1 << 40, 1 << 40]),
        model_of("Reshape", ["N"], np.array([HUGE, HUGE, 4])),
        model_of("Expand", [1], np.array([1 << 40, 1 << 40])),
        model_of("Tile", [3], np.array([HUGE])),
        model_of("Tile", ["N"], np.array([HUGE])),
        model_of("Pad", [3], np.array([HUGE, HUGE])),
        model_of("Conv", [1, 1, 8], np.ones((1, 1, 3), np.float32), pads=[HUGE, HUGE]),
        model_of("Resize", [1, 1, 3, 3], None, np.array([1, 1, 1e30, 1], np.float32)),
    ],
)
def test_sizes_that_no_memory_holds(model: onnx.ModelProto) -> None:
    assert "too large for any memory" in refusal(model)


@pytest.mark.parametrize(
    ("model", "told"),
    [
        (model_of("Conv", [1, 1, 8], np.ones((1, 1, 3), np.float32), strides=[0]), "strides"),
        (model_of("Conv", [1, 1, 8], np.ones((1, 1, 3), np.float32), dilations=[-1]), "dilations"),
        (model_of("Conv", [1, 1, 8], np.ones((1, 1, 3), np.float32), group=0), "channels"),
        (model_of("MaxPool", [1, 1, 8], kernel_shape=[0]), "a window of [0] elements"),
        (model_of("MaxPool", [1, 1, 8], kernel_shape=[HUGE]), "does not fit"),
        (model_of("Softmax", ["N", 3], axis=7), "axis 7"),
        (model_of("LogSoftmax", ["N", 3], axis=-3), "axis -3"),
        (model_of("Softmax", ["N", 3], axis=1.5), "attribute 'axis' is 1.5"),
        (model_of("Transpose", ["N", 3], perm=[0, 0]), "perm"),
        (model_of("DepthToSpace", [1, 4, 3, 3], blocksize=0), "must not be 0"),
        (model_of("Cast", ["N"], to=999), "to is 999"),
        (model_of("Cast", ["N"], to=0), "to is 0"),
        (model_of("Relu", ["N"], foo=1), "no attribute 'foo'"),
        (model_of("TopK", [3], np.array([-1])), ""),
        (model_of("Concat", []), "axis"),
    ],
)
def test_nodes_that_cannot_be(model: onnx.ModelProto, told: str) -> None:
    message = refusal(model)
    assert f"({model.graph.node[0].op_type}" in message
    assert told in message
