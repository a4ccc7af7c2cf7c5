"""This file emits sin, cos and tan from the reduced argument of `quadrants.py`."""

from __future__ import annotations

from onnxc.passes.maths.coefficients import COS, SIN
from onnxc.passes.maths.double import narrow
from onnxc.passes.maths.lanes import Lanes, Mask, select
from onnxc.passes.maths.quadrants import Reduced, reduce


def _sin_reduced(r: Lanes, low: Lanes | None) -> Lanes:
    """sin(r + low), |r| <= pi/4."""
    z = r * r
    cubic = (z * r) * z.polynomial(SIN[r.format.width])
    if low is None:
        return r + cubic
    return r + (cubic + z.fma(-0.5, 1.0) * low)


def _cos_reduced(r: Lanes, low: Lanes | None) -> Lanes:
    """cos(r + low), |r| <= pi/4: 1 - r^2/2 is rounded, what it lost goes into the smaller terms."""
    z = r * r
    quartic = (z * z) * z.polynomial(COS[r.format.width])
    if low is None:
        return z.fma(-0.5, 1.0) + quartic
    half = z * 0.5
    head = 1.0 - half
    return head + (((1.0 - head) - half) + r.fma(-low, quartic))


def _both(at: Reduced, width: int) -> tuple[Lanes, Lanes]:
    """(sin, cos) of the reduced argument, in f32 or f64."""
    if width == 32:
        r, low = narrow(at.high), None
    else:
        r, low = at.high, at.low
    return _sin_reduced(r, low), _cos_reduced(r, low)


def _bit(quadrant: Lanes, mask: int) -> Mask:
    return (quadrant & mask).differs(0)


def sin(x: Lanes) -> Lanes:
    """The sine of any finite x; NaN at infinity."""
    at = reduce(x)
    s, c = _both(at, x.format.width)
    y = select(_bit(at.quadrant, 1), c, s)
    y = select(_bit(at.quadrant, 2), -y, y)
    return select(x.equals(0.0), x, y)  # keeps -0


def cos(x: Lanes) -> Lanes:
    """The cosine of any finite x; NaN at infinity."""
    at = reduce(x)
    s, c = _both(at, x.format.width)
    y = select(_bit(at.quadrant, 1), s, c)
    return select(_bit(at.quadrant + 1, 2), -y, y)


def tan(x: Lanes) -> Lanes:
    """The tangent of any finite x; NaN at infinity. sin/cos in f64: at most 3 ulp there, rounded f64 for f32."""
    at = reduce(x)
    s, c = _both(at, 64)
    odd = _bit(at.quadrant, 1)
    y = select(odd, -c, s) / select(odd, s, c)
    y = y if x.format.width == 64 else narrow(y)
    return select(x.equals(0.0), x, y)
