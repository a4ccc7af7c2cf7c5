"""From graphs to IR: branches and loops with what they capture, and functions that are unfolded."""

from __future__ import annotations

import re

import numpy as np
import pytest
from onnx import helper

from onnxc.dialects.verifier import verify, verify_round_trip

from .models import BOOL, INT64, X, agree, graph, imported, info, model, names, node, refused, run

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


def test_nodes_of_unfolded_bodies_are_named_by_their_calls() -> None:
    """What ONNX defines by other operators, called directly, by functions that call each other, and in a branch."""
    inner = function("Inner", [node("Mish", "a", "r", name="m")], inputs="a", opset=18)
    calls = [node("Relu", "a", "t"), node("Inner", "t", "r", domain="own")]
    outer = function("Outer", calls, inputs="a", opset=18, own=1)
    nodes = [
        node("Mish", "x", "t", name="first"),
        node("Outer", "t", "u", domain="own"),
        node("If", "c", "v", then_branch=branch([node("Mish", "u", "r")]), else_branch=branch([node("Neg", "u", "r")])),
        node("Abs", "v"),
    ]
    made = graph(nodes, {"x": [2, 3], "c": []}, kinds={"c": BOOL})
    program = imported(model(made, 18, functions=[inner, outer], own=1), has_lowering=lambda name: name != "Mish")
    text = program.module.operation.get_asm(enable_debug_info=True)
    found = set(re.findall(r'loc\("([^"]*/[^"]*)"\)', text))
    assert found == {
        "first/Softplus_0", "first/Tanh_1", "first/Mul_2", "Outer_1/Relu_0", "Outer_1/Inner_1/m/Softplus_0",
        "Outer_1/Inner_1/m/Tanh_1", "Outer_1/Inner_1/m/Mul_2", "If_2/Mish_0/Softplus_0", "If_2/Mish_0/Tanh_1",
        "If_2/Mish_0/Mul_2", "If_2/Neg_0",
    }  # fmt: skip


def test_a_function_of_another_opset_beside_what_is_unfolded() -> None:
    double = function("Double", [node("Add", "a a", "r")], inputs="a", opset=17)
    twice = function("Twice", [node("Double", "a", "r", domain="own")], inputs="a", opset=17, own=1)
    nodes = [node("Mish", "x", "t", name="m"), node("Double", "t", "v", domain="own", name="d"),
             node("Twice", "v", domain="own", name="e")]  # fmt: skip
    made = model(graph(nodes, {"x": [2, 3]}), 18, functions=[double, twice], own=1)
    program = imported(made, has_lowering=lambda name: name != "Mish")
    text = program.module.operation.get_asm(enable_debug_info=True)
    assert {'loc("m/Softplus_0")', 'loc("d/Add_0")', 'loc("e/Double_0/Add_0")'} <= set(
        re.findall(r'loc\("[^"]*"\)', text)
    )
    np.testing.assert_allclose(run(program, X)[0], 4 * X * np.tanh(np.log1p(np.exp(X))), rtol=1e-5)


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
