"""Each rule of the onnx dialect: IR that breaks it, and what the verifier says."""

from __future__ import annotations

import pytest
from mlir import ir

from onnxc.dialects.errors import CompilerBug
from onnxc.dialects.levels import GRAPH, LLVM
from onnxc.dialects.onnx import new_context
from onnxc.dialects.verifier import verify, verify_round_trip

GOOD = """
func.func @main(%x: tensor<?x4xf32, ["N", 4]>, %c: tensor<i1>, %n: tensor<i64>, %q: !onnx.seq<tensor<*xf32>>) {
  %none = "onnx.None"() : () -> none
  %axes = "onnx.Constant"() {value = dense<1> : tensor<1xi64>} : () -> tensor<1xi64>
  %w = "onnx.Constant"() {weight = "w"} : () -> tensor<100xf32>
  %open = "onnx.Relu"(%x) : (tensor<?x4xf32, ["N", 4]>) -> tensor<*x!onnx.any>
  %sum = "onnx.ReduceSum"(%open, %axes) {keepdims = 0 : i64} : (tensor<*x!onnx.any>, tensor<1xi64>) -> tensor<*xf32>
  %clip = "onnx.Clip"(%sum, %none, %sum) : (tensor<*xf32>, none, tensor<*xf32>) -> tensor<*xf32>
  %flat = "onnx.Reshape"(%x, %none) {operand_values = {"1" = ["4*N"]}, onnxc.note = "kept"}
      : (tensor<?x4xf32, ["N", 4]>, none) -> tensor<?xf32, ["4*N"]>
  %cat = "onnx.Concat"(%x, %sum) {axis = 0 : i64} : (tensor<?x4xf32, ["N", 4]>, tensor<*xf32>) -> tensor<*xf32>
  %two:2 = "onnx.LSTM"(%x, %x, %x) {activations = ["Tanh"], hidden_size = 2 : i64, clip = 1.0 : f32}
      : (tensor<?x4xf32, ["N", 4]>, tensor<?x4xf32, ["N", 4]>, tensor<?x4xf32, ["N", 4]>)
      -> (tensor<*xf32>, tensor<*xf32>)
  %at = "onnx.SequenceAt"(%q, %n) : (!onnx.seq<tensor<*xf32>>, tensor<i64>) -> tensor<*xf32>
  %if = "onnx.If"(%c) ({
    "onnx.Yield"(%x) : (tensor<?x4xf32, ["N", 4]>) -> ()
  }, {
    "onnx.Yield"(%sum) : (tensor<*xf32>) -> ()
  }) : (tensor<i1>) -> tensor<*xf32>
  %loop:2 = "onnx.Loop"(%n, %none, %sum) ({
  ^bb0(%i: tensor<i64>, %go: tensor<i1>, %s: tensor<*xf32>):
    "onnx.Yield"(%go, %s, %s) : (tensor<i1>, tensor<*xf32>, tensor<*xf32>) -> ()
  }) : (tensor<i64>, none, tensor<*xf32>) -> (tensor<*xf32>, tensor<*xf32>)
  %gelu = "onnx.microsoft.Gelu"(%x) : (tensor<?x4xf32, ["N", 4]>) -> tensor<*xf32>
  %ml = "onnx.ml.Normalizer"(%x) {norm = "L1"} : (tensor<?x4xf32, ["N", 4]>) -> tensor<*xf32>
  return
}
"""


def check(body: str) -> None:
    with new_context(), ir.Location.unknown():
        module = ir.Module.parse(body)
        verify(module)
        verify_round_trip(module)


def test_good() -> None:
    check(GOOD)


@pytest.mark.parametrize(
    ("op", "fault"),
    [
        ('%y = "onnx.Rleu"(%x) : (tensor<4xf32>) -> tensor<4xf32>', "there is no operator onnx.Rleu"),
        ('%y = "onnx.Upsample"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>', "there is no operator"),
        ('%y = "onnx.ml.Relu"(%x) : (tensor<4xf32>) -> tensor<4xf32>', "there is no operator"),
        ('%y = "onnx.Add"(%x) : (tensor<4xf32>) -> tensor<4xf32>', "it has 1 operands, and takes 2 to 2"),
        ('%y = "onnx.Relu"(%x, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>', "it has 2 operands"),
        ('"onnx.Relu"(%x) : (tensor<4xf32>) -> ()', "it has 0 results"),
        ('%y = "onnx.Reshape"(%x, %no) : (tensor<4xf32>, none) -> tensor<4xf32>', "operand shape is absent"),
        ('%y = "onnx.Concat"(%x) : (tensor<4xf32>) -> tensor<4xf32>', "attribute axis is missing"),
        ('%y = "onnx.Relu"(%x) {slope = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>', "it has no attribute slope"),
        ('%y = "onnx.Elu"(%x) {alpha = 1 : i64} : (tensor<4xf32>) -> tensor<4xf32>', "should be of kind float"),
        ('%y = "onnx.Not"(%x) : (tensor<4xf32>) -> tensor<4xf32>', "operand X is tensor<4xf32>, which T does not"),
        ('%y = "onnx.Relu"(%x) : (tensor<4xf32>) -> tensor<4xf64>', r"result Y is tensor\(double\), and T is"),
        ('%y = "onnx.Add"(%x, %i) : (tensor<4xf32>, tensor<4xi64>) -> tensor<4xf32>', "operand B is"),
        ('%y = "onnx.Relu"(%x) ({}) : (tensor<4xf32>) -> tensor<4xf32>', "it has 1 regions, and takes 0"),
        ('%y = "onnx.If"(%c) ({}, {}) : (tensor<i1>) -> tensor<4xf32>', "region then_branch has 0 blocks"),
        ('%y = "onnx.Constant"() : () -> tensor<4xf32>', "either a value or a weight"),
        (
            '%y = "onnx.Constant"() {value = dense<0.0> : tensor<65xf32>} : () -> tensor<65xf32>',
            "belongs in the weight store",
        ),
        (
            '%y = "onnx.Constant"() {value = dense<0.0> : tensor<f16>} : () -> tensor<f16>',
            "belongs in the weight store",
        ),
        ('%y = "onnx.Constant"() {value = dense<0.0> : tensor<f32>} : () -> tensor<f64>', "gives tensor<f64>"),
        ('%y = "onnx.None"() : () -> tensor<4xf32>', "onnx.None gives one value of type none"),
        ('"onnx.Yield"(%x) : (tensor<4xf32>) -> ()', "outside of a region"),
        (
            """%y = "onnx.If"(%c) ({ "onnx.Yield"(%x) : (tensor<4xf32>) -> () },
                { "onnx.Yield"() : () -> () }) : (tensor<i1>) -> tensor<4xf32>""",
            "region else_branch yields 0 values, and 1 are expected",
        ),
        (
            """%y = "onnx.Loop"(%n, %c, %x) ({ ^bb0(%a: tensor<i64>, %b: tensor<i1>):
                "onnx.Yield"(%b, %x) : (tensor<i1>, tensor<4xf32>) -> () })
                : (tensor<i64>, tensor<i1>, tensor<4xf32>) -> tensor<4xf32>""",
            "region body takes 2 values, and is given 3",
        ),
    ],
)
def test_faults(op: str, fault: str) -> None:
    arguments = "%x: tensor<4xf32>, %i: tensor<4xi64>, %c: tensor<i1>, %n: tensor<i64>"
    with pytest.raises(CompilerBug, match=fault):
        check(f'func.func @main({arguments}) {{ %no = "onnx.None"() : () -> none\n {op}\n return }}')


def test_invalid_for_mlir_itself() -> None:
    with new_context(), ir.Location.unknown():
        module = ir.Module.parse("func.func @f(%x: f32) -> f32 { return %x : f32 }")
        function_type = ir.FunctionType.get([], [])
        module.body.operations[0].attributes["function_type"] = ir.TypeAttr.get(function_type)
        with pytest.raises(CompilerBug, match="the module is not valid"):
            verify(module)


def test_levels() -> None:
    with new_context(), ir.Location.unknown():
        module = ir.Module.parse(
            """func.func @f(%x: tensor<4xf32>) -> tensor<4xf32> {
              %y = "onnx.Relu"(%x) : (tensor<4xf32>) -> tensor<4xf32> loc("conv1/relu")
              return %y : tensor<4xf32>
            }"""
        )
        GRAPH.check(module)
        assert [op.name for op in LLVM.strays(module)] == ["func.func", "onnx.Relu", "func.return"]
        with pytest.raises(CompilerBug, match=r"lazy.*promised level llvm, but left func.func and 2 more at"):
            LLVM.check(module, "lazy")
