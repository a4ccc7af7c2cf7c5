"""This file emits log, log1p, and softplus, which is made from a log1p.

x = 2^e (1 + f) with sqrt(1/2) <= 1+f < sqrt(2), by integer subtraction on the bits; then e ln2 + log(1+f).
"""

from __future__ import annotations

from onnxc.passes.maths.coefficients import EXP_RANGE, LN2, LOG, SQRT_HALF
from onnxc.passes.maths.exp import exp
from onnxc.passes.maths.lanes import INF, NAN, Lanes, select


def split(x: Lanes) -> tuple[Lanes, Lanes]:
    """(e, m): x = 2^e m, e an integer, for positive normal x; garbage, never poison, for others."""
    mantissa = x.format.mantissa
    e = (x.bits() - x.constant(SQRT_HALF).bits()) >> mantissa
    return e, (x.bits() - (e << mantissa)).as_float()


def as_float(integer: Lanes, magic: Lanes) -> Lanes:
    """A small integer as a float, exactly; `magic` is the format's."""
    return (integer + magic.bits()).as_float() - magic


def log1p_reduced(f: Lanes, e: Lanes) -> Lanes:
    """e ln2 + log(1+f), sqrt(1/2) <= 1+f < sqrt(2): small terms first."""
    high, low = LN2[f.format.width]
    square = f * f
    tail = (square * f) * f.polynomial(LOG[f.format.width])
    tail = square.fma(-0.5, e.fma(low, tail))
    return e.fma(high, f + tail)


def in_domain(x: Lanes, y: Lanes) -> Lanes:
    """`y` for positive finite x; log's value elsewhere: -inf at 0, NaN below, x itself at +inf and NaN."""
    outside = select(x.equals(0.0), x.constant(-INF), NAN)
    return select(x > 0.0, select(x < INF, y, x), select(x <= 0.0, outside, x))


def log(x: Lanes) -> Lanes:
    """The natural logarithm."""
    form = x.format
    small = x < form.smallest_normal
    lift = form.mantissa + 1
    e, m = split(select(small, x * 2.0**lift, x))
    magic = x.constant(form.magic)
    exponent = (e + magic.bits()).as_float() - select(small, magic + float(lift), magic)
    return in_domain(x, log1p_reduced(m - 1.0, exponent))


def _log1p_finite(x: Lanes, u: Lanes) -> Lanes:
    """log(1+x) for x > -1, u = 1+x rounded: f = 2^-e x + (2^-e - 1) is rounded once, and is x where e = 0."""
    form = x.format
    e, m = split(u)
    inverse = (form.bias - e << form.mantissa).as_float()
    # 2^-e is no normal number for the largest x, where adding 1 was lost anyway.
    f = select(x > 2.0**60, m - 1.0, x.fma(inverse, inverse - 1.0))
    return log1p_reduced(f, as_float(e, x.constant(form.magic)))


def log1p(x: Lanes) -> Lanes:
    """log(1 + x)."""
    u = x + 1.0
    y = in_domain(u, _log1p_finite(x, u))
    return select(abs(x) < EXP_RANGE[x.format.width].linear, x, y)  # keeps -0


def softplus(x: Lanes) -> Lanes:
    """log(1 + e^x) = max(x, 0) + log1p(e^-|x|)."""
    e = exp(-abs(x))
    y = _log1p_finite(e, e + 1.0)
    tail = select(e < EXP_RANGE[x.format.width].linear, e, y)
    return select(x < 0.0, tail, x + tail)
