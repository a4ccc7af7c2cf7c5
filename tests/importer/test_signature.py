"""From graphs to IR: the dims of inputs, their names and bindings, and the inputs' types."""

from __future__ import annotations

import pytest
from mlir import ir
from onnx import TensorProto, ValueInfoProto, helper

from .models import INT64, graph, imported, main, model, node, refused

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
