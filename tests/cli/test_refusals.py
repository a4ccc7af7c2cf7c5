"""A refusal names the file and comes with all other nodes that cannot be compiled, in the order of the model."""

from __future__ import annotations

import pytest
from mlir import ir

from onnxc import refusals
from onnxc.dialects.onnx import new_context
from onnxc.errors import OnnxcError, Refusals
from onnxc.passes.contract import Program

MODEL = """func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %a = "onnx.Exp"(%x) : (tensor<2xf32>) -> tensor<2xf32> loc("first")
  %b = "onnx.Relu"(%a) : (tensor<2xf32>) -> tensor<2xf32> loc("second")
  %c = "onnx.Det"(%b) : (tensor<2xf32>) -> tensor<2xf32> loc("third")
  return %c : tensor<2xf32>
}
"""


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Program:
    monkeypatch.setattr(refusals, "has_lowering", lambda name: name == "Relu")
    with new_context(), ir.Location.unknown():
        return Program(ir.Module.parse(MODEL), file="m.onnx")


def test_other_nodes_without_lowering_are_added(program: Program) -> None:
    with pytest.raises(Refusals) as caught, refusals.complete_refusals(program):
        raise OnnxcError("is wrong", node="third", op="Det")
    assert [str(error) for error in caught.value.errors] == [
        "m.onnx: node 'first' (Exp): operator Exp cannot be compiled yet",
        "m.onnx: node 'third' (Det): is wrong",
    ]


def test_unreadable_files_stay_one_error(program: Program) -> None:
    with pytest.raises(OnnxcError, match=r"m\.onnx: cannot be read") as caught, refusals.complete_refusals(program):
        raise OnnxcError("cannot be read", exit_code=2)
    assert not isinstance(caught.value, Refusals)
