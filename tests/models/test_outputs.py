"""Outputs that are not simply a call's result: returned twice, read later, inputs, constants, views, branches, empty
ones; and sizes beyond any memory, which end the run with an error."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import parser

import onnxc
from onnxc.errors import OnnxcError
from tests.ops.oracle import OPSET, difference, f32, run_compiled, run_reference

OUTPUTS = """g (float[N, 4] x, bool c) => (float[N, 4] same, float[N, 4] twice, float[N, 4] twice2, float[N, 4] later,
    float[K] flat, float[2] fixed, float[N, 4] either, float[M, 4] few)
    <float[2] two = {1, 2}, int64[1] minus = {-1}, int64[1] one = {1}, int64[1] zero = {0}> {
    same = Identity(x)
    twice = Exp(x)
    twice2 = Identity(twice)
    later = Neg(x)
    flat = Reshape(later, minus)
    fixed = Identity(two)
    either = If (c) <then_branch = t () => (float[N, 4] p) { p = Abs(later) },
                     else_branch = e () => (float[N, 4] q) { q = Identity(later) }>
    few = Slice(twice, one, minus, zero)
}"""


def model(text: str) -> onnx.ModelProto:
    return parser.parse_model(f'<ir_version: 10, opset_import: ["" : {OPSET}]>\n{text}')


def test_outputs_of_all_sorts() -> None:
    made = model(OUTPUTS)
    runs = [{"x": f32(n, 4), "c": np.array(c)} for n, c in ((3, True), (3, False), (1, True), (0, False))]
    for i, (ours, theirs) in enumerate(zip(run_compiled(made, runs), run_reference(made, runs), strict=True)):
        for output, got, want in zip(made.graph.output, ours, theirs, strict=True):
            message = difference(got, want, 1e-5)
            assert not message, f"{output.name}, run {i}: {message}"


def test_one_array_for_two_outputs_is_refused() -> None:
    session = onnxc.InferenceSession(model("g (float[4] x) => (float[4] y, float[4] z) { y = Neg(x)  z = Abs(x) }"))
    x, room = np.arange(-2, 2, dtype=np.float32), np.zeros(6, np.float32)
    with pytest.raises(ValueError, match="the array for output 'z' overlaps an input or another output"):
        session.run(None, {"x": x}, out={"y": room[:4], "z": room[2:]})
    room = np.zeros(8, np.float32)
    session.run(None, {"x": x}, out={"y": room[4:], "z": room[:4]})
    assert room.tolist() == [2, 1, 0, 1, 2, 1, 0, -1]


@pytest.mark.parametrize("size", [2**40, 2**62], ids=["terabytes", "wraps around"])
def test_a_size_beyond_memory_is_an_error(size: int) -> None:
    made = model("""g (float[1] x, int64[2] s) => (float[A, B] y) { y = Expand(x, s) }""")
    with pytest.raises(Exception, match="memory"):
        run_compiled(made, [{"x": f32(1), "s": np.array([4, size])}])


def test_a_wrong_reshape_is_an_error_that_names_the_node() -> None:
    made = model("""g (float[N] x, float[M, 2] like) => (float[M, 2] y) {
        a = Exp(x)  s = Shape(like)  y = Reshape(a, s) }""")
    with pytest.raises(Exception, match="Reshape"):
        run_compiled(made, [{"x": f32(64), "like": f32(2, 2)}])


@pytest.mark.parametrize("made_of", ["Identity(x)", 'Constant<value = string[1] {"a"}>()'])
def test_strings_are_not_returned(made_of: str) -> None:
    made = model(f"g (string[N] x) => (string[K] y) {{ y = {made_of} }}")
    with pytest.raises(OnnxcError, match="output 'y' is of strings, which cannot be returned yet"):
        run_compiled(made, [{"x": np.array(["a"], dtype=object)}])
