"""This file emits asin, acos and atan, in f64 (f32 through it): one polynomial each, at most 2 ulp in f64."""

from __future__ import annotations

from onnxc.passes.maths.coefficients import ASIN, ATAN
from onnxc.passes.maths.double import in_double
from onnxc.passes.maths.lanes import Lanes, select

HALF_PI = (1.5707963267948966, 6.123233995736766e-17)
QUARTER_PI = (0.7853981633974483, 3.061616997868383e-17)
TAN_PI_8, TAN_3_PI_8 = 0.41421356237309503, 2.414213562373095


def _asin_reduced(x: Lanes) -> tuple[Lanes, Lanes, Lanes]:
    """(far, t, tail): asin t = t + tail; t = |x| up to 1/2, else (far) sqrt((1-|x|)/2): asin|x| = pi/2 - 2 asin t."""
    a = abs(x)
    far = a > 0.5
    square = select(far, a.fma(-0.5, 0.5), a * a)
    t = select(far, square.sqrt(), a)
    return far, t, t * square * square.polynomial(ASIN)


@in_double
def asin(x: Lanes) -> Lanes:
    """The arc sine; NaN outside [-1, 1], from the square root."""
    far, t, tail = _asin_reduced(x)
    high, low = HALF_PI
    y = select(far, (high - (t + t)) + tail.fma(-2.0, low), t + tail)
    return select(abs(x) < 2.0**-30, x, y.copysign(x))


@in_double
def acos(x: Lanes) -> Lanes:
    """The arc cosine: 2 asin t near 1, pi - 2 asin t near -1, pi/2 - asin x between."""
    far, t, tail = _asin_reduced(x)
    high, low = HALF_PI
    negative = x < 0.0
    twice, twice_tail = t + t, tail + tail
    near_one = twice + twice_tail
    near_minus_one = (2 * high - twice) + (2 * low - twice_tail)
    signed_t, signed_tail = t.copysign(x), tail.copysign(x)
    between = (high - signed_t) + (low - signed_tail)
    return select(far, select(negative, near_minus_one, near_one), between)


@in_double
def atan(x: Lanes) -> Lanes:
    """The arc tangent: c + atan(t), c = 0, pi/4 or pi/2 and t = a, (a-1)/(a+1) or -1/a, a = |x|: |t| <= tan(pi/8)."""
    a = abs(x)
    middle, far = a > TAN_PI_8, a > TAN_3_PI_8
    top = select(far, x.constant(-1.0), select(middle, a - 1.0, a))
    bottom = select(far, a, select(middle, a + 1.0, 1.0))
    t = top / bottom
    high = select(far, x.constant(HALF_PI[0]), select(middle, x.constant(QUARTER_PI[0]), 0.0))
    low = select(far, x.constant(HALF_PI[1]), select(middle, x.constant(QUARTER_PI[1]), 0.0))
    square = t * t
    tail = (t * square).fma(square.polynomial(ATAN), low)
    return (high + (t + tail)).copysign(x)
