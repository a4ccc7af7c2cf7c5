"""The attention kernel against numpy in double precision."""

import numpy as np
import pytest

from .harness import run, widest
from .test_matmul import numbers, spell


def reference(q, k, v, mask, scale):
    """q, k, v: [B, H, rows, width], float64."""
    scores = scale * q @ np.swapaxes(k, -1, -2)
    scores = scores if mask is None else scores + mask
    if not k.shape[-2]:
        return scores @ v  # a sum of nothing
    with np.errstate(invalid="ignore"):
        e = np.exp(scores - scores.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True) @ v


def check(
    batch,
    heads,
    queries,
    keys,
    width,
    value_width=None,
    kv_heads=None,
    rank=3,
    mask=None,
    dynamic="",
    mcpu="native",
    schedule=None,
):
    rng = np.random.default_rng(0)
    kv_heads, value_width = kv_heads or heads, value_width or width
    q, k = numbers(rng, (batch, heads, queries, width)), numbers(rng, (batch, kv_heads, keys, width))
    v = numbers(rng, (batch, kv_heads, keys, value_width))
    scale = width**-0.5
    m = None
    if mask is not None:
        m = np.where(rng.random(mask) < 0.3, np.float32(-np.inf), numbers(rng, mask)).astype(np.float32)
        m[..., 0] = 0
    wide = [np.repeat(x.astype(np.float64), heads // kv_heads, axis=1) for x in (k, v)]
    expected = reference(q.astype(np.float64), *wide, m, scale)
    lay = (
        (
            lambda x: np.ascontiguousarray(x.transpose(0, 2, 1, 3)).reshape(
                x.shape[0], x.shape[2], x.shape[1] * x.shape[3]
            )
        )
        if rank == 3
        else (lambda x: x)
    )
    inputs = [lay(x) for x in (q, k, v)] + ([] if m is None else [m])
    axis = 1 if rank == 3 else 2
    names, keyed = ({0: "B", axis: symbol + dynamic.removeprefix("free")} for symbol in "ST")
    shape = lambda s, d: spell([d.get(i, e) if dynamic else e for i, e in enumerate(s)])  # noqa: E731
    types = [f"tensor<{shape(x.shape, d)}>" for x, d in zip(inputs[:3], (names, keyed, keyed), strict=True)]
    types += [] if m is None else [f"tensor<{spell(m.shape)}>"]
    out = f"tensor<{shape(lay(expected).shape, names)}>"
    args = ", ".join(f"%a{i}: {t}" for i, t in enumerate(types))
    text = f"""func.func private @k({args}) -> {out}
        attributes {{kernel.kind = "attention", kernel.root = "kernel.attention"}} {{
      %0 = "kernel.attention"({", ".join(f"%a{i}" for i in range(len(types)))}) {{scale = {scale:e} : f32, heads = {heads} : i64,
            kv_heads = {kv_heads} : i64}} : ({", ".join(types)}) -> {out}
      return %0 : {out} }}"""
    (result,) = run(text, *inputs, mcpu=mcpu, schedule=schedule)
    np.testing.assert_allclose(result, lay(expected), rtol=2e-5, atol=2e-6)
    return result


@pytest.mark.parametrize("rank", [3, 4])
@pytest.mark.parametrize("case", [
    dict(batch=1, heads=3, queries=128, keys=128, width=64), dict(batch=2, heads=2, queries=7, keys=9, width=32),
    dict(batch=1, heads=2, queries=100, keys=300, width=64, mask=(1, 1, 100, 300)),
    dict(batch=2, heads=4, queries=65, keys=129, width=24, value_width=40, kv_heads=2, mask=(2, 1, 1, 129)),
    dict(batch=1, heads=1, queries=1, keys=1, width=1), dict(batch=1, heads=2, queries=33, keys=70, width=80, mask=(70,)),
    dict(batch=2, heads=2, queries=3, keys=20, width=128, mask=(2, 2, 3, 1)),
    dict(batch=1, heads=2, queries=197, keys=197, width=64, mask=(1, 1, 1, 197)),
    dict(batch=2, heads=1, queries=13, keys=128, width=64), dict(batch=1, heads=3, queries=17, keys=50, width=20),
])  # fmt: skip
def test_attention(case, rank):
    result = check(**case, rank=rank)
    assert check(**case, rank=rank, dynamic="free").tobytes() == result.tobytes()
    assert check(**case, rank=rank, mcpu="x86-64-v3").tobytes() == result.tobytes()


@pytest.mark.parametrize(("rows", "vectors", "queries"), [(12, 2, 32), (3, 4, 16), (14, 1, 64)])
def test_every_schedule_gives_the_same_bits(rows, vectors, queries):
    case = dict(batch=2, heads=4, queries=65, keys=129, width=24, value_width=40, kv_heads=2, mask=(2, 1, 1, 129))
    result = check(**case, schedule=dict(rows=rows, vectors=vectors, queries=queries), mcpu=widest())
    assert check(**case).tobytes() == result.tobytes()


@pytest.mark.parametrize("keys", [64, 128, 192, 256])
def test_blocks_of_keys(keys):
    """Whole rows of scores, or blocks of any size: each right, with the same bits for every tile and CPU."""
    case = dict(batch=2, heads=4, queries=65, keys=197, width=24, value_width=40, kv_heads=2, mask=(2, 1, 1, 197))
    found = {
        check(**case, schedule=dict(rows=rows, vectors=v, queries=queries, keys=keys), mcpu=widest()).tobytes()
        for rows, v, queries in ((12, 2, 32), (3, 4, 16))
    }
    schedule = dict(rows=4, vectors=1, queries=65, keys=keys)
    assert found == {check(**case, schedule=schedule, mcpu="x86-64-v3").tobytes()}
    assert found == {check(**case, schedule=schedule, mcpu="x86-64-v3", dynamic="free").tobytes()}
    assert (found == {check(**case).tobytes()}) == (keys == 128)


@pytest.mark.parametrize("most", [64, 100, 128, 200])
def test_ranges_give_the_same_bits(most):
    """Where it is known that one block holds all keys, or one unit all queries."""
    case = dict(batch=2, heads=2, queries=61, keys=64, width=40, value_width=56, mask=(2, 1, 61, 64))
    assert check(**case, dynamic=f":1..{most}").tobytes() == check(**case).tobytes()


@pytest.mark.parametrize("dynamic", ["", "free", ":0..64"])
def test_without_keys_the_result_is_zero(dynamic):
    case = dict(batch=1, heads=2, queries=3, keys=0, width=16)
    assert not check(**case, dynamic=dynamic).any()
