"""If, Loop and Scan against onnxruntime: captures, nesting, growing carried tensors, scan outputs, zero trips."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, parser

from tests.ops.oracle import OPSET, difference, f32, run_compiled, run_reference


def parsed(text: str) -> onnx.ModelProto:
    """`text` is a model in onnx's syntax, without the header."""
    return parser.parse_model(f'<ir_version: 10, opset_import: ["" : {OPSET}]>\n' + text)


def check(text: str, runs: Sequence[dict[str, np.ndarray]], tolerance: float = 1e-5) -> None:
    model = parsed(text)
    onnx.checker.check_model(model)
    for i, (ours, theirs) in enumerate(zip(run_compiled(model, runs), run_reference(model, runs), strict=True)):
        for output, got, want in zip(model.graph.output, ours, theirs, strict=True):
            message = difference(got, want, tolerance)
            assert not message, f"{output.name}, run {i}: {message}"


@pytest.mark.parametrize("condition", [True, False])
def test_if(condition):
    check(
        """g (bool c, float[N, 3] x, float[3] w) => (float[M, 3] y, float z) {
        a = Add(x, w)
        y, z = If (c) <
            then_branch = t () => (float[N, 3] p, float q) { p = Mul(a, w)  q = ReduceSum <keepdims = 0> (x) },
            else_branch = e () => (float[N, 3] r, float s) { r = Sub(a, w)  s = ReduceMax <keepdims = 0> (a) }>
    }""",
        [{"c": np.array(condition), "x": f32(n, 3), "w": f32(3)} for n in (2, 5)],
    )


def test_if_with_branches_of_other_sizes():
    check(
        """g (bool c, float[N] x) => (float[M] y) {
        one = Constant <value_ints = [1]> ()  two = Constant <value_ints = [2]> ()
        y = If (c) <
            then_branch = t () => (float[K] p) { p = Slice(x, one, two) },
            else_branch = e () => (float[L] r) { r = Concat <axis = 0> (x, x) }>
    }""",
        [{"c": np.array(c), "x": f32(n)} for c in (True, False) for n in (4, 1)],
    )


def test_if_passes_outer_values():
    check(
        """g (bool c, float[N] x, float[N] y) => (float[N] a, float[N] b) {
        a, b = If (c) <
            then_branch = t () => (float[N] p, float[N] q) { p = Identity(x) q = Identity(y) },
            else_branch = e () => (float[N] r, float[N] s) { r = Identity(y) s = Neg(y) }>
    }""",
        [{"c": np.array(c), "x": f32(4), "y": f32(4)} for c in (True, False)],
    )


def test_nested_if():
    check(
        """g (bool c, bool d, float[4] x) => (float[4] y) {
        y = If (c) <
            then_branch = t () => (float[4] p) {
                k = Exp(x)
                p = If (d) <then_branch = tt () => (float[4] pp) { pp = Add(k, x) },
                    else_branch = te () => (float[4] pq) { pq = Mul(k, x) }> },
            else_branch = e () => (float[4] r) { r = Neg(x) }>
    }""",
        [{"c": np.array(c), "d": np.array(d), "x": f32(4)} for c in (True, False) for d in (True, False)],
    )


def test_condition_from_data():
    check(
        """g (float[N] x) => (float[N] y) {
        zero = Constant <value_float = 0.0> ()
        s = ReduceSum <keepdims = 0> (x)
        c = Greater(s, zero)
        y = If (c) <then_branch = t () => (float[N] p) { p = Relu(x) },
            else_branch = e () => (float[N] r) { r = Neg(x) }>
    }""",
        [{"x": np.abs(f32(4))}, {"x": -np.abs(f32(3))}],
    )


@pytest.mark.parametrize("trips", [0, 1, 5])
def test_loop_by_count(trips):
    check(
        """g (int64 n, float[3] x) => (float[3] y, float[S, 3] all) {
        yes = Constant <value = bool {1}> ()
        y, all = Loop (n, yes, x) <body = b (int64 i, bool go, float[3] v) => (bool again, float[3] w, float[3] out) {
            again = Identity(go)
            f = Cast <to = 1> (i)
            w = Add(v, f)
            out = Mul(v, v)
        }>
    }""",
        [{"n": np.array(trips), "x": f32(3)}],
    )


def test_loop_by_condition():
    check(
        """g (float limit, float[2] x) => (float[2] y, int64 trips) {
        none = Constant <value_int = 9223372036854775807> ()
        zero = Constant <value_int = 0> ()
        yes = Constant <value = bool {1}> ()
        y, trips = Loop (none, yes, x, zero) <
            body = b (int64 i, bool go, float[2] v, int64 c) => (bool again, float[2] w, int64 d) {
            w = Add(v, v)
            s = ReduceSum <keepdims = 0> (w)
            again = Less(s, limit)
            one = Constant <value_int = 1> ()
            d = Add(c, one)
        }>
    }""",
        [{"limit": np.array(v, np.float32), "x": np.array([1, 2], np.float32)} for v in (100, 0)],
    )


def test_loop_that_never_starts():
    check(
        """g (bool go, float[2] x) => (float[2] y, float[S, 2] all) {
        n = Constant <value_int = 4> ()
        y, all = Loop (n, go, x) <body = b (int64 i, bool c, float[2] v) => (bool d, float[2] w, float[2] out) {
            d = Identity(c) w = Add(v, v) out = Neg(v) }>
    }""",
        [{"go": np.array(False), "x": f32(2)}, {"go": np.array(True), "x": f32(2)}],
    )


def test_growing_carried_tensor():
    """As in greedy decoders: what a trip carries is longer than what it got."""
    check(
        """g (int64 n, float[N, 2] x) => (float[M, 2] y) {
        yes = Constant <value = bool {1}> ()
        y = Loop (n, yes, x) <body = b (int64 i, bool c, float[K, 2] v) => (bool d, float[L, 2] w) {
            d = Identity(c)
            axes = Constant <value_ints = [0]> ()
            last = ReduceSum <keepdims = 1> (v, axes)
            w = Concat <axis = 0> (v, last)
        }>
    }""",
        [{"n": np.array(t), "x": f32(k, 2)} for t, k in [(0, 3), (1, 1), (4, 2)]],
    )


def test_scan_outputs_of_run_time_size():
    check(
        """g (int64 n, float[N] x) => (float[S, M] all, float[N] y) {
        yes = Constant <value = bool {1}> ()
        y, all = Loop (n, yes, x) <body = b (int64 i, bool c, float[N] v) => (bool d, float[N] w, float[M] out) {
            d = Identity(c) w = Neg(v) out = Concat <axis = 0> (v, x) }>
    }""",
        [{"n": np.array(t), "x": f32(k)} for t, k in [(3, 2), (2, 5), (1, 1)]],
    )


def test_nested_loops_capture():
    check(
        """g (int64 n, float[2] x) => (float[2] y) {
        yes = Constant <value = bool {1}> ()
        two = Constant <value_int = 2> ()
        y = Loop (n, yes, x) <body = outer (int64 i, bool c, float[2] v) => (bool d, float[2] w) {
            d = Identity(c)
            w = Loop (two, yes, v) <body = inner (int64 j, bool p, float[2] a) => (bool q, float[2] b) {
                q = Identity(p)
                k = Add(i, j)
                f = Cast <to = 1> (k)
                t = Mul(f, x)
                b = Add(a, t)
            }>
        }>
    }""",
        [{"n": np.array(t), "x": f32(2)} for t in (0, 3)],
    )


def test_if_in_loop():
    check(
        """g (int64 n, float[3] x) => (float[3] y) {
        yes = Constant <value = bool {1}> ()
        two = Constant <value_int = 2> ()
        zero = Constant <value_int = 0> ()
        y = Loop (n, yes, x) <body = b (int64 i, bool c, float[3] v) => (bool d, float[3] w) {
            d = Identity(c)
            r = Mod(i, two)
            even = Equal(r, zero)
            w = If (even) <then_branch = t () => (float[3] p) { p = Add(v, x) },
                else_branch = e () => (float[3] q) { q = Mul(v, x) }>
        }>
    }""",
        [{"n": np.array(t), "x": f32(3)} for t in (0, 1, 4)],
    )


@pytest.mark.parametrize("trips", [0, 3])
def test_carried_values_that_stay(trips):
    """Exporters of `while` carry weights; one of these is a result as well, and goes through a loop inside."""
    check(
        """g (int64 n, float[2, 3] x, float[3, 3] u) => (float[2, 3] y, float[3, 3] same, float[3, 3] other)
        <float[3, 3] w = {1, 0, 2, -1, 1, 0, 0, 1, 1}> {
        yes = Constant <value = bool {1}> ()
        y, same, other = Loop (n, yes, x, w, u) <
            body = b (int64 i, bool go, float[2, 3] v, float[3, 3] a, float[3, 3] c) =>
                (bool again, float[2, 3] next, float[3, 3] a1, float[3, 3] c1) {
            again = Identity(go)
            two = Constant <value_int = 2> ()
            next, c1 = Loop (two, go, v, c) <
                body = d (int64 j, bool g, float[2, 3] p, float[3, 3] q) => (bool h, float[2, 3] r, float[3, 3] q1) {
                h = Identity(g) m = MatMul(p, a) r = MatMul(m, q) q1 = Identity(q) }>
            a1 = Identity(a)
        }>
    }""",
        [{"n": np.array(trips), "x": f32(2, 3), "u": f32(3, 3)}],
    )


def test_swapped_carried_values():
    check(
        """g (int64 n, float[3] x, float[3] y) => (float[3] a, float[3] b) {
        yes = Constant <value = bool {1}> ()
        a, b = Loop (n, yes, x, y) <
            body = l (int64 i, bool c, float[3] p, float[3] q) => (bool d, float[3] r, float[3] s) {
            d = Identity(c) r = Identity(q) s = Add(p, q) }>
    }""",
        [{"n": np.array(t), "x": f32(3), "y": f32(3)} for t in (0, 1, 5)],
    )


def scan(inputs: int, **attributes: object) -> onnx.ModelProto:
    """Running sums of a sequence, and their squares."""
    body = helper.make_graph(
        [helper.make_node("Add", ["state", "x"], ["next"]), helper.make_node("Mul", ["next", "next"], ["square"])],
        "body",
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [3]) for n in ("state", "x")],
        [helper.make_tensor_value_info(n, TensorProto.FLOAT, [3]) for n in ("next", "square")],
    )
    node = helper.make_node(
        "Scan", ["start", "xs"], ["last", "squares"], name="scan", num_scan_inputs=inputs, body=body, **attributes
    )
    graph = helper.make_graph(
        [node],
        "g",
        [
            helper.make_tensor_value_info("start", TensorProto.FLOAT, [3]),
            helper.make_tensor_value_info("xs", TensorProto.FLOAT, ["S", 3]),
        ],
        [
            helper.make_tensor_value_info("last", TensorProto.FLOAT, [3]),
            helper.make_tensor_value_info("squares", TensorProto.FLOAT, ["S", 3]),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=10)


@pytest.mark.parametrize("attributes", [{}, {"scan_input_directions": [1]}, {"scan_output_directions": [1]}])
def test_scan(attributes):
    model = scan(1, **attributes)
    runs = [{"start": f32(3), "xs": f32(s, 3)} for s in (4, 1)]
    for ours, theirs in zip(run_compiled(model, runs), run_reference(model, runs), strict=True):
        assert not [m for g, w in zip(ours, theirs, strict=True) if (m := difference(g, w, 1e-5))]


@pytest.mark.parametrize("trips", [0, 3])
def test_what_a_loop_passes_on_is_not_overwritten(trips):
    """`a` is carried unchanged (or not at all, without a trip): it lies where its first value was put."""
    check(
        """g (int64 n, bool c, float[8] x) => (float[8] y, float[8] z) {
        start = Exp(x)
        twin = ReduceSum <keepdims = 0> (start)
        a, b = Loop (n, c, start, start) <body = t (int64 i, bool go, float[8] p, float[8] q)
            => (bool on, float[8] pp, float[8] qq) { on = Identity(go)  pp = Identity(p)  qq = Add(q, p) }>
        other = Softmax(x)  more = Softmax(other)  last = Softmax(more)
        y = Add(a, last)
        z = Mul(b, twin)
    }""",
        [{"n": np.array(trips), "c": np.array(True), "x": f32(8)}],
    )
