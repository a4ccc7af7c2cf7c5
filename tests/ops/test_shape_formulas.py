"""This file tests formulas of symbolic sizes against numpy and onnxruntime, on sizes that hypothesis picks."""

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from onnxc.dialects import dims
from onnxc.dialects.shapes import NeedsValues, ShapeContext, reals
from onnxc.dialects.shapes.creation import range_count
from onnxc.dialects.shapes.reshaping import reshaped, slice_range
from onnxc.dialects.shapes.resize import resize
from onnxc.dialects.shapes.windows import transposed_shape, window_shape
from onnxc.dialects.types import Tensor

N, M, S = dims.symbol("N"), dims.symbol("M"), dims.symbol("s0")


def context(types=(), known=None, **attrs) -> ShapeContext:
    values = known or {}
    return ShapeContext("Op", types, values.get, lambda name, default=None: attrs.get(name, default), 1, dims.symbol)


@given(st.integers(0, 12), st.integers(-15, 15), st.integers(-15, 15), st.sampled_from([-3, -2, -1, 1, 2, 3]))
def test_slices(size, start, end, step):
    if step < 0:
        start = max(start, -size)  # ONNX steps back from the first element where Python would take nothing
    wanted = range(size)[start:end:step]
    known = {"N": size, "s0": start, "s1": end}
    for formula in (slice_range(N, start, end, step), slice_range(N, S, dims.symbol("s1"), step)):
        first, count = (dims.evaluate(value, known) for value in formula)
        assert count == len(wanted)
        assert not count or first == wanted.start
    assert slice_range(size, start, end, step)[1] == len(wanted)


WINDOWS = st.fixed_dictionaries(
    {
        "kernel": st.integers(1, 4), "stride": st.integers(1, 4), "dilation": st.integers(1, 3),
        "before": st.integers(0, 3), "after": st.integers(0, 3),
        "mode": st.sampled_from(["NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"]), "ceil": st.booleans(),
    }
)  # fmt: skip


def places(size: int, w: dict) -> int:
    """The number of windows, by putting them one after the other."""
    if w["mode"].startswith("SAME"):
        return len(range(0, size, w["stride"]))
    before, after = (0, 0) if w["mode"] == "VALID" else (w["before"], w["after"])
    reach = (w["kernel"] - 1) * w["dilation"] + 1
    whole = [at for at in range(-before, size + after, w["stride"]) if at + reach <= size + after]
    if w["ceil"] and whole[-1] + reach < size + after and whole[-1] + w["stride"] < size:
        return len(whole) + 1
    return len(whole)


@given(WINDOWS, st.integers(1, 20))
def test_windows(w, size):
    assume(w["before"] < w["kernel"] and w["after"] < w["kernel"])
    reach = (w["kernel"] - 1) * w["dilation"] + 1
    assume(size >= reach or (w["mode"] == "NOTSET" and size + w["before"] + w["after"] >= reach))
    pads = [w["before"], w["after"]]
    c = context(strides=[w["stride"]], dilations=[w["dilation"]], pads=pads, auto_pad=w["mode"])
    (formula,) = window_shape(c, [N], [w["kernel"]], ceil=w["ceil"])
    assert dims.evaluate(formula, {"N": size}) == places(size, w)
    assert window_shape(c, [size], [w["kernel"]], ceil=w["ceil"]) == [places(size, w)]


@given(WINDOWS, st.integers(1, 20))
def test_a_transposed_window_undoes_a_window(w, size):
    """The convolution of the larger size gives the smaller one again."""
    c = context(strides=[w["stride"]], dilations=[w["dilation"]], pads=[w["before"], w["after"]])
    (formula,) = transposed_shape(c, [N], [w["kernel"]])
    large = dims.evaluate(formula, {"N": size})
    assume(large > 0)
    assert window_shape(c, [large], [w["kernel"]]) == [size]


@given(st.integers(-9, 9), st.integers(-9, 9), st.integers(-4, 4).filter(bool))
def test_ranges(start, limit, delta):
    wanted = len(range(start, limit, delta))
    assert range_count(start, limit, delta) == wanted
    symbolic = range_count(S, dims.symbol("s1"), dims.symbol("s2"))
    assert dims.evaluate(symbolic, {"s0": start, "s1": limit, "s2": delta}) == wanted


@given(st.lists(st.integers(1, 6), min_size=1, max_size=4), st.data())
def test_reshapes(shape, data):
    names = [f"d{axis}" for axis in range(len(shape))]
    known = dict(zip(names, shape, strict=True))
    x = tuple(map(dims.symbol, names))
    count = data.draw(st.integers(0, len(shape)))
    order = data.draw(st.permutations(names))
    kept, merged = order[:count], order[count:]
    entries = [dims.symbol(name) for name in kept]
    entries.insert(data.draw(st.integers(0, count)), -1)
    result = reshaped(context(), x, tuple(entries), False)
    assert [str(dim) for dim in result if str(dim) in kept] == kept  # kept sizes stay names
    rest = result[entries.index(-1)]
    assert dims.evaluate(rest, known) == int(np.prod([known[name] for name in merged]))
    assert dims.substitute(rest, known) == int(np.prod([known[name] for name in merged]))


@given(st.integers(1, 200), st.floats(0.125, 8, width=32))
def test_scales_give_the_size_that_f32_arithmetic_gives(size, scale):
    wanted = int(np.floor(np.float32(size) * np.float32(scale)))
    tensor = [Tensor("f32", (size,)), None, Tensor("f32", (1,))]
    assert resize(context(tensor, {2: [reals.from_float(scale)]}))[0].shape == (wanted,)
    tensor[0] = Tensor("f32", (N,))
    try:
        (symbolic,) = resize(context(tensor, {2: [reals.from_float(scale)]}))[0].dims
    except NeedsValues:
        return  # computed at run time, in f32
    assert dims.evaluate(symbolic, {"N": size}) == wanted
