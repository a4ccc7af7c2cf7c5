"""This file emits the argument reduction of sin, cos and tan: x = q pi/2 + r for any finite x.

f32 reduces in f64 lanes; f64 by three parts of pi/2 (Cody and Waite 1980), and by `payne_hanek.py` where |x| is large.
"""

from __future__ import annotations

from typing import NamedTuple

from onnxc.passes.maths import payne_hanek
from onnxc.passes.maths.double import widen
from onnxc.passes.maths.lanes import INF, Lanes, select

HALF_PI = (1.5707963267948966, 6.123233995736766e-17, -1.4973849048591698e-33)
TWO_OVER_PI = 0.6366197723675814
# (from |x|, s, 2^s mod 2 pi in two parts): x from there on is a multiple of 2^s, as f32 has 24 bits, and x/2^s < 2^44.
POWERS_MOD_2PI = (
    (2.0**44, 21, 0.6736520550624236, 4.399545655382635e-17),
    (2.0**65, 42, 1.6710001706720203, -3.073001941088177e-17),
    (2.0**86, 63, 1.5589959764209427, 2.3305239782266665e-17),
    (2.0**107, 84, 2.338537542178235, -8.107164398512609e-17),
)


class Reduced(NamedTuple):
    """r = high + low in f64 lanes, |r| <= pi/4 (0.8 from f32); q modulo 4 is in the low bits of `quadrant`."""

    high: Lanes
    low: Lanes
    quadrant: Lanes


def reduce(x: Lanes) -> Reduced:
    """The reduced argument of f32 or f64; NaN from infinity and NaN."""
    if x.format.width == 32:
        return _reduce_single(widen(x))
    return _reduce_double(x)


def _reduce_single(x: Lanes) -> Reduced:
    """For an f64 x with at most 24 bits; `low` is 0. 2^s is replaced by what it is mod 2 pi, so that n stays exact."""
    a = abs(x)
    scale, high, low = x.constant(1.0), x.constant(1.0), x.constant(0.0)
    for start, shift, residue, residue_low in POWERS_MOD_2PI:
        large = a >= start
        scale = select(large, x.constant(2.0**-shift), scale)
        high = select(large, x.constant(residue), high)
        low = select(large, x.constant(residue_low), low)
    y = x * scale
    h = y * high
    tail = y.fma(low, y.fma(high, -h))
    t = h.fma(TWO_OVER_PI, x.format.magic)
    n = t - x.format.magic
    r = n.fma(-HALF_PI[1], n.fma(-HALF_PI[0], h)) + tail
    return Reduced(r, x.constant(0.0), t.bits())


def _two_difference(a: Lanes, b: Lanes) -> tuple[Lanes, Lanes]:
    """a - b = s + e exactly (Knuth)."""
    s = a - b
    back = s - a
    return s, (a - (s - back)) - (b + back)


def _reduce_double(x: Lanes) -> Reduced:
    """Below 2^30 n pi/2 is subtracted in exact steps: |r| is never below 2^-60 there, its error 2^-125."""
    t = x.fma(TWO_OVER_PI, x.format.magic)
    n = t - x.format.magic
    p = n * HALF_PI[0]
    s, e = _two_difference(x - p, n.fma(HALF_PI[0], -p))
    q = n * HALF_PI[1]
    s, e2 = _two_difference(s, q)
    e = (e + e2) - n.fma(HALF_PI[2], n.fma(HALF_PI[1], -q))
    high = s + e
    low = (s - high) + e
    far = payne_hanek.reduce(x)
    large = (abs(x) >= payne_hanek.SMALLEST) & (abs(x) < INF)
    return Reduced(
        select(large, far.high, high),
        select(large, far.low, low),
        select(large, far.quadrant, t.bits()),
    )
