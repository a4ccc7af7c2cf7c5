"""Each step to a newer operator version: the upgraded graph gives what onnxruntime gives for the old one."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, defs, helper
from onnx.helper import get_attribute_value

from onnxc.dialects.errors import OnnxcError
from onnxc.importer.upgrade import STEPS, versions

from .models import agree, graph, imported, model, names, run

RNG = np.random.default_rng(0)
X = RNG.standard_normal((2, 3, 4)).astype(np.float32)
IMAGE = RNG.standard_normal((1, 2, 4, 6)).astype(np.float32)


def node(op: str, *inputs: str, outputs=("y",), **attrs):
    return helper.make_node(op, inputs, outputs, **attrs)


def one(op: str, opset: int, x: np.ndarray, constants=None, outputs=("y",), rank_known: bool = True, **attrs):
    constants = constants or {}
    shape = x.shape if rank_known else [f"d{i}" for i in range(x.ndim)]
    kind = helper.np_dtype_to_tensor_dtype(x.dtype)
    return model(
        graph([node(op, "x", *constants, outputs=outputs, **attrs)], {"x": shape}, outputs, constants, {"x": kind}),
        opset=opset,
    )


@pytest.mark.parametrize(
    ("op", "opset", "attrs"),
    [
        ("Squeeze", 11, {"axes": [0]}),
        ("Unsqueeze", 11, {"axes": [0, 2]}),
        ("Unsqueeze", 1, {"axes": [1]}),
        *((f"Reduce{r}", v, {"axes": [1], "keepdims": 0}) for r in ["L1", "L2", "Sum", "SumSquare", "Mean", "Max"]
          for v in (9, 12, 13 if r != "Sum" else 11)),
        ("ReduceSum", 9, {}),
        ("ReduceProd", 11, {"keepdims": 0}),
        ("ReduceLogSum", 11, {"axes": [-1]}),
        ("Slice", 9, {"starts": [0, -2], "ends": [1, 1000], "axes": [0, 2]}),
        ("Slice", 9, {"starts": [0, 1], "ends": [1, -1]}),
        ("Pad", 2, {"pads": [0, 1, 0, 0, 0, 2]}),
        ("Pad", 10, {"pads": [0, 1, 0, 0, 0, 2], "value": 2.5}),
        ("Pad", 10, {"pads": [0, 1, 0, 0, 0, 2], "mode": "reflect"}),
        ("Clip", 6, {"min": -0.5, "max": 0.25}),
        ("Clip", 10, {"max": 0.25}),
        ("Clip", 6, {}),
        ("Cast", 6, {"to": TensorProto.INT32}),
        ("Cast", 9, {"to": TensorProto.DOUBLE}),
        ("Dropout", 7, {"ratio": 0.3}),
        ("Dropout", 10, {}),
        ("Softmax", 8, {}),
        ("Softmax", 11, {"axis": 2}),
        ("Softmax", 11, {"axis": 1}),
        ("Softmax", 11, {"axis": -1}),
        ("Softmax", 11, {"axis": -2}),
        ("LogSoftmax", 9, {"axis": 0}),
        ("Hardmax", 11, {"axis": 1}),
        ("Selu", 6, {}),
        ("Shape", 13, {}),
        ("Flatten", 9, {"axis": 2}),
    ],
)  # fmt: skip
@pytest.mark.parametrize("rank_known", [True, False])
def test_unary(op: str, opset: int, attrs: dict, rank_known: bool) -> None:
    x = X[:1] if op == "Squeeze" else X
    agree(one(op, opset, x, rank_known=rank_known, **attrs), x)


def test_softmax_along_the_last_axis_stays_one_op() -> None:
    program = imported(one("Softmax", 11, X, axis=2))
    assert names(program) == ["onnx.Softmax", "func.return"]


@pytest.mark.parametrize(
    ("opset", "attrs"), [(9, {}), (7, {"axis": 2}), (11, {"axis": 2, "split": [1, 3]}), (13, {"axis": 2})]
)
def test_split(opset: int, attrs: dict) -> None:
    agree(one("Split", opset, X, outputs=("y", "z"), **attrs), X)


def test_topk() -> None:
    model_ = model(
        graph([node("TopK", "x", outputs=("y", "i"), k=2)], {"x": [2, 3, 4]}, ("y", "i"), kinds={"i": 7}), opset=9
    )
    agree(model_, X)


@pytest.mark.parametrize("opset", [7, 9])
def test_reshape_with_attribute(opset: int) -> None:
    """onnxruntime begins at opset 7, so the old form is checked against numpy."""
    program = imported(one("Reshape", 1, X, shape=[0, -1]))
    np.testing.assert_array_equal(run(program, X)[0], X.reshape(2, 12))


@pytest.mark.parametrize(
    ("shape_b", "attrs", "want"),
    [
        ([3], {"broadcast": 1, "axis": 1}, [3, 1]),
        ([3, 4], {"broadcast": 1, "axis": 1}, [3, 4]),
        ([2], {"broadcast": 1, "axis": 0}, [2, 1, 1]),
        ([2], {"broadcast": 1, "axis": -3}, [2, 1, 1]),
        ([4], {"broadcast": 1}, [4]),
        ([1], {"broadcast": 1, "axis": 1}, [1, 1]),
        ([2, 3, 4], {}, [2, 3, 4]),
    ],
)
@pytest.mark.parametrize(
    ("op", "apply"), [("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply), ("Div", np.divide)]
)
@pytest.mark.parametrize("opset", [1, 6])
def test_broadcast_by_axis(op: str, apply, shape_b: list[int], attrs: dict, want: list[int], opset: int) -> None:
    b = RNG.standard_normal(shape_b).astype(np.float32)
    hint = {"consumed_inputs": [0, 0]} if opset == 1 else {}
    program = imported(one(op, opset, X, {"b": b}, **attrs, **hint))
    np.testing.assert_allclose(run(program, X)[0], apply(X, b.reshape(want)), rtol=1e-6)


def test_broadcast_by_axis_needs_ranks() -> None:
    nodes = [node("Reshape", "x", "s", outputs=["t"]), node("Add", "t", "b", broadcast=1, axis=1)]
    model_ = model(graph(nodes, {"x": [2, 3], "s": ["n"], "b": [3]}, kinds={"s": TensorProto.INT64}), opset=6)
    model_.graph.input[1].type.tensor_type.ClearField("shape")
    with pytest.raises(OnnxcError, match="rank of input 't' is not known.*newer opset") as caught:
        imported(model_)
    assert caught.value.exit_code == 1


@pytest.mark.parametrize("opset", [1, 6])
def test_gemm_broadcast(opset: int) -> None:
    a, b, c = (RNG.standard_normal(s).astype(np.float32) for s in ([2, 3], [3, 4], [4]))
    program = imported(one("Gemm", opset, a, {"b": b, "c": c}, broadcast=1))
    np.testing.assert_allclose(run(program, a)[0], a @ b + c, rtol=1e-5)


def test_prelu_slope_by_channel() -> None:
    slope = np.array([0.1, 0.2, 0.3], np.float32)
    program = imported(one("PRelu", 6, X, {"slope": slope}))
    np.testing.assert_allclose(run(program, X)[0], np.where(X < 0, X * slope[:, None], X), rtol=1e-6)


BATCH = {name: RNG.random(2).astype(np.float32) + 0.5 for name in ("scale", "bias", "mean", "var")}


@pytest.mark.parametrize(
    ("opset", "attrs"),
    [(7, {}), (9, {"epsilon": 1e-3}), (13, {}), (14, {}), (15, {})],
)
def test_batch_norm(opset: int, attrs: dict) -> None:
    agree(one("BatchNormalization", opset, IMAGE, BATCH, **attrs), IMAGE)


@pytest.mark.parametrize("opset", [1, 6, 7])
def test_batch_norm_of_elements(opset: int) -> None:
    """spatial=0: statistics have the shape of a sample."""
    stats = {name: RNG.random(IMAGE.shape[1:]).astype(np.float32) + 0.5 for name in BATCH}
    hints = {1: {"consumed_inputs": [0, 0, 0, 1, 1], "is_test": 1}, 6: {"is_test": 1}, 7: {}}[opset]
    program = imported(one("BatchNormalization", opset, IMAGE, stats, spatial=0, **hints))
    want = (IMAGE - stats["mean"]) / np.sqrt(stats["var"] + 1e-5) * stats["scale"] + stats["bias"]
    np.testing.assert_allclose(run(program, IMAGE)[0], want, rtol=1e-4)


@pytest.mark.parametrize("opset", [9, 11])
def test_scatter(opset: int) -> None:
    indices = np.array([[[1, 0, 2, 0]]])
    updates = np.ones((1, 1, 4), np.float32)
    op = "Scatter" if opset == 9 else "ScatterElements"
    program = agree(one(op, opset, X, {"i": indices, "u": updates}, axis=1), X)
    assert "onnx.ScatterElements" in names(program)


@pytest.mark.parametrize("opset", [7, 14])
@pytest.mark.parametrize(("op", "gates"), [("LSTM", 4), ("GRU", 3), ("RNN", 1)])
def test_recurrent(op: str, gates: int, opset: int) -> None:
    weights = {
        "w": RNG.standard_normal((1, gates * 5, 4)).astype(np.float32),
        "r": RNG.standard_normal((1, gates * 5, 5)).astype(np.float32),
    }
    agree(one(op, opset, X, weights, hidden_size=5), X)


def test_old_recurrent_attributes() -> None:
    weights = {"w": np.zeros((1, 15, 4), np.float32), "r": np.zeros((1, 15, 5), np.float32)}
    program = imported(one("GRU", 1, X, weights, hidden_size=5, output_sequence=1, direction="foward"))
    assert 'direction = "forward"' in str(program.module) and "output_sequence" not in str(program.module)


def test_dft() -> None:
    x = X[..., None]
    agree(one("DFT", 17, x, axis=2), x, tolerance=1e-4)


def test_group_norm_by_group() -> None:
    """Opset 18 had a scale for every group; onnx's own function body of that version is the reference."""
    x = RNG.standard_normal((2, 6, 3, 3)).astype(np.float32)
    scale, bias = np.array([1, 2, 3], np.float32), np.array([0.5, -1, 2], np.float32)
    program = imported(one("GroupNormalization", 18, x, {"s": scale, "b": bias}, num_groups=3))
    groups = x.reshape(2, 3, -1)
    normal = (groups - groups.mean(-1, keepdims=True)) / np.sqrt(groups.var(-1, keepdims=True) + 1e-5)
    want = (normal * scale[:, None] + bias[:, None]).reshape(x.shape)
    np.testing.assert_allclose(run(program, x)[0], want, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("op", ["Add", "Relu", "Max", "Sum", "Mean", "Tanh"])
def test_consumed_inputs_are_dropped(op: str) -> None:
    operands = {} if op in ("Relu", "Tanh") else {"b": X}
    program = imported(one(op, 1, X, operands, consumed_inputs=[0]))
    assert names(program)[-2] == f"onnx.{op}"


def test_cast_to_a_type_by_name() -> None:
    program = imported(one("Cast", 1, X, to="DOUBLE"))
    assert run(program, X)[0].dtype == np.float64


def test_old_names_of_attributes() -> None:
    padded = run(imported(one("Pad", 1, X, paddings=[0, 0, 1, 0, 0, 1])), X)[0]
    np.testing.assert_array_equal(padded, np.pad(X, [(0, 0), (0, 0), (1, 1)]))
    joined = run(imported(one("Concat", 1, X, {"b": X})), X)[0]
    np.testing.assert_array_equal(joined, np.concatenate([X, X], 1))
    up = run(imported(one("Upsample", 1, IMAGE, height_scale=2.0, width_scale=2.0)), IMAGE)[0]
    np.testing.assert_array_equal(up, IMAGE.repeat(2, 2).repeat(2, 3))


def test_norm_of_a_pool_becomes_an_int() -> None:
    assert "p = 3 : i64" in str(imported(one("GlobalLpPool", 1, IMAGE, p=3.0)).module)
    with pytest.raises(OnnxcError, match=r"p = 2\.5"):
        imported(one("GlobalLpPool", 1, IMAGE, p=2.5))


def test_tile_of_one_axis() -> None:
    constants = {"tiles": np.array([2.0], np.float32), "axis": np.array([1.0], np.float32)}
    np.testing.assert_array_equal(run(imported(one("Tile", 1, X, constants)), X)[0], np.tile(X, [1, 2, 1]))


def test_label_encoder_by_input_type() -> None:
    for kind, keys in ((TensorProto.STRING, "keys_strings"), (TensorProto.INT64, "keys_int64s")):
        nodes = [helper.make_node("LabelEncoder", ["x"], ["y"], domain="ai.onnx.ml", classes_strings=["a", "b"])]
        program = imported(model(graph(nodes, {"x": [2]}, kinds={"x": kind}), ai_onnx_ml=1))
        assert keys in str(program.module)


def test_scan_over_batches_is_refused() -> None:
    body = graph([node("Identity", "x")], {"x": [3]})
    nodes = [node("Scan", "", "x", body=body, num_scan_inputs=1)]
    with pytest.raises(OnnxcError, match="Scan of opset 8"):
        imported(model(graph(nodes, {"x": [1, 2, 3]}), opset=8))


def test_missing_attribute_of_an_old_version() -> None:
    with pytest.raises(OnnxcError, match="node 'TopK_0'.*not those of TopK") as caught:
        imported(one("TopK", 9, X))
    assert caught.value.exit_code == 2


def _attributes(schema) -> dict[str, tuple]:
    return {
        name: (a.type, get_attribute_value(a.default_value) if a.default_value.type else None)
        for name, a in schema.attributes.items()
    }


def _formals(parameters) -> list[str]:
    return [p.name for p in parameters]


@pytest.mark.parametrize("key", sorted({(s.domain, s.name) for s in defs.get_all_schemas_with_history()}), ids=str)
def test_every_version_reaches_today(key: tuple[str, str]) -> None:
    """Without a step, a version may only add attributes and operands at the end, or widen types: an old node stays
    legal and means the same. Renamed operands are positions only, so their number counts."""
    domain, op = key
    for old, new in zip(versions(*key), versions(*key)[1:], strict=False):
        if (domain, op, old) in STEPS:
            continue
        before, after = defs.get_schema(op, old, domain), defs.get_schema(op, new, domain)
        assert not after.deprecated or domain != "", f"{key} {old}: deprecated without a step"
        if after.deprecated:
            continue
        later = _attributes(after)
        for name, spec in _attributes(before).items():
            assert name in later, f"{key} {old} -> {new}: attribute {name} is gone"
            if not isinstance(spec[1], TensorProto):
                assert spec == later[name] or spec[1] is None, f"{key} {old} -> {new}: attribute {name} has changed"
        for name in set(later) - set(before.attributes):
            assert not after.attributes[name].required, f"{key} {old} -> {new}: attribute {name} is needed"
        assert len(before.inputs) <= len(after.inputs), f"{key} {old} -> {new}: inputs are gone"
        assert len(before.outputs) <= len(after.outputs), f"{key} {old} -> {new}: outputs are gone"
