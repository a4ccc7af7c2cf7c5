"""Normalisations against onnxruntime."""

from __future__ import annotations

import numpy as np
import onnxruntime as ort
from onnx import helper, numpy_helper

import onnxc
from tests.ops.oracle import Batch, Const, Sym, f32


def test_layer_normalization():
    batch = Batch()
    for n in (1, 7, 64, 65, 300):
        batch.add("LayerNormalization", [f32(3, n), f32(n), f32(n)])
    batch.add("LayerNormalization", [f32(3, 4, 5), f32(4, 5)], axis=1)
    batch.add("LayerNormalization", [f32(3, 4, 5), f32(4, 5), f32(4, 5)], axis=-2, epsilon=0.1)
    batch.add(
        "LayerNormalization", [f32(3, 4, 5), f32(5), f32(5)], axis=-1, outputs=[True, True, True], label="all results"
    )
    batch.add("LayerNormalization", [f32(2, 30).astype(np.float64), f32(30).astype(np.float64)], label="f64")
    batch.check()


def test_symbolic_layer_normalization():
    batch = Batch()
    sizes = [(3, 2), (1, 1), (0, 5), (5, 9)]
    batch.add(
        "LayerNormalization", [Sym(("N", "M", 70), [f32(n, m, 70) for n, m in sizes]), Const(f32(70)), Const(f32(70))]
    )
    batch.add(
        "LayerNormalization",
        [
            Sym(("N", "M"), [f32(n, m) for n, m in sizes]),
            Sym(("M",), [f32(m) for _, m in sizes]),
            Sym(("M",), [f32(m) for _, m in sizes]),
        ],
    )
    batch.check()


def test_rms_normalization():
    batch = Batch()
    batch.add("RMSNormalization", [f32(3, 70), f32(70)])
    batch.add("RMSNormalization", [f32(3, 4, 5), f32(4, 5)], axis=1, epsilon=0.01)
    batch.check()


def test_instance_and_group_normalization():
    batch = Batch()
    batch.add("InstanceNormalization", [f32(2, 3, 4, 5), f32(3), f32(3)])
    batch.add("InstanceNormalization", [f32(2, 3, 70), f32(3), f32(3)], epsilon=0.01)
    images = [f32(n, 3, h, 4) for n, h in [(1, 5), (2, 1), (0, 3)]]
    batch.add("InstanceNormalization", [Sym(("N", 3, "H", 4), images), f32(3), f32(3)], label="symbolic")
    batch.add("GroupNormalization", [f32(2, 6, 4, 5), f32(6), f32(6)], num_groups=3)
    batch.add("GroupNormalization", [f32(2, 6, 4, 5), Const(f32(6)), Const(f32(6))], num_groups=3)
    batch.add("MeanVarianceNormalization", [f32(2, 3, 4, 5)])
    batch.check()


def test_batch_normalization():
    batch = Batch()
    statistics = [f32(3), f32(3), f32(3), np.abs(f32(3)) + 0.1]
    batch.add("BatchNormalization", [f32(2, 3, 4, 5), *statistics])
    batch.add("BatchNormalization", [f32(2, 3, 4, 5), *map(Const, statistics)], epsilon=0.01)
    batch.add("BatchNormalization", [f32(2, 3), *map(Const, statistics)])
    batch.add(
        "BatchNormalization", [Sym(("N", 3, "L"), [f32(2, 3, 5), f32(1, 3, 1), f32(0, 3, 2)]), *map(Const, statistics)]
    )
    batch.check()


def test_lp_normalization():
    batch = Batch()
    for p in (1, 2):
        batch.add("LpNormalization", [f32(3, 70)], p=p)
        batch.add("LpNormalization", [f32(3, 7, 4)], p=p, axis=1)
    batch.add("LpNormalization", [np.zeros((2, 5), np.float32)], label="of zeros")
    batch.check()


def test_local_response():
    batch = Batch()
    batch.add("LRN", [f32(2, 7, 3, 4)], size=3)
    batch.add("LRN", [f32(2, 7, 3, 4)], size=5, alpha=0.5, beta=0.6, bias=2.0)
    batch.add(
        "LRN", [Sym(("N", 5, "H", 3), [f32(n, 5, h, 3) for n, h in [(1, 4), (2, 1), (0, 2)]])], size=5, label="symbolic"
    )
    batch.check()


def test_scaler():
    batch = Batch()
    batch.add("Scaler", [f32(5, 3)], domain="ai.onnx.ml", offset=[1.0, 2.0, 3.0], scale=[0.5, 2.0, -1.0])
    batch.add("Scaler", [f32(5, 3)], domain="ai.onnx.ml", offset=[1.0], scale=[0.5])
    batch.add(
        "Scaler", [np.arange(6).reshape(2, 3)], domain="ai.onnx.ml", offset=[1.0, 2.0, 3.0], scale=[0.5, 2.0, -1.0]
    )
    batch.check()


def test_a_body_that_depends_on_types_in_a_nested_graph(tmp_path):
    """Onnx's inliner knows neither types of initialisers nor those in nested graphs."""
    scale, bias, x = f32(6), f32(6), f32(2, 6, 3, 3)
    tensor = helper.make_tensor_value_info
    constants = [numpy_helper.from_array(scale, "s"), numpy_helper.from_array(bias, "b")]
    nodes = [
        helper.make_node("Relu", ["x"], ["r"]),
        helper.make_node("GroupNormalization", ["r", "s", "b"], ["y"], num_groups=3),
    ]
    then = helper.make_graph(nodes, "then", [], [tensor("y", 1, None)], constants)
    other = helper.make_graph([helper.make_node("Neg", ["x"], ["z"])], "else", [], [tensor("z", 1, None)])
    branch = helper.make_node("If", ["c"], ["out"], then_branch=then, else_branch=other)
    inputs = [tensor("c", 9, []), tensor("x", 1, ["n", 6, 3, 3])]
    graph = helper.make_graph([branch], "g", inputs, [tensor("out", 1, [None] * 4)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    onnxc.compile(model, tmp_path / "m.so")
    session, reference = onnxc.InferenceSession(tmp_path / "m.so"), ort.InferenceSession(model.SerializeToString())
    for condition in (True, False):
        feeds = {"c": np.array(condition), "x": x}
        np.testing.assert_allclose(session.run(None, feeds)[0], reference.run(None, feeds)[0], rtol=1e-4, atol=1e-4)
