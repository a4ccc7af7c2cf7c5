"""A branch for other sizes than those that are known is an error where it is taken, and only there."""

from __future__ import annotations

import numpy as np
import pytest

from onnxc.errors import OnnxcError
from onnxc.runtime import ModelError
from tests.ops.oracle import difference, f32, run_compiled, run_reference
from tests.ops.test_control_flow import parsed

RULED_OUT = """g (bool c, float[N, 4] x, float[4, 3] v, float[K, 3] w) => (float[N, 3] y) {
    y = If (c) <then_branch = t () => (float[N, 3] p) { p = MatMul(x, v) },
        else_branch = e () => (float[N, 3] r) { [wrong] r = MatMul(x, w) }>
}"""


def test_a_branch_that_cannot_run():
    """A branch may be for other sizes than those that are known: it is an error where it is taken."""
    feeds = {"x": f32(2, 4), "v": f32(4, 3), "w": f32(5, 3)}
    model = parsed(RULED_OUT)
    ((y,),) = run_compiled(model, [{**feeds, "c": np.array(True)}], dims={"K": 5})
    np.testing.assert_allclose(y, feeds["x"] @ feeds["v"], rtol=1e-5)
    with pytest.raises(
        ModelError, match="else branch cannot run with these shapes: node 'If_0/wrong': .*: 4 and 5 differ"
    ):
        run_compiled(model, [{**feeds, "c": np.array(False)}], dims={"K": 5})
    feeds["w"] = f32(4, 3)  # the same model where both can
    runs = [{**feeds, "c": np.array(c)} for c in (True, False)]
    for got, want in zip(run_compiled(model, runs), run_reference(model, runs), strict=True):
        assert not difference(got[0], want[0], 1e-5)


def test_a_branch_that_cannot_run_in_a_loop():
    """The check is made in the trip that needs it, and not at all without one."""
    model = parsed("""g (int64 n, float[2, 4] x, float[4, 4] v, float[K, 4] w) => (float[2, 4] y) {
        yes = Constant <value = bool {1}> ()  two = Constant <value = int64 {2}> ()
        y = Loop (n, yes, x) <body = b (int64 i, bool go, float[2, 4] a) => (bool on, float[2, 4] z) {
            on = Identity(go)
            c = Less(i, two)
            z = If (c) <then_branch = t () => (float[2, 4] p) { p = MatMul(a, v) },
                else_branch = e () => (float[2, 4] r) { r = MatMul(a, w) }>
        }>
    }""")
    feeds = {"x": f32(2, 4), "v": f32(4, 4), "w": f32(5, 4)}
    runs = [{**feeds, "n": np.array(trips)} for trips in (0, 1, 2)]
    for got, want in zip(run_compiled(model, runs, dims={"K": 5}), run_reference(model, runs), strict=True):
        assert not difference(got[0], want[0], 1e-5)
    with pytest.raises(ModelError, match="else branch cannot run"):
        run_compiled(model, [{**feeds, "n": np.array(3)}], dims={"K": 5})


def test_two_branches_that_cannot_run_are_refused():
    with pytest.raises(OnnxcError, match=r"MatMul_0(.|\n)*4 and 5 differ"):
        run_compiled(parsed(RULED_OUT.replace("MatMul(x, v)", "MatMul(v, v)")), [], dims={"K": 5})
