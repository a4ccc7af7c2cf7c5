"""This file tests the graph level's tensor type against MLIR text."""

import pytest
from mlir import ir

from onnxc.dialects import dims
from onnxc.dialects.types import Tensor

N = dims.symbol("N")


@pytest.fixture
def context():
    with ir.Context() as context:
        context.allow_unregistered_dialects = True
        yield context


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        (Tensor("f32", (N, 4)), 'tensor<?x4xf32, ["N", 4]>'),
        (Tensor("i64", ((N + 1) // 2, 2 * N)), 'tensor<?x?xi64, ["(N+1)//2", "2*N"]>'),
        (Tensor("ui8", (3, 0)), "tensor<3x0xui8>"),
        (Tensor("i1", ()), "tensor<i1>"),
        (Tensor("f16", None), "tensor<*xf16>"),
        (Tensor("!onnx.string", (N,)), 'tensor<?x!onnx.string, ["N"]>'),
        (Tensor("f32", (dims.symbol("it's"),)), "tensor<?xf32, [\"'it\\\\'s'\"]>"),
    ],
)
def test_types_both_ways(context, tensor, text):
    assert tensor.type() == ir.Type.parse(text)
    assert Tensor.of(ir.Type.parse(text)) == tensor


def test_size_and_rank():
    assert str(Tensor("f32", (N, 4, N)).numel) == "4*N*N"
    assert Tensor("f32", (2, 3)).numel == 6
    assert Tensor("f32", None).rank is None
    assert not Tensor("f32", (N,)).is_static


def test_a_nameless_dynamic_dim_is_refused(context):
    with pytest.raises(ValueError, match="needs its name"):
        Tensor.of(ir.Type.parse("tensor<?xf32>"))
