"""Transposed convolutions' kernels against adding every element where it goes."""

import itertools

import numpy as np
import pytest

from .harness import run
from .test_conv import text_of
from .test_matmul import close, numbers


def transposed_reference(x, w, bias, strides, dilations, pads, extra, group):
    """x [N, S, C], w [K, C, M/g]: every element of x is added where it goes."""
    rank = x.ndim - 2
    window, m = w.shape[:rank], w.shape[-1]
    c = x.shape[-1] // group
    full = [(x.shape[i + 1] - 1) * strides[i] + (window[i] - 1) * dilations[i] + 1 + extra[i] for i in range(rank)]
    result = np.zeros((x.shape[0], *full, m * group))
    for tap in itertools.product(*map(range, window)):
        slices = [
            slice(t * d, t * d + (n - 1) * s + 1, s)
            for t, d, n, s in zip(tap, dilations, x.shape[1:-1], strides, strict=True)
        ]
        for g in range(group):
            part = x[..., g * c : (g + 1) * c].astype(np.float64) @ w[tap][g * c : (g + 1) * c].astype(np.float64)
            result[(slice(None), *slices, slice(g * m, (g + 1) * m))] += part
    cut = [slice(before, f - after) for f, before, after in zip(full, pads[:rank], pads[rank:], strict=True)]
    result = result[(slice(None), *cut)]
    return result if bias is None else result + bias


def check_transposed(
    size,
    c,
    m,
    window,
    strides=None,
    dilations=None,
    pads=None,
    extra=None,
    group=1,
    images=1,
    constant=True,
    schedule=None,
    dynamic=None,
    bias=True,
):
    rank = len(size)
    strides, dilations, pads = strides or [1] * rank, dilations or [1] * rank, pads or [0] * 2 * rank
    extra = extra or [0] * rank
    rng = np.random.default_rng(0)
    x, w = numbers(rng, (images, *size, c)), numbers(rng, (*window, c, m // group))
    offset = numbers(rng, (m,)) if bias else None
    expected = transposed_reference(x, w, offset, strides, dilations, pads, extra, group)
    text = text_of(x, w, expected.shape, strides, dilations, pads, group, bias, dynamic=dynamic)
    text = text.replace('"conv"', '"conv_transpose"').replace('kernel.conv"', 'kernel.conv_transpose"')
    text = text.replace(f"tensor<{w.shape[-1]}xf32>", f"tensor<{m}xf32>")
    values = {f"O{i}": d for i, d in enumerate(expected.shape)}
    inputs = [x, w, *([offset] if bias else [])]
    (result,) = run(text, *inputs, constants=(1, 2) if constant else (), schedule=schedule, **values)
    close(result.reshape(expected.shape), expected, k=w[..., 0].size)
    return result


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("case", [
    dict(size=(5, 6), c=8, m=20, window=(2, 2), strides=[2, 2]),
    dict(size=(5, 6), c=8, m=20, window=(4, 4), strides=[2, 2], pads=[1] * 4),
    dict(size=(5, 6), c=8, m=20, window=(3, 3), strides=[2, 2], pads=[1] * 4, extra=[1, 1]),
    dict(size=(5, 6), c=8, m=20, window=(3, 2), strides=[3, 1], dilations=[2, 3], pads=[0, 1, 2, 1], images=2),
    dict(size=(9,), c=3, m=5, window=(5,), strides=[4]),
    dict(size=(9,), c=3, m=5, window=(2,), strides=[4], bias=False),
    dict(size=(3, 3, 3), c=4, m=6, window=(3, 3, 3), strides=[2, 1, 2], pads=[1] * 6),
    dict(size=(5, 6), c=8, m=20, window=(3, 3), strides=[2, 2], group=4),
    dict(size=(5, 6), c=8, m=8, window=(3, 3), strides=[2, 2], group=8),
    dict(size=(3, 3), c=600, m=20, window=(2, 2), strides=[2, 2]),
])  # fmt: skip
def test_conv_transpose(case, constant):
    result = check_transposed(**case, constant=constant)
    if constant:
        assert check_transposed(**case, schedule={"rows": 3, "group": 2}).tobytes() == result.tobytes()


def test_dynamic_conv_transpose():
    for size, images in [((5, 6), 2), ((1, 1), 1), ((4, 4), 0)]:
        check_transposed(
            size, 8, 20, (3, 3), strides=[2, 2], pads=[1] * 4, images=images, dynamic={0: "N", 1: "H", 2: "W"}
        )
