"""This file emits log.

x = 2^e (1 + f) with sqrt(1/2) <= 1+f < sqrt(2), by integer subtraction on the bits; then e ln2 + log(1+f).
"""

from __future__ import annotations

from onnxc.passes.maths.coefficients import LN2, LOG, SQRT_HALF
from onnxc.passes.maths.lanes import INF, NAN, Lanes, select


def split(x: Lanes) -> tuple[Lanes, Lanes]:
    """(e, f) as floats: x = 2^e (1 + f), for positive finite x, denormal or not; garbage, never poison, for others."""
    form = x.format
    small = x < form.smallest_normal
    lifted = select(small, x * 2.0 ** (form.mantissa + 1), x)
    half = x.constant(SQRT_HALF).bits()  # constant bits: folded
    e = (lifted.bits() - half) >> form.mantissa
    f = (lifted.bits() - (e << form.mantissa)).as_float() - 1.0
    magic = x.constant(form.magic)
    exponent = (e + magic.bits()).as_float() - select(small, magic + float(form.mantissa + 1), magic)
    return exponent, f


def log1p_reduced(f: Lanes, e: Lanes) -> Lanes:
    """e ln2 + log(1+f), sqrt(1/2) <= 1+f < sqrt(2): the small terms are summed first, f last but one."""
    high, low = LN2[f.format.width]
    square = f * f
    tail = (square * f).__mul__(f.polynomial(LOG[f.format.width]))
    tail = square.fma(-0.5, e.fma(low, tail))
    return e.fma(high, f + tail)


def domain(x: Lanes, y: Lanes, at_zero: float = -INF) -> Lanes:
    """`y` for positive finite x; log's value elsewhere: -inf at 0, NaN below, x itself at +inf and NaN."""
    outside = select(x.equals(0.0), x.constant(at_zero), NAN)
    return select(x > 0.0, select(x < INF, y, x), select(x <= 0.0, outside, x))


def log(x: Lanes) -> Lanes:
    """The natural logarithm."""
    e, f = split(x)
    return domain(x, log1p_reduced(f, e))
