"""The convolution kernels against a plain sum over taps: any rank, window, stride, dilation, padding and group."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from .harness import run
from .test_matmul import close, numbers, spell


def reference(x, w, bias, strides, dilations, pads, group):
    """x [N, S, C], w [K, C/g, M] in float64, tap by tap."""
    rank = x.ndim - 2
    window, (c, m) = w.shape[:rank], w.shape[rank:]
    padded = np.pad(x.astype(np.float64), [(0, 0), *zip(pads[:rank], pads[rank:], strict=True), (0, 0)])
    out = [(padded.shape[i + 1] - (window[i] - 1) * dilations[i] - 1) // strides[i] + 1 for i in range(rank)]
    result = np.zeros((x.shape[0], *out, m))
    for tap in itertools.product(*map(range, window)):
        slices = [
            slice(t * d, t * d + (o - 1) * s + 1, s) for t, d, o, s in zip(tap, dilations, out, strides, strict=True)
        ]
        part = padded[(slice(None), *slices)]
        for g in range(group):
            columns = slice(g * (m // group), (g + 1) * (m // group))
            result[..., columns] += part[..., g * c : (g + 1) * c] @ w[tap][:, columns].astype(np.float64)
    return result if bias is None else result + bias


def text_of(x, w, out, strides, dilations, pads, group, bias, elem="f32", more=(), dynamic=None):
    names = {}
    shapes = [list(x.shape), list(w.shape), list(out)]
    if dynamic:
        for axis, name in dynamic.items():
            shapes[0][axis] = name
        shapes[2][:-1] = [
            f"O{i}" if dynamic.get(i) not in (None, "N") else dynamic.get(i, d) for i, d in enumerate(shapes[2][:-1])
        ]
    types = [f"tensor<{spell(s, elem)}>" for s in shapes] + [f"tensor<{w.shape[-1]}x{elem}>"]
    names = "%x, %w, %b" if bias else "%x, %w"
    operands = ", ".join([types[0], types[1], *([types[3]] if bias else [])])
    attributes = ", ".join(
        f"{n} = array<i64: {', '.join(map(str, v))}>"
        for n, v in (("strides", strides), ("dilations", dilations), ("pads", pads))
    )
    lines, last = [], "%r"
    for i, op in enumerate(more):
        lines.append(f'  %e{i} = "onnx.{op}"({last}) : ({types[2]}) -> {types[2]}')
        last = f"%e{i}"
    extra = "\n".join(lines)
    bias_argument = f", %b: {types[3]}" if bias else ""
    return f"""func.func private @k(%x: {types[0]}, %w: {types[1]}{bias_argument}) -> {types[2]}
    attributes {{kernel.kind = "conv", kernel.root = "kernel.conv"}} {{
  %r = "kernel.conv"({names}) {{{attributes}, group = {group} : i64}} : ({operands}) -> {types[2]}
{extra}
  return {last} : {types[2]}
}}"""


def check(
    size,
    c,
    m,
    window,
    strides=None,
    dilations=None,
    pads=None,
    group=1,
    images=1,
    bias=True,
    constant=True,
    elem="f32",
    schedule=None,
    dynamic=None,
    more=(),
    mcpu="native",
):
    rank = len(size)
    strides, dilations, pads = strides or [1] * rank, dilations or [1] * rank, pads or [0] * 2 * rank
    rng = np.random.default_rng(0)
    x, w = numbers(rng, (images, *size, c), elem), numbers(rng, (*window, c // group, m), elem)
    offset = numbers(rng, (m,), elem) if bias else None
    expected = reference(x, w, None if offset is None else offset.astype(np.float64), strides, dilations, pads, group)
    for op in more:
        expected = {"Relu": lambda v: np.maximum(v, 0)}[op](expected)
    text = text_of(x, w, expected.shape, strides, dilations, pads, group, bias, elem, more, dynamic)
    inputs = [x, w, *([offset] if bias else [])]
    values = {f"O{i}": d for i, d in enumerate(expected.shape)}
    (result,) = run(text, *inputs, constants=(1, 2) if constant else (), schedule=schedule, mcpu=mcpu, **values)
    close(result.reshape(expected.shape), expected, elem, k=w[..., 0].size)
    return result


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("case", [
    dict(size=(9, 11), c=8, m=20, window=(3, 3), pads=[1, 1, 1, 1]),
    dict(size=(9, 11), c=3, m=20, window=(7, 7), pads=[3, 3, 3, 3], strides=[2, 2]),
    dict(size=(7, 7), c=64, m=33, window=(3, 3), pads=[1, 1, 1, 1], images=2),
    dict(size=(8, 8), c=24, m=40, window=(1, 1)),
    dict(size=(9, 8), c=24, m=40, window=(1, 1), strides=[2, 2]),
    dict(size=(12, 12), c=5, m=6, window=(3, 2), dilations=[2, 3], pads=[2, 0, 1, 4]),
    dict(size=(20,), c=7, m=18, window=(5,), pads=[2, 2]),
    dict(size=(20,), c=1, m=1, window=(5,), pads=[4, 0]),
    dict(size=(5, 6, 7), c=4, m=10, window=(3, 3, 3), pads=[1] * 6, strides=[1, 2, 1]),
    dict(size=(6, 6), c=12, m=9, window=(3, 3), pads=[1] * 4, group=3),
    dict(size=(6, 6), c=40, m=40, window=(3, 3), pads=[1] * 4, group=40),
    dict(size=(7, 6), c=20, m=40, window=(3, 3), pads=[1] * 4, group=20, strides=[2, 1]),
    dict(size=(4, 4), c=600, m=20, window=(3, 3), pads=[1] * 4),
    dict(size=(4, 4), c=100, m=20, window=(3, 3), pads=[1] * 4),
    dict(size=(3, 3), c=4, m=4, window=(5, 5), pads=[4] * 4),
    dict(size=(5, 5), c=3, m=4, window=(5, 5)),
    dict(size=(6, 6), c=8, m=20, window=(3, 3), pads=[0, 0, 1, 1], strides=[2, 2]),
    dict(size=(5, 5), c=3, m=4, window=(3, 3), bias=False, more=["Relu"]),
])  # fmt: skip
def test_conv(case, constant):
    check(**case, constant=constant)


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("case", [
    dict(size=(12, 30), c=32, window=(3, 3), pads=[1] * 4),
    dict(size=(12, 30), c=33, window=(3, 3), pads=[1] * 4, strides=[2, 2], images=2),
    dict(size=(12, 9), c=20, window=(5, 3), pads=[2, 0, 1, 3], dilations=[2, 1]),
    dict(size=(12, 9), c=20, window=(3, 3)),
    dict(size=(25,), c=7, window=(9,), pads=[8, 0]),
    dict(size=(4, 5, 6), c=17, window=(3, 2, 3), pads=[1, 0, 1, 1, 1, 1]),
    dict(size=(1, 1), c=17, window=(3, 3), pads=[1] * 4),
    dict(size=(8, 8), c=17, window=(3, 3), pads=[0, 0, 1, 1], strides=[2, 2]),
    dict(size=(9, 11), c=17, window=(3, 3), pads=[3, 3, 3, 3], bias=False, more=["Relu"]),
    dict(size=(3, 3), c=17, window=(7, 7), pads=[3, 3, 3, 3]),
    dict(size=(90,), c=17, window=(75,), pads=[37, 37]),
    dict(size=(5, 150), c=17, window=(2, 53), pads=[1, 60, 0, 20], strides=[1, 2], dilations=[1, 2]),
    dict(size=(14, 13), c=17, window=(13, 13), pads=[6] * 4, images=2),
    dict(size=(14, 13), c=17, window=(27, 31), pads=[13, 15, 13, 15]),
    dict(size=(40, 33), c=17, window=(30, 21), pads=[0, 10, 0, 10]),
    dict(size=(9, 8, 10), c=17, window=(9, 9, 9), pads=[4] * 6),
])  # fmt: skip
def test_depthwise(case, constant):
    result = check(**case, m=case["c"], group=case["c"], constant=constant)
    general = {"algorithm": "direct", "rows": 6, "vectors": 1, "lanes": 1, "group": 2, "packed": 0, "prefetch": 0}
    assert (
        check(**case, m=case["c"], group=case["c"], constant=constant, schedule=general).tobytes() == result.tobytes()
    )


DIRECT = {"algorithm": "direct", "rows": 6, "vectors": 2, "lanes": 8, "group": 2, "packed": 1, "prefetch": 1}


@pytest.mark.parametrize("case", [
    dict(size=(20, 30), c=3, m=40, window=(7, 7), pads=[3] * 4, strides=[2, 2]),
    dict(size=(20, 30), c=1, m=33, window=(3, 3), pads=[1] * 4, images=2),
    dict(size=(20, 31), c=4, m=16, window=(3, 3), pads=[0, 0, 1, 1], strides=[2, 2]),
    dict(size=(9, 700), c=4, m=16, window=(5, 5), pads=[0, 5, 1, 1], dilations=[2, 1]),
    dict(size=(500,), c=5, m=100, window=(11,), pads=[5, 5]),
    dict(size=(4, 5, 6), c=3, m=17, window=(3, 2, 3), pads=[1, 0, 1, 1, 1, 1]),
    dict(size=(1, 1), c=3, m=17, window=(3, 3), pads=[1] * 4),
    dict(size=(3, 3), c=3, m=17, window=(7, 7), pads=[3, 3, 3, 3], bias=False, more=["Relu"]),
])  # fmt: skip
def test_few_channels(case):
    result = check(**case)
    assert check(**case, schedule=DIRECT).tobytes() == result.tobytes()
    dynamic = {0: "N", **{i + 1: f"S{i}" for i in range(len(case["size"]))}}
    assert check(**case, dynamic=dynamic).tobytes() == result.tobytes()


@pytest.mark.parametrize("elem", ["f64", "f16", "bf16"])
def test_element_types(elem):
    check((6, 5), 4, 20, (3, 3), pads=[1] * 4, elem=elem)
    check((6, 5), 20, 20, (3, 3), pads=[1] * 4, elem=elem, group=20)


@pytest.mark.parametrize("size, images", [((9, 10), 2), ((1, 1), 1), ((30, 17), 1), ((4, 4), 0)])
def test_dynamic(size, images):
    dynamic = {0: "N", 1: "H", 2: "W"}
    check(size, 8, 20, (3, 3), pads=[1] * 4, images=images, dynamic=dynamic)
    check(size, 8, 20, (1, 1), images=images, dynamic=dynamic)
    check(size, 20, 20, (3, 3), pads=[1] * 4, images=images, dynamic=dynamic, group=20)


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("channels", [2, 34, 600])
def test_channels_known_at_run_time_only(channels, group):
    check((5, 6), channels, 20, (3, 3), pads=[1, 0, 2, 1], constant=False, dynamic={0: "N", 3: "C"}, group=group)


@pytest.mark.parametrize("channels", [20, 600])
def test_every_schedule_gives_the_same_bits(channels):
    case = dict(size=(8, 9), c=channels, m=40, window=(3, 3), pads=[1, 2, 1, 0], strides=[1, 2])
    first = check(**case).tobytes()
    for rows, vectors, group, constant in [(1, 1, 1, True), (9, 3, 2, False), (14, 2, 1, True), (6, 4, 3, True)]:
        schedule = {"rows": rows, "vectors": vectors, "group": group}
        assert check(**case, schedule=schedule, constant=constant).tobytes() == first
    assert check(**case, mcpu="x86-64-v3").tobytes() == first
    assert check(**case, dynamic={0: "N", 1: "H", 2: "W"}).tobytes() == first


def any_window(data):
    """(size, window, strides, dilations, pads) of a convolution with a result of 1 to 6 windows an axis."""
    rank = data.draw(st.integers(1, 3))
    numbers_of = lambda low, high: [data.draw(st.integers(low, high)) for _ in range(rank)]  # noqa: E731
    window, strides, dilations = numbers_of(1, 4), numbers_of(1, 3), numbers_of(1, 2)
    pads = [data.draw(st.integers(0, 3)) for _ in range(2 * rank)]
    size = [
        max(1, (k - 1) * d + 1 + data.draw(st.integers(0, 5)) - before - after)
        for k, d, before, after in zip(window, dilations, pads[:rank], pads[rank:], strict=True)
    ]
    return size, window, strides, dilations, pads


@settings(max_examples=40)
@given(st.data())
def test_any_geometry(data):
    size, window, strides, dilations, pads = any_window(data)
    group = data.draw(st.sampled_from([1, 1, 2, 5]))
    c, m = group * data.draw(st.integers(1, 6)), group * data.draw(st.integers(1, 20))
    check(
        tuple(size),
        c,
        m,
        tuple(window),
        strides,
        dilations,
        pads,
        group,
        images=data.draw(st.integers(1, 2)),
        bias=data.draw(st.booleans()),
        constant=data.draw(st.booleans()),
    )
