"""The im2col kernel gives the direct kernel's bits, for every geometry and schedule; and the pass that puts it in."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnxc.passes.kernels.gather import gathered_size
from onnxc.passes.kernels.scratch_pieces import PIECES
from onnxc.passes.use_im2col import use_im2col
from onnxc.targets import target_for

from .conv_by_algorithm import after_pass
from .harness import run
from .test_conv import DIRECT, any_window, reference, text_of
from .test_matmul import close, numbers, spell


def check(size, c, m, window, strides=None, dilations=None, pads=None, images=1, bias=True, rows=28, schedule=None,
          mcpu="native", dynamic=None, more=()):  # fmt: skip
    """im2col's result, which is the direct kernel's to the bit."""
    rank = len(size)
    strides, dilations, pads = strides or [1] * rank, dilations or [1] * rank, pads or [0] * 2 * rank
    rng = np.random.default_rng(0)
    x, w = numbers(rng, (images, *size, c)), numbers(rng, (*window, c, m))
    offset = [numbers(rng, (m,))] if bias else []
    expected = reference(x, w, offset[0].astype(np.float64) if bias else None, strides, dilations, pads, 1)
    expected = np.maximum(expected, 0) if more else expected
    plain = text_of(x, w, expected.shape, strides, dilations, pads, 1, bias, more=more, dynamic=dynamic)
    values = {f"O{i}": d for i, d in enumerate(expected.shape)}
    constants = (1, 2) if bias else (1,)
    (direct,) = run(plain, x, w, *offset, constants=constants, schedule=DIRECT, mcpu=mcpu, **values)
    scratch = np.full((PIECES, gathered_size(w[..., 0].size, rows)), np.nan, np.float32)
    kind = f"tensor<{spell(scratch.shape)}>"
    text = plain.replace('"conv"', '"im2col"').replace("kernel.conv", "kernel.im2col")
    text = text.replace("group = 1", f"group = 1, rows = {rows}").replace("%w, %b)", "%w, %s, %b)")
    text = text.replace('"kernel.im2col"(%x, %w)', '"kernel.im2col"(%x, %w, %s)')
    types = f"tensor<{spell(w.shape)}>"
    text = text.replace(f"%w: {types}", f"%w: {types}, %s: {kind}")
    signature = text.index(") -> ", text.index(" : (", text.index("rows =")))
    head, tail = text[:signature], text[signature:]
    at = head.rindex(types) + len(types)
    text = head[:at] + f", {kind}" + head[at:] + tail
    (result,) = run(text, x, w, scratch, *offset, constants=(1, 3) if bias else (1,), schedule=schedule, mcpu=mcpu,
                    **values)  # fmt: skip
    close(result.reshape(expected.shape), expected, k=w[..., 0].size)
    assert result.tobytes() == direct.tobytes()
    return result


CASES = [
    dict(size=(9, 11), c=8, m=20, window=(3, 3), pads=[1, 1, 1, 1], more=["Relu"]),
    dict(size=(9, 11), c=3, m=70, window=(7, 7), pads=[3, 3, 3, 3], strides=[2, 2], images=2),
    dict(size=(12, 12), c=5, m=6, window=(3, 2), dilations=[2, 3], pads=[2, 0, 1, 4]),
    dict(size=(9, 8), c=24, m=40, window=(1, 1), strides=[2, 2], bias=False),
    dict(size=(20,), c=7, m=18, window=(5,), pads=[2, 2]),
    dict(size=(20,), c=1, m=1, window=(5,), pads=[4, 0]),
    dict(size=(5, 6, 7), c=4, m=10, window=(3, 3, 3), pads=[1] * 6, strides=[1, 2, 1]),
    dict(size=(4, 4), c=600, m=20, window=(3, 3), pads=[1] * 4),
    dict(size=(4, 4), c=100, m=200, window=(3, 3), pads=[1] * 4),
    dict(size=(3, 3), c=17, m=4, window=(5, 5), pads=[4] * 4),
    dict(size=(6, 6), c=20, m=20, window=(3, 3)),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("mcpu", ["native", "x86-64-v3"])
def test_im2col(case, mcpu):
    check(**case, mcpu=mcpu)


@pytest.mark.parametrize("case", [CASES[0], CASES[3], CASES[6], dict(CASES[2], images=0)])
def test_dynamic(case):
    check(**case, dynamic={0: "N", **{i + 1: f"S{i}" for i in range(len(case["size"]))}})


@pytest.mark.parametrize("case", [CASES[1], CASES[7], CASES[8]])
def test_every_schedule_gives_the_same_bits(case):
    for rows, vectors, group, slices in [(1, 1, 1, 1), (9, 3, 2, 2), (14, 2, 2, 3), (6, 4, 3, 1)]:
        check(**case, rows=40, schedule={"rows": rows, "vectors": vectors, "group": group, "slices": slices})


@settings(max_examples=15)
@given(st.data())
def test_any_geometry(data):
    size, window, strides, dilations, pads = any_window(data)
    check(tuple(size), data.draw(st.integers(1, 20)), data.draw(st.integers(1, 80)), tuple(window), strides, dilations,
          pads, images=data.draw(st.integers(1, 2)), bias=data.draw(st.booleans()))  # fmt: skip


TEXT = """
func.func @main(%x: tensor<1x28x28x14xf32>) -> tensor<1x14x14x64xf32> {
  %w = "onnx.Constant"() {weight = "w"} : () -> tensor<3x3x14x64xf32>
  %0 = "kernel.conv"(%x, %w) {strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>, pads = array<i64: 1, 1, 1, 1>,
                              algorithm = "im2col", group = 1 : i64} : (tensor<1x28x28x14xf32>, tensor<3x3x14x64xf32>)
    -> tensor<1x14x14x64xf32>
  return %0 : tensor<1x14x14x64xf32>
}
"""


def rewritten(text):
    """The module as text, and the log."""
    weights = np.ones((3, 3, 14, 64), np.float32)
    text, _, log = after_pass(use_im2col, text, weights, target_for("x86-64-v3"), strict=True)
    return text, log


def test_pass():
    text, _ = rewritten(TEXT)
    assert "kernel.conv" not in text
    assert f"tensor<{PIECES}x{gathered_size(9 * 14, 56)}xf32>" in text


def test_groups_are_left_alone():
    grouped = TEXT.replace("group = 1", "group = 2").replace("3x3x14x64", "3x3x7x64")
    text, log = rewritten(grouped)
    assert "kernel.conv" in text
    assert any("im2col cannot do this convolution" in line for _, line in log)
