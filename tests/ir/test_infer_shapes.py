"""This file tests what shape inference requires and refuses; what it infers is in graph/infer_shapes.mlir."""

import numpy as np
import pytest
from mlir import ir

from onnxc.dialects.errors import Refusals
from onnxc.dialects.onnx import new_context
from onnxc.passes.contract import Program
from onnxc.passes.infer_shapes import check_shapes, infer_shapes

from .interpret import interpret

REQUIRED = """
func.func @main(%x: tensor<?xf32, ["N"]>, %y: tensor<?xf32, ["M"]>) -> tensor<*xf32> {
  %a = "onnx.Add"(%x, %y) : (tensor<?xf32, ["N"]>, tensor<?xf32, ["M"]>) -> tensor<*xf32>
  %b = "onnx.Mul"(%y, %x) : (tensor<?xf32, ["M"]>, tensor<?xf32, ["N"]>) -> tensor<*xf32>
  %c = "onnx.Add"(%a, %b) : (tensor<*xf32>, tensor<*xf32>) -> tensor<*xf32>
  return %c : tensor<*xf32>
}
"""

ONLY_ONE_IS_LEGAL = """
func.func @main(%x: tensor<?x3x?xf32, ["N", 3, "T"]>, %w: tensor<3x4xf32>, %c: tensor<i1>) -> tensor<*xf32> {
  %one = "onnx.Constant"() {value = dense<1> : tensor<1xi64>} : () -> tensor<1xi64>
  %two = "onnx.Constant"() {value = dense<2> : tensor<1xi64>} : () -> tensor<1xi64>
  %s = "onnx.Shape"(%x) : (tensor<?x3x?xf32, ["N", 3, "T"]>) -> tensor<*x!onnx.any>
  %t = "onnx.Gather"(%s, %two) : (tensor<*x!onnx.any>, tensor<1xi64>) -> tensor<*x!onnx.any>
  %is = "onnx.Equal"(%t, %one) : (tensor<*x!onnx.any>, tensor<1xi64>) -> tensor<*x!onnx.any>
  %y = "onnx.If"(%is) ({
    %0 = "onnx.Squeeze"(%x, %two) : (tensor<?x3x?xf32, ["N", 3, "T"]>, tensor<1xi64>) -> tensor<*xf32>
    "onnx.Yield"(%0) : (tensor<*xf32>) -> ()
  }, {
    %0 = "onnx.Identity"(%x) : (tensor<?x3x?xf32, ["N", 3, "T"]>) -> tensor<*xf32>
    "onnx.Yield"(%0) : (tensor<*xf32>) -> ()
  }) : (tensor<*x!onnx.any>) -> tensor<*xf32>
  %z = "onnx.Gemm"(%y, %w) : (tensor<*xf32>, tensor<3x4xf32>) -> tensor<*xf32>
  return %z : tensor<*xf32>
}
"""


def inferred(text: str) -> Program:
    with new_context(), ir.Location.unknown():
        program = Program(ir.Module.parse(text))
        infer_shapes(program)
        return program


def refusal(body: str, *arguments: str) -> str:
    """The message for a function of that body, whose last value is %y."""
    names = ", ".join(f"%{name}: {type_}" for name, type_ in zip("abcd", arguments, strict=False))
    text = f'func.func @main({names}) {{ {body} loc("node_1")\n return }}'
    with pytest.raises(Refusals) as caught:
        program = inferred(text)
        check_shapes(program)
    return str(caught.value)


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def test_what_cannot_be_proved_is_required_once():
    program = inferred(REQUIRED)
    assert str(program.module).count("kernel.require") == 1
    for n, m in [(3, 3), (1, 4), (4, 1)]:
        assert interpret(program.module, program.weights, [ones(n), ones(m)])[0].shape == (max(n, m),)
    with pytest.raises(AssertionError, match="N and M do not broadcast"):
        interpret(program.module, program.weights, [ones(2), ones(3)])


def test_a_branch_that_leaves_no_legal_shapes_is_not_taken():
    program = inferred(ONLY_ONE_IS_LEGAL)
    assert "onnx.If" not in str(program.module)
    (result,) = interpret(program.module, program.weights, [ones(2, 3, 1), ones(3, 4), np.array(True)])
    assert result.shape == (2, 4)
    with pytest.raises(AssertionError, match="the size of squeezed axis 2: T and 1 differ"):
        interpret(program.module, program.weights, [ones(2, 3, 5), ones(3, 4), np.array(True)])


ILLEGAL = [
    ("MatMul", "", ["2x3", "4x5"], "the axis that is summed over: 3 and 4 differ"),
    ("Add", "", ["2x3", "4x3"], "sizes of the operands: 2 and 4 do not broadcast"),
    ("Concat", "{axis = 0}", ["2x3", "2x4"], "sizes of axis 1: 3 and 4 differ"),
    ("Concat", "{axis = 2}", ["2x3", "2x3"], "axis 2 is not an axis of a rank-2 tensor"),
    ("Gemm", "", ["2x3x4", "4x3"], "operand 0 must have rank 2, not 3"),
    ("Conv", "", ["1x4x8", "2x3x3"], "input channels: 4 and 3 differ"),
    ("Conv", "", ["1x3x8", "2x3x9"], "a window of 9 elements does not fit into 8 with pads 0, 0"),
    ("MaxPool", "{kernel_shape = array<i64: 2, 2>}", ["1x3x8"], "a window of 2 axes over 1 spatial axes"),
    ("Transpose", "{perm = array<i64: 0, 0>}", ["2x3"], "perm [0, 0] is not an order of 2 axes"),
    ("DepthToSpace", "{blocksize = 2}", ["1x6x2x2"], "the remainder of the channels by 4: 2 and 0 differ"),
    ("Einsum", '{equation = "ij,jk->il"}', ["2x3", "3x4"], "output label 'l' is in no operand"),
]


@pytest.mark.parametrize(("op", "attrs", "operands", "why"), ILLEGAL)
def test_illegal_shapes_are_refused(op, attrs, operands, why):
    types = [f"tensor<{shape}xf32>" for shape in operands]
    names = ", ".join(f"%{name}" for name in "abcd"[: len(types)])
    message = refusal(f'%y = "onnx.{op}"({names}) {attrs} : ({", ".join(types)}) -> tensor<*xf32>', *types)
    shown = ", ".join(f"f32[{shape.replace('x', ', ')}]" for shape in operands)
    assert message == f"node 'node_1' ({op} on {shown}): its operands' shapes do not fit: {why}"


def test_a_reshape_to_another_number_of_elements_is_refused():
    shape = '%s = "onnx.Constant"() {value = dense<[4, 2]> : tensor<2xi64>} : () -> tensor<2xi64>\n'
    node = '%y = "onnx.Reshape"(%a, %s) : (tensor<3x3xf32>, tensor<2xi64>) -> tensor<*xf32>'
    assert "the numbers of elements before and after: 9 and 8 differ" in refusal(shape + node, "tensor<3x3xf32>")


def test_an_unknown_rank_is_refused_at_its_cause_only():
    nodes = """
      %x = "onnx.Reshape"(%a, %b) : (tensor<6xf32>, tensor<?xi64, ["N"]>) -> tensor<*xf32> loc("cause")
      %y = "onnx.Relu"(%x) : (tensor<*xf32>) -> tensor<*xf32>"""
    message = refusal(nodes, "tensor<6xf32>", 'tensor<?xi64, ["N"]>')
    assert message.startswith("node 'cause' (Reshape on f32[6], i64[N]): the rank of its result is not known")
    assert "Relu" not in message


def test_all_illegal_nodes_are_named_at_once():
    nodes = """
      %x = "onnx.MatMul"(%a, %a) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<*xf32> loc("first")
      %z = "onnx.Relu"(%x) : (tensor<*xf32>) -> tensor<*xf32> loc("depends")
      %y = "onnx.Gemm"(%a, %a) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<*xf32>"""
    message = refusal(nodes, "tensor<2x3xf32>")
    assert [name for name in ("first", "depends", "node_1") if f"'{name}'" in message] == ["first", "node_1"]


def test_a_squeeze_without_axes_keeps_what_is_not_known_to_be_one():
    program = inferred("""
      func.func @main(%x: tensor<?x1x3xf32, ["N", 1, 3]>) -> tensor<*xf32> {
        %y = "onnx.Squeeze"(%x) : (tensor<?x1x3xf32, ["N", 1, 3]>) -> tensor<*xf32>
        return %y : tensor<*xf32>
      }""")
    assert interpret(program.module, program.weights, [ones(2, 1, 3)])[0].shape == (2, 3)
    with pytest.raises(AssertionError, match="which a Squeeze without axes is compiled to keep: N is 1"):
        interpret(program.module, program.weights, [ones(1, 1, 3)])


def test_a_zero_that_divides_is_refused():
    node = '%y = "onnx.SpaceToDepth"(%a) {blocksize = 0} : (tensor<1x4x2x2xf32>) -> tensor<*xf32>'
    assert "must not be 0 is 0" in refusal(node, "tensor<1x4x2x2xf32>")
