"""This file emits exp, exp_flushed and expm1, and the reduction that functions made from an exp share.

Reduction (Cody and Waite 1980): x = n ln2 + r, n an integer, |r| <= ln2/2; e^r - 1 = r + r^2 Q(r), Q minimax
(`coefficients.py`). n is found by adding 1.5*2^mantissa: no float-to-integer conversion, which would be poison for
out-of-range lanes, and no rounding instruction.
"""

from __future__ import annotations

from onnxc.passes.maths.coefficients import EXP_RANGE, EXPM1, LN2, LOG2E
from onnxc.passes.maths.lanes import INF, Lanes, select


def reduce(x: Lanes, bias: int = 0) -> tuple[Lanes, Lanes]:
    """(t, r): x = n ln2 + r, and the low bits of t are n + bias. Garbage, never poison, unless |x| < 2^20."""
    magic = x.format.magic + bias
    t = x.fma(LOG2E, magic)
    n = t - magic
    high, low = LN2[x.format.width]
    return t, n.fma(-low, n.fma(-high, x))


def power_of_two(t: Lanes) -> Lanes:
    """2^n for `t` of `reduce` with the format's bias; n must be the exponent of a normal number."""
    return (t.bits() << t.format.mantissa).as_float()


def expm1_reduced(r: Lanes) -> Lanes:
    """e^r - 1 for |r| <= ln2/2."""
    return r.polynomial(EXPM1[r.format.width]).fma(r * r, r)


def scaled_exp(t: Lanes, r: Lanes) -> Lanes:
    """e^r 2^n, n added to the exponent bits, so that n = 128 (1024) with e^r < 1 is right too."""
    p = r.polynomial((1.0, 1.0, *EXPM1[r.format.width]))
    return (p.bits() + (t.bits() << t.format.mantissa)).as_float()


def exp(x: Lanes) -> Lanes:
    """e^x, denormal results rounded once."""
    limits = EXP_RANGE[x.format.width]
    x = x.at_least(limits.zero)
    t, r = reduce(x)
    small = x < limits.normal
    # Small results are made 2^64 (2^128) times larger in the exponent, then scaled down: one rounding.
    y = scaled_exp(select(small, t + float(limits.lift), t), r)
    y = select(small, y * 2.0**-limits.lift, y)
    return select(x <= limits.infinite, y, x + INF)


def exp_flushed(x: Lanes) -> Lanes:
    """e^x, but 0 where e^x would be denormal: no microcode traps. For softmax and its kind."""
    limits = EXP_RANGE[x.format.width]
    t, r = reduce(x)
    y = select(x < limits.normal, 0.0, scaled_exp(t, r))
    return select(x <= limits.infinite, y, x + INF)


def exp_of_decay(x: Lanes) -> Lanes:
    """exp_flushed for x <= 0 (or NaN), whose range needs no test above."""
    limits = EXP_RANGE[x.format.width]
    t, r = reduce(x, x.format.bias)
    y = r.polynomial((1.0, 1.0, *EXPM1[r.format.width])) * power_of_two(t)  # a product, so that NaN stays NaN
    return select(x < limits.normal, 0.0, y)


def expm1(x: Lanes) -> Lanes:
    """e^x - 1 = 2^n (e^r - 1) + (2^n - 1), exact where it cancels; 2^(n-1) is used, for n = 128 (1024)."""
    limits = EXP_RANGE[x.format.width]
    clamped = x.at_least(limits.minus_one)
    t, r = reduce(clamped, x.format.bias - 1)
    half = power_of_two(t)
    y = half.fma(expm1_reduced(r), half - 0.5)
    y = select(x <= limits.infinite, y + y, x + INF)
    return select(abs(x) < limits.linear, x, y)  # keeps -0 and the last bit of denormals
