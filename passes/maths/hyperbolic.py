"""This file emits sinh, cosh, asinh, acosh and atanh, in f64 (f32 through it), from exp and log1p.

At most 4 ulp in f64, rounded f64 in f32.
"""

from __future__ import annotations

from onnxc.passes.maths.coefficients import EXP_RANGE
from onnxc.passes.maths.double import in_double
from onnxc.passes.maths.exp import expm1_reduced, power_of_two, reduce, scaled_exp
from onnxc.passes.maths.lanes import INF, NAN, Lanes, select
from onnxc.passes.maths.log import log1p

LN2 = 0.6931471805599453
LARGEST = 710.4758600739439  # sinh and cosh are infinite beyond


@in_double
def sinh(x: Lanes) -> Lanes:
    """h + h/(2h + 1), h = (e^|x| - 1)/2, with the sign of x; computed as 4 times a quarter, for the largest x."""
    a = abs(x).at_most(LARGEST + 0.01)
    t, r = reduce(a, x.format.bias - 3)
    eighth = power_of_two(t)
    h = eighth.fma(expm1_reduced(r), eighth - 0.125)
    quarter = h + h / h.fma(8.0, 1.0)
    y = (quarter * 4.0).copysign(x)
    return select(abs(x) < EXP_RANGE[64].linear, x, y)


@in_double
def cosh(x: Lanes) -> Lanes:
    """e/2 + 1/(2e), e = e^|x|; e/2 comes from one exponent less, for the largest x."""
    t, r = reduce(abs(x).at_most(LARGEST))
    half = scaled_exp(t - 1.0, r)
    y = half + 0.25 / half
    return select(abs(x) <= LARGEST, y, abs(x) + INF)


@in_double
def asinh(x: Lanes) -> Lanes:
    """log1p(a + a^2/(1 + sqrt(a^2 + 1))), a = |x|; log(2a) for large a."""
    a = abs(x)
    large = a > 2.0**60
    square = a * a
    y = log1p(select(large, a, a + square / ((square + 1.0).sqrt() + 1.0)))
    return select(large, y + LN2, y).copysign(x)


@in_double
def acosh(x: Lanes) -> Lanes:
    """log1p(t + sqrt(t^2 + 2t)), t = x - 1; log(2x) for large x; NaN below 1."""
    large = x > 2.0**60
    t = x - 1.0
    y = log1p(select(large, x, t + t.fma(t, t + t).sqrt()))
    return select(x >= 1.0, select(large, y + LN2, y), NAN)


@in_double
def atanh(x: Lanes) -> Lanes:
    """log1p(2a/(1 - a))/2, a = |x|; infinite at 1, NaN beyond."""
    a = abs(x)
    return (log1p((a + a) / (1.0 - a)) * 0.5).copysign(x)
