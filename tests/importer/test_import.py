"""From graphs to IR: names, constants, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import helper, numpy_helper

import onnxc
from onnxc.dialects.errors import OnnxcError, Refusals
from onnxc.dialects.onnx import OnnxOp
from onnxc.dialects.verifier import verify, verify_round_trip

from .models import INT64, X, agree, graph, imported, info, main, model, names, node, refused, run

# -- shape of the IR


def test_main() -> None:
    nodes = [node("Add", "x w", "t", name="first"), node("Relu", "t")]
    program = imported(model(graph(nodes, {"x": ["N", 3]}, constants={"w": X[:1]})))
    assert names(program) == ["onnx.Constant", "onnx.Add", "onnx.Relu", "func.return"]
    operations = [view.operation for view in main(program).regions[0].blocks[0].operations]
    assert [OnnxOp(op).node for op in operations[:3]] == ["w", "first", "Relu_1"]
    text = str(program.module)
    assert 'tensor<?x3xf32, ["N", 3]>' in text and 'input_names = ["x"], output_names = ["y"]' in text
    with program.context:
        verify(program.module)
        verify_round_trip(program.module)


@pytest.mark.parametrize(
    "name", ["a.b", "a:0", "a/b c", '{"k": [1]}', '"', "\\", "é日本", "%0", "^bb", "", "\n", "x" * 999]
)
def test_names_of_any_kind(name: str) -> None:
    """As node, value and input name; the text form keeps them."""
    inner = helper.make_node("Relu", [name or "x"], ["t"], name=name)
    program = imported(model(graph([inner, node("Neg", "t")], {name or "x": [2, 3]})))
    with program.context:
        verify_round_trip(program.module)
    np.testing.assert_array_equal(run(program, X)[0], -X)
    assert main(program).attributes["input_names"][0].value == (name or "x")


def test_duplicate_node_names() -> None:
    nodes = [node("Relu", "x", "t", name="same"), node("Neg", "t", name="same")]
    np.testing.assert_array_equal(run(imported(model(graph(nodes, {"x": [2, 3]}))), X)[0], -X)


def test_output_that_is_an_input_or_a_constant() -> None:
    program = imported(model(graph([node("Relu", "x", "t")], {"x": [2, 3]}, ["x", "w", "t", "t"], {"w": X})))
    for got in run(program, X):
        np.testing.assert_array_equal(got, X)


def test_nodes_out_of_order() -> None:
    nodes = [node("Neg", "b"), node("Relu", "a", "b"), node("Abs", "x", "a")]
    program = imported(model(graph(nodes, {"x": [2, 3]})))
    assert names(program)[:3] == ["onnx.Abs", "onnx.Relu", "onnx.Neg"]


def test_trailing_and_inner_outputs_may_be_nameless() -> None:
    lstm = helper.make_node("LSTM", ["x", "w", "r"], ["", "h", ""], hidden_size=2)
    weights = {"w": np.ones((1, 8, 3), np.float32), "r": np.ones((1, 8, 2), np.float32)}
    agree(model(graph([lstm], {"x": [4, 2, 3]}, ["h"], weights)), np.ones((4, 2, 3), np.float32))


# -- constants


@pytest.mark.parametrize(
    ("attrs", "want"),
    [
        ({"value": numpy_helper.from_array(X)}, X),
        ({"value_float": 1.5}, np.float32(1.5)),
        ({"value_floats": [1.5, 2]}, np.array([1.5, 2], np.float32)),
        ({"value_int": 3}, np.int64(3)),
        ({"value_ints": [3, 4]}, np.array([3, 4])),
        ({"value_string": "é"}, np.array("é", object)),
        ({"value_strings": ["a", "b"]}, np.array(["a", "b"], object)),
    ],
)
def test_forms_of_constants(attrs: dict, want: np.ndarray) -> None:
    got = run(imported(model(graph([node("Constant", "", **attrs)], {}))))[0]
    assert got.dtype == want.dtype
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("indices", [np.array([1, 4]), np.array([[0, 1], [1, 1]])])
def test_sparse_constants(indices: np.ndarray) -> None:
    values = numpy_helper.from_array(np.array([5, 6], np.float32), "w")
    sparse = helper.make_sparse_tensor(values, numpy_helper.from_array(indices, "i"), [2, 3])
    want = np.array([[0, 5, 0], [0, 6, 0]], np.float32)
    np.testing.assert_array_equal(run(imported(model(graph([node("Constant", "", sparse_value=sparse)], {}))))[0], want)
    initialized = graph([node("Neg", "w")], {})
    initialized.sparse_initializer.append(sparse)
    np.testing.assert_array_equal(run(imported(model(initialized)))[0], -want)


def test_sparse_index_out_of_range() -> None:
    values = numpy_helper.from_array(np.array([5], np.float32), "w")
    sparse = helper.make_sparse_tensor(values, numpy_helper.from_array(np.array([6]), "i"), [2, 3])
    refused(model(graph([node("Constant", "", sparse_value=sparse)], {})), "indices do not fit")


@pytest.mark.parametrize("ir_version", [3, 8])
def test_initializers_are_no_inputs(ir_version: int) -> None:
    graph_ = graph([node("Add", "x w")], {"w": [2, 3], "x": [2, 3]}, constants={"w": X})
    program = imported(model(graph_, ir_version=ir_version))
    assert [a.value for a in main(program).attributes["input_names"]] == ["x"]


def test_equal_weights_are_kept_once() -> None:
    big = np.arange(100, dtype=np.float32)
    nodes = [node("Add", "x w", "t"), node("Mul", "t v")]
    program = imported(model(graph(nodes, {"x": [100]}, constants={"w": big, "v": big.copy()})))
    assert list(program.weights) == ["w"]


def test_two_values_for_one_constant() -> None:
    refused(model(graph([node("Constant", "", value_int=1, value_float=1.0)], {})), "one value, this one has 2")


def test_tensor_attributes() -> None:
    for value in (np.array([7], np.int32), np.array([2.5], np.float16)):
        shape = node("ConstantOfShape", "s", value=numpy_helper.from_array(value))
        program = imported(model(graph([shape], {"s": [1]}, kinds={"s": INT64})))
        assert names(program)[0] == "onnx.ConstantOfShape"


# -- what is refused


def test_all_unknown_operators_at_once() -> None:
    nodes = [
        helper.make_node("Decode", ["x"], ["a"], domain="com.example", name="first"),
        node("Relu", "a", "b"),
        node("NoSuch", "b", "c", name="second"),
        helper.make_node("Encode", ["c"], ["y"], domain="com.example", name="third"),
    ]
    with pytest.raises(Refusals) as caught:
        imported(model(graph(nodes, {"x": [2]}), com_example=1))
    assert caught.value.exit_code == 1
    text = str(caught.value)
    for part in ("first", "com.example::Decode", "second", "no operator NoSuch", "third", "com.example::Encode"):
        assert part in text


def test_an_operator_that_the_opset_lacks() -> None:
    refused(model(graph([node("Gelu", "x")], {"x": [2]}), opset=13), "no operator Gelu in version 13", 1)


def test_an_opset_of_the_future() -> None:
    refused(model(graph([node("Relu", "x")], {"x": [2]}), opset=99), "opset 99.*newest.*28", 1)


@pytest.mark.parametrize(
    ("nodes", "match"),
    [
        ([node("Relu", "gone")], "node 'Relu_0' .Relu.: input 'gone' is not defined"),
        ([node("Add", "x b", "a"), node("Neg", "a", "b"), node("Neg", "b")], "cycle"),
        ([node("Relu", "x", "t")], "output 'y' of the graph is not defined"),
        ([node("Relu", "x"), node("Neg", "x")], "output 'y' is defined twice"),
        ([node("Relu", "x", "x"), node("Relu", "x")], "output 'x' is defined twice"),
        ([node("Add", "x")], "it has 1 inputs, Add takes 2"),
        ([node("Relu", "x x")], "it has 2 inputs, Relu takes 1"),
        ([helper.make_node("Add", ["", "x"], ["y"])], "input A is absent"),
        ([node("Relu", "x", "y z")], "it has 2 outputs"),
        ([node("Concat", "x")], "attribute 'axis' is missing"),
        ([node("Relu", "x", alpha=1.0)], "no attribute 'alpha'"),
        ([node("Concat", "x", axis="one")], "attribute 'axis' is 'one'"),
        ([node("If", "x")], "_branch' is missing"),
    ],
)
def test_broken_graphs(nodes: list, match: str) -> None:
    refused(model(graph(nodes, {"x": [2]})), match)


def test_two_inputs_of_one_name() -> None:
    graph_ = graph([node("Relu", "x")], {"x": [2]})
    graph_.input.append(info("x", [2]))
    refused(model(graph_), "two inputs are called 'x'")


def test_a_name_that_is_not_text() -> None:
    raw = model(graph([node("Relu", "qqqq")], {"qqqq": [2]})).SerializeToString().replace(b"qqqq", b"q\xffqq")
    with pytest.raises(OnnxcError, match="not UTF-8"):
        imported(raw)


def test_a_model_without_opsets_is_of_opset_1() -> None:
    model_ = model(graph([node("Reshape", "x", shape=[3, 2])], {"x": [2, 3]}), ir_version=1)
    del model_.opset_import[:]
    np.testing.assert_array_equal(run(imported(model_), X)[0], X.reshape(3, 2))


def test_weights_of_a_file_survive_unfolding() -> None:
    """Big tensors are markers while onnx's own tools look at the model."""
    w = np.linspace(-3, 3, 2000, dtype=np.float32)
    nodes = [node("Add", "x w", "t"), node("Mish", "t")]
    raw = model(graph(nodes, {"x": [2000]}, constants={"w": w}), opset=18).SerializeToString()
    program = imported(raw, has_lowering=lambda name: name != "Mish")
    want = imported(raw)
    assert "onnx.Mish" not in names(program)
    np.testing.assert_allclose(run(program, w)[0], run(want, w)[0], rtol=1e-5)


def test_graphs_inside_unfolded_bodies_keep_their_names() -> None:
    """LinearAttention is a Scan; where onnx's inliner fails, at an absent operand, the node is refused by name."""
    sizes = {"q": [2, 4, 32], "k": [2, 4, 32], "v": [2, 4, 32]}
    attention = {"q_num_heads": 4, "kv_num_heads": 4, "op_type": "LinearAttention", "outputs": ["y", "state"]}
    linear = helper.make_node(**attention, inputs=["q", "k", "v"], name="blk", update_rule="linear")
    program = imported(model(graph([linear], sizes), opset=27), has_lowering=lambda name: name != "LinearAttention")
    inside = [OnnxOp(view.operation).node for view in main(program).regions[0].blocks[0].operations]
    assert "onnx.Scan" in names(program) and any(name.startswith("blk/Scan") for name in inside)
    gated = helper.make_node(**attention, inputs=["q", "k", "v", "", "v"], name="blk", update_rule="gated")
    with pytest.raises(OnnxcError, match="blk"):
        onnxc.compile(model(graph([gated], sizes), opset=27), "m.so")


def test_what_a_model_says_of_itself(tmp_path) -> None:
    made = model(graph([node("Relu", "x")], {"x": [2]}))
    made.producer_name, made.model_version = "né", 7
    made.graph.name = "n" * 5000
    for key, text in (("author", "zero\0byte"), ("long", "x" * 70_000), ("model.version", "not a number")):
        made.metadata_props.add(key=key, value=text)
    onnxc.compile(made, tmp_path / "m.so")
    meta = onnxc.InferenceSession(tmp_path / "m.so").get_modelmeta()
    assert (meta.producer_name, meta.version, meta.graph_name) == ("né", 7, "n" * 5000)
    assert meta.custom_metadata_map["author"] == "zero\\0byte"
    assert meta.custom_metadata_map["long"] == "x" * 70_000
