"""Errors, special values, and equality of bits on every kind of machine, of the functions of `passes/maths`."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from onnxc.missing_instructions import without_fma
from onnxc.passes import maths
from onnxc.passes.maths.coefficients import EXP_RANGE

from .jit import Loop, loop_text
from .maths_oracle import REFERENCE, SPECIALS, ulps, worst

SAMPLE_STRIDE = 5501  # 0.78 million bit patterns, all exponents
COMPOSED = {"mish": 4.0, "sinh": 3.0, "tan": 3.0, "asinh": 3.0, "acosh": 3.0, "atanh": 3.0}
AVX2 = ("x86-64", "+avx,+avx2,+fma,+bmi,+bmi2,+f16c,+lzcnt,+movbe,+popcnt,+sse4.2")
SSE2 = ("x86-64", "+sse2")
FUNCTIONS = [*REFERENCE, "gelu", "gelu_tanh", "swish"]


@pytest.mark.parametrize("name", REFERENCE)
def test_f32_error(name: str) -> None:
    error, at = worst(name, SAMPLE_STRIDE)
    assert error <= (4.0 if name == "mish" else 2.0), f"{error} ulp at {at!r}"


@pytest.mark.nightly
@pytest.mark.parametrize("name", REFERENCE)
def test_f32_error_over_a_larger_part(name: str) -> None:
    error, at = worst(name, 13)
    assert error <= (4.0 if name == "mish" else 2.0), f"{error} ulp at {at!r}"


@pytest.mark.parametrize("name", REFERENCE)
def test_f32_error_without_fma(name: str) -> None:
    loop = Loop(without_fma(loop_text(getattr(maths, name), "f32", 16)), *SSE2)
    assert "call" not in loop.assembly
    error, at = worst(name, 16 * SAMPLE_STRIDE, loop)
    assert error <= (4.0 if name == "mish" else 2.2), f"{error} ulp at {at!r}"


@pytest.mark.parametrize(
    ("name", "machine"),
    [*((name, "FMA") for name in REFERENCE), *((name, "SSE2") for name in ("exp", "tanh", "log", "sin", "cos", "tan"))],
)
def test_f64_error(name: str, machine: str) -> None:
    random = np.random.default_rng(2)
    x = np.concatenate(
        [
            np.array(SPECIALS),
            random.uniform(-2, 2, 1 << 14),
            random.normal(size=1 << 14) * 50,
            np.ldexp(random.uniform(-1, 1, 1 << 14), random.integers(-1080, 1025, 1 << 14)),
        ]
    )
    text = loop_text(getattr(maths, name), "f64", 8)
    got = (Loop(text) if machine == "FMA" else Loop(without_fma(text), *SSE2))(x)
    with np.errstate(all="ignore"):
        error = ulps(got, REFERENCE[name](x.astype(np.longdouble)))
    at = int(np.argmax(error))
    # scipy's erf, in f64 itself, errs too.
    assert error[at] <= COMPOSED.get(name, 3.0 if name == "erf" else 2.0), f"{error[at]} ulp at {x[at]!r}"


@pytest.mark.parametrize("name", ["gelu", "gelu_tanh"])
def test_gelu(name: str) -> None:
    x = np.linspace(-12, 12, 1 << 16).astype(np.float32)
    wide = x.astype(np.float64)
    if name == "gelu":
        want = wide * REFERENCE["erf"](wide / np.sqrt(2)) / 2 + wide / 2
    else:
        want = wide / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)))
    got = Loop(loop_text(getattr(maths, name), "f32", 16))(x)
    assert np.max(np.abs(got - want) / np.maximum(np.abs(wide), 1)) < 2**-22


@pytest.mark.parametrize("element", ["f32", "f64"])
@pytest.mark.parametrize("alpha", [1.0, 1.702, 0.01, -1.0])
def test_swish(alpha: float, element: str) -> None:
    kind, wide = (np.float32, np.float64) if element == "f32" else (np.float64, np.longdouble)
    lowest = EXP_RANGE[int(element[1:])].normal / abs(alpha)  # there the sigmoid stops being a normal number
    x = np.append(np.linspace(-12, 12, 1 << 14), np.linspace(lowest, -lowest, 1 << 14)).astype(kind)
    loop = Loop(loop_text(functools.partial(maths.swish, alpha=alpha), element, 8))
    u = x.astype(wide) * kind(alpha).astype(wide)
    got = loop(x)
    # alpha < 0 adds a rounded product to the sigmoid's 2; what rounding alpha x loses counts |alpha x| times.
    limit = 2.0 + 0.5 * (alpha < 0) + (np.maximum(0, -u) if abs(alpha) != 1 else 0)
    assert np.all(ulps(got, x.astype(wide) / (1 + np.exp(-u))) <= limit)


@pytest.mark.parametrize("element", ["f32", "f64"])
@pytest.mark.parametrize("name", ["swish", "gelu_tanh"])
def test_gates_of_large_numbers(name: str, element: str) -> None:
    kind = np.float32 if element == "f32" else np.float64
    x = np.array([-np.inf, -1e30, -1e4, -800, np.inf, 1e30, 800, np.nan], kind)
    got = Loop(loop_text(getattr(maths, name), element, 8))(x)
    assert np.all(np.abs(got[:4]) < 1e4 * np.finfo(kind).tiny)
    assert np.array_equal(got[4:], x[4:], equal_nan=True)


def _bit_patterns(element: str, count: int) -> np.ndarray:
    """Numbers around 0, then all exponents; no NaN, whose bits are nobody's promise."""
    kind, bits = (np.float32, np.uint32) if element == "f32" else (np.float64, np.uint64)
    x = np.random.default_rng(1).integers(0, np.iinfo(bits).max, count, bits).view(kind)
    x[: count // 2] = np.linspace(-12, 12, count // 2)
    return np.where(np.isnan(x), kind(1), x)


@pytest.mark.parametrize("element", ["f32", "f64"])
@pytest.mark.parametrize("name", [*FUNCTIONS, "pow"])
def test_scalars_and_vectors_agree_in_every_bit_on_every_machine(name: str, element: str) -> None:
    count = 1 << 13
    operands = [_bit_patterns(element, count)]
    if name == "pow":
        operands.append(operands[0][::-1].copy())
    function = getattr(maths, name)
    expected = Loop(loop_text(function, element, 1, len(operands)))(*operands)
    vectors = loop_text(function, element, 16, len(operands))
    for machine in ((), AVX2):
        assert np.array_equal(Loop(vectors, *machine)(*operands), expected, equal_nan=True), machine
        assert np.array_equal(np.signbit(Loop(vectors, *machine)(*operands)), np.signbit(expected)), machine


@pytest.mark.parametrize("element", ["f32", "f64"])
@pytest.mark.parametrize("name", [*FUNCTIONS, "pow"])
def test_no_library_is_called(name: str, element: str) -> None:
    text = loop_text(getattr(maths, name), element, 8, 2 if name == "pow" else 1)
    assert "call" not in Loop(text, *AVX2).assembly


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_pow_special_values_are_those_of_c(kind: type) -> None:
    values = [*SPECIALS, 3.0, -3.0, 2.5, -2.5, 7.0, 2.0**24 + 2, 2.0**31 + 1, 2.0**52 + 1, 2.0**53 - 1, 0.9999999]
    x, y = (np.ascontiguousarray(a.ravel()) for a in np.meshgrid(np.array(values, kind), np.array(values, kind)))
    x, y = (np.append(a, np.ones(-len(a) % 16, kind)) for a in (x, y))
    with np.errstate(all="ignore"):
        want = np.power(x.astype(np.float64), y.astype(np.float64))
        error = ulps(Loop(loop_text(maths.pow, f"f{kind().nbytes * 8}", 16, 2))(x, y), want)
    at = int(np.argmax(error))
    assert error[at] <= 1.01, f"{x[at]} ** {y[at]}"


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_pow_error(kind: type) -> None:
    random = np.random.default_rng(3)
    x = np.exp(np.append(random.uniform(-80, 80, 1 << 16), random.uniform(-0.7, 0.7, 1 << 16))).astype(kind)
    y = (random.uniform(-140, 127, x.size) / np.log2(x.astype(np.float64))).astype(kind)
    got = Loop(loop_text(maths.pow, f"f{kind().nbytes * 8}", 16, 2))(x, y)
    assert ulps(got, np.power(x.astype(np.longdouble), y.astype(np.longdouble))).max() < 0.75


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_pow_of_small_integers_is_exact(kind: type) -> None:
    x, y = (np.ascontiguousarray(a.ravel().astype(kind)) for a in np.meshgrid(np.arange(-128, 128), np.arange(17)))
    got = Loop(loop_text(maths.pow, f"f{kind().nbytes * 8}", 16, 2))(x, y)
    for base, exponent, power in zip(x, y, got, strict=True):
        exact = int(base) ** int(exponent)
        assert int(kind(exact)) != exact or power == exact, (base, exponent)


@pytest.mark.parametrize("element", ["f32", "f64"])
def test_exp_of_decay_is_exp_flushed(element: str) -> None:
    kind = np.float32 if element == "f32" else np.float64
    x = np.append(-np.abs(np.random.default_rng(0).standard_normal(1 << 14) * 300), [0, -0.0, -np.inf, np.nan]).astype(
        kind
    )
    decay, flushed = (Loop(loop_text(f, element, 1, 1))(x) for f in (maths.exp_of_decay, maths.exp_flushed))
    assert np.array_equal(decay, flushed, equal_nan=True)
