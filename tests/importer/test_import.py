"""From graphs to IR: names, constants, sub-graphs, functions, dims, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from mlir import ir
from onnx import ModelProto, TensorProto, ValueInfoProto, helper, numpy_helper

import onnxc
from onnxc.dialects.errors import OnnxcError, Refusals
from onnxc.dialects.onnx import OnnxOp
from onnxc.dialects.verifier import verify, verify_round_trip

from .models import agree, graph, imported, info, model, names, run

INT64, BOOL = TensorProto.INT64, TensorProto.BOOL
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def node(op: str, inputs: str, outputs: str = "y", **attrs):
    return helper.make_node(op, inputs.split(), outputs.split(), **attrs)


def main(program) -> ir.Operation:
    return program.module.body.operations[0].operation


def refused(model_: ModelProto, match: str, code: int = 2, **dims: int) -> OnnxcError:
    with pytest.raises(OnnxcError, match=match) as caught:
        imported(model_, **dims)
    assert caught.value.exit_code == code
    return caught.value


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


# -- sub-graphs


def branch(nodes, output: str = "r"):
    return graph(nodes, {}, [output])


def test_if_captures() -> None:
    nodes = [
        node("Relu", "x", "t"),
        node("If", "c", then_branch=branch([node("Add", "t w", "r")]), else_branch=branch([node("Neg", "x", "r")])),
    ]
    model_ = model(graph(nodes, {"x": [2, 3], "c": []}, constants={"w": X}, kinds={"c": BOOL}))
    program = imported(model_)
    for condition, want in ((True, 2 * X), (False, -X)):
        np.testing.assert_array_equal(run(program, X, np.array(condition))[0], want)
    text = program.module.operation.get_asm(enable_debug_info=True)
    assert 'loc("If_1/Add_0")' in text
    with program.context:
        verify(program.module)
        verify_round_trip(program.module)


def test_loop_and_shadowed_names() -> None:
    body = helper.make_graph(
        [node("Identity", "cond_in", "cond_out"), node("Add", "t w", "t_out"), node("Neg", "t_out", "x")],
        "body",
        [info("i", [], INT64), info("cond_in", [], BOOL), info("t", None)],
        [info("cond_out", [], BOOL), info("t_out", None), info("x", None)],
    )
    nodes = [helper.make_node("Loop", ["n", "", "x"], ["y", "rows"], body=body)]
    model_ = model(graph(nodes, {"n": [], "x": [2, 3]}, ["y", "rows"], {"w": X}, {"n": INT64}))
    total, rows = run(imported(model_), np.array(3), X)
    np.testing.assert_array_equal(total, 4 * X)
    np.testing.assert_array_equal(rows, np.stack([-2 * X, -3 * X, -4 * X]))


def test_scan() -> None:
    body = helper.make_graph(
        [node("Add", "s v", "t"), node("Identity", "t", "o")], "body",
        [info("s", [3]), info("v", [3])], [info("t", [3]), info("o", [3])],
    )  # fmt: skip
    scan = helper.make_node("Scan", ["s0", "x"], ["last", "y"], body=body, num_scan_inputs=1)
    agree(model(graph([scan], {"s0": [3], "x": [2, 3]}, ["last", "y"])), np.zeros(3, np.float32), X)


def test_undefined_in_a_branch() -> None:
    bad = node("If", "c", then_branch=branch([node("Neg", "gone", "r")]), else_branch=branch([node("Neg", "x", "r")]))
    refused(model(graph([bad], {"x": [2], "c": []}, kinds={"c": BOOL})), "input 'gone' is not defined")


# -- functions


def function(name: str, nodes, inputs="a b", outputs="r", attributes=(), opset: int = 17, **imports: int):
    opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(d, v) for d, v in imports.items())]
    return helper.make_function("own", name, inputs.split(), outputs.split(), nodes, opsets, attributes)


def test_model_local_functions() -> None:
    """Nested calls, an attribute that is passed on, one with a default, and names that clash with the caller's."""
    reference = helper.make_node("LeakyRelu", ["a"], ["x"])
    attribute = reference.attribute.add()
    attribute.name, attribute.ref_attr_name, attribute.type = "alpha", "slope", 1
    inner = function("Inner", [reference, node("Add", "x b", "r")], attributes=["slope"])
    call = helper.make_node("Inner", ["b", "a"], ["r"], domain="own", name="deep")
    passed = call.attribute.add()
    passed.name, passed.ref_attr_name, passed.type = "slope", "outer", 1
    outer = function("Outer", [call], attributes=["outer"], own=1)
    nodes = [helper.make_node("Outer", ["x", "w"], ["y"], domain="own", name="call", outer=0.5)]
    model_ = model(graph(nodes, {"x": [2, 3]}, constants={"w": -X}), functions=[inner, outer], own=1)
    program = agree(model_, X)
    assert "onnx.LeakyRelu" in names(program) and "alpha = 5.000000e-01" in str(program.module)
    assert 'loc("call/deep/LeakyRelu_0")' in program.module.operation.get_asm(enable_debug_info=True)


def test_a_function_of_an_older_opset() -> None:
    squeeze = function("Old", [node("Squeeze", "a", "r", axes=[0])], inputs="a", opset=11)
    nodes = [helper.make_node("Old", ["x"], ["y"], domain="own")]
    program = imported(model(graph(nodes, {"x": [1, 3]}), functions=[squeeze], own=1))
    np.testing.assert_array_equal(run(program, X[:1])[0], X[0])


def test_an_optional_input_of_a_function() -> None:
    clip = function("Bound", [node("Clip", "a b", "r")])
    nodes = [helper.make_node("Bound", ["x"], ["y"], domain="own")]
    program = imported(model(graph(nodes, {"x": [2, 3]}), functions=[clip], own=1))
    np.testing.assert_array_equal(run(program, X)[0], X)


def test_a_function_that_calls_itself() -> None:
    call = helper.make_node("F", ["a", "b"], ["r"], domain="own")
    nodes = [helper.make_node("F", ["x", "x"], ["y"], domain="own")]
    refused(model(graph(nodes, {"x": [2]}), functions=[function("F", [call], own=1)], own=1), "nested too deeply")


def test_a_bomb_of_functions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onnxc.importer.graph.MAX_NODES", 10_000)
    functions = [function("F0", [node("Neg", "a", "r")], inputs="a")]
    for depth in range(1, 10):
        calls = [helper.make_node(f"F{depth - 1}", ["a"], [f"t{i}" if i else "r"], domain="own") for i in range(10)]
        functions.append(function(f"F{depth}", calls, inputs="a", own=1))
    nodes = [helper.make_node("F9", ["x"], ["y"], domain="own")]
    refused(model(graph(nodes, {"x": [2]}), functions=functions, own=1), "more than 10000 nodes")


@pytest.mark.parametrize("op", ["Mish", "Softplus", "LogSoftmax", "Elu", "MeanVarianceNormalization"])
def test_schema_functions(op: str) -> None:
    """What has no lowering is replaced by its body, in as many rounds as bodies hold such operators."""
    x = X.reshape(1, 1, 2, 3)
    model_ = model(graph([node(op, "x")], {"x": list(x.shape)}), opset=18)
    lowered = {"Softplus"} if op == "Mish" else set()
    program = imported(model_, has_lowering=lambda name: name in lowered)
    assert f"onnx.{op}" not in names(program)
    whole = imported(model_, has_lowering=lambda name: True)
    assert names(whole) == [f"onnx.{op}", "func.return"]
    np.testing.assert_allclose(run(program, x)[0], run(whole, x)[0], rtol=1e-4, atol=1e-5)


def test_schema_functions_in_branches_and_functions() -> None:
    inner = function("Inner", [node("Mish", "a", "r")], inputs="a", opset=18)
    call = helper.make_node("Inner", ["x"], ["r"], domain="own")
    nodes = [node("If", "c", then_branch=branch([node("Mish", "x", "r")]), else_branch=branch([call]))]
    model_ = model(graph(nodes, {"x": [2, 3], "c": []}, kinds={"c": BOOL}), opset=18, functions=[inner], own=1)
    program = imported(model_, has_lowering=lambda name: name != "Mish")
    assert "onnx.Mish" not in str(program.module)
    results = [run(program, X, np.array(condition))[0] for condition in (True, False)]
    np.testing.assert_array_equal(*results)


# -- dims


def types(program) -> list[str]:
    return [str(a.type) for a in main(program).regions[0].blocks[0].arguments]


def dim_names(program) -> dict[str, str]:
    entries = ir.DictAttr(main(program).attributes["dim_names"])
    return {entries[i].name: ir.StringAttr(entries[i].attr).value for i in range(len(entries))}


def test_symbols() -> None:
    graph_ = graph([node("Relu", "x")], {"x": ["batch", None, "2*n+1", "s0", "max", 0], "z.1": ["batch", -1]})
    program = imported(model(graph_))
    assert types(program) == [
        'tensor<?x?x?x?x?x?xf32, ["batch", "x_1", "d_2_n_1", "dim_s0", "dim_max", "x_5"]>',
        'tensor<?x?xf32, ["batch", "z_1_1"]>',
    ]
    assert dim_names(program) == {
        "batch": "batch", "x_1": "", "d_2_n_1": "2*n+1", "dim_s0": "s0", "dim_max": "max", "x_5": "", "z_1_1": "",
    }  # fmt: skip


def test_symbols_that_would_collide() -> None:
    program = imported(model(graph([node("Relu", "x")], {"x": ["a b", "a.b", "a_b", "a b"]})))
    assert types(program) == ['tensor<?x?x?x?xf32, ["a_b", "a_b_2", "a_b_3", "a_b"]>']


@pytest.mark.parametrize(
    ("dims", "want"),
    [
        ({"batch": 1}, ['tensor<1x?xf32, [1, "x_1"]>', "tensor<1xf32>"]),
        ({"x.1": 640}, ['tensor<?x640xf32, ["batch", 640]>', 'tensor<?xf32, ["batch"]>']),
        ({"x.0": 4, "x.1": 5}, ["tensor<4x5xf32>", "tensor<4xf32>"]),
        ({"a.b.0": 4}, ['tensor<4x?xf32, [4, "x_1"]>', "tensor<4xf32>"]),
    ],
)
def test_bindings(dims: dict[str, int], want: list[str]) -> None:
    model_ = model(graph([node("Relu", "x")], {"x": ["batch", None], "a.b": ["batch"]}))
    assert types(imported(model_, **dims)) == want


@pytest.mark.parametrize(
    ("dims", "match"),
    [
        ({"batchh": 1}, "no dim 'batchh' to set.*hint: its dims are batch, x.1"),
        ({"x.2": 7}, "the model fixes it to 3"),
        ({"x.0": 7, "batch": 8}, "dim 'batch' is set to"),
        ({"x.9": 7}, "no dim 'x.9'"),
    ],
)
def test_bad_bindings(dims: dict[str, int], match: str) -> None:
    refused(model(graph([node("Relu", "x")], {"x": ["batch", None, 3]})), match, **dims)


def test_input_types() -> None:
    graph_ = graph([node("Relu", "x")], {"x": None})
    sequence = helper.make_tensor_sequence_value_info("q", INT64, [2])
    optional = ValueInfoProto(name="o", type=helper.make_optional_type_proto(sequence.type))
    graph_.input.extend([sequence, optional])
    assert types(imported(model(graph_))) == [
        "tensor<*xf32>",
        "!onnx.seq<tensor<*xi64>>",
        "!onnx.optional<!onnx.seq<tensor<*xi64>>>",
    ]


def test_sparse_inputs_are_refused() -> None:
    graph_ = graph([node("Relu", "x")], {"x": [2]})
    graph_.input.append(helper.make_sparse_tensor_value_info("p", TensorProto.FLOAT, [2]))
    refused(model(graph_), "'p' is of an unsupported type", 1)


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
