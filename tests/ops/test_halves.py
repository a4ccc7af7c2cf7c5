"""Operators on f16 and bf16: against the same operator in f32 on the same numbers, rounded once."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx
import pytest
from onnx import helper

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
