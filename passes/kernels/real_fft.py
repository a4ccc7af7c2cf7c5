"""Fourier transforms of a few values, unrolled: split-radix butterflies of real and of complex sequences.

A transform is emitted as straight code on vectors, so lengths are powers of two up to a few dozen. Real sequences use
the symmetry of their spectra (Sorensen et al., "Real-valued fast Fourier transform algorithms", 1987): about half the
operations of a complex transform. What computes is an `Algebra`, so that the same butterflies run on IR and on arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import cos, pi, sin, sqrt
from typing import Any, Protocol

Value = Any
Bin = tuple[Value, Value]  # real and imaginary part; None for a part that is zero


class Algebra(Protocol):
    """The operations on real values."""

    def add(self, a: Value, b: Value) -> Value: ...
    def sub(self, a: Value, b: Value) -> Value: ...
    def scale(self, factor: float, a: Value) -> Value: ...
    def scale_add(self, factor: float, a: Value, b: Value) -> Value:
        """factor·a + b"""


def complex_fft(o: Algebra, x: Sequence[Bin]) -> list[Bin]:
    """X[k] = Σ x[t]·e^(−2πi·tk/n)."""
    n = len(x)
    if n == 1:
        return list(x)
    if n == 2:
        return [_add(o, x[0], x[1]), _sub(o, x[0], x[1])]
    u, z, y = complex_fft(o, x[0::2]), complex_fft(o, x[1::4]), complex_fft(o, x[3::4])
    bins: list[Bin] = [(None, None)] * n
    for k in range(n // 4):
        p, q = _turned(o, z[k], k, n), _turned(o, y[k], 3 * k, n)
        s, d, v = _add(o, p, q), _sub(o, p, q), u[k + n // 4]
        bins[k], bins[k + n // 2] = _add(o, u[k], s), _sub(o, u[k], s)
        bins[k + n // 4] = o.add(v[0], d[1]), o.sub(v[1], d[0])
        bins[k + 3 * n // 4] = o.sub(v[0], d[1]), o.add(v[1], d[0])
    return bins


def inverse_complex_fft(o: Algebra, x: Sequence[Bin]) -> list[Bin]:
    """n times the inverse: with real and imaginary parts exchanged, the transform is its own."""
    return [(re, im) for im, re in complex_fft(o, [(im, re) for re, im in x])]


def real_fft(o: Algebra, x: Sequence[Value]) -> list[Bin]:
    """The bins 0 … n/2 for real values; the first and the last are real."""
    n = len(x)
    if n == 1:
        return [(x[0], None)]
    if n == 2:
        return [(o.add(x[0], x[1]), None), (o.sub(x[0], x[1]), None)]
    u, z, y = real_fft(o, x[0::2]), real_fft(o, x[1::4]), real_fft(o, x[3::4])
    quarter = n // 4
    bins: list[Bin] = [(None, None)] * (n // 2 + 1)
    bins[0], bins[n // 2] = _ends(o, u[0][0], o.add(z[0][0], y[0][0]))
    bins[quarter] = u[quarter][0], o.sub(y[0][0], z[0][0])
    for k in range(1, n // 8 + 1):
        p, q = _turned(o, z[k], k, n), _turned(o, y[k], 3 * k, n)
        s, e, v = _add(o, p, q), _sub(o, q, p), u[quarter - k]
        bins[k] = _add(o, u[k], s)
        bins[n // 2 - k] = o.sub(u[k][0], s[0]), o.sub(s[1], u[k][1])
        if 8 * k < n:
            bins[quarter + k] = o.sub(v[0], e[1]), o.sub(e[0], v[1])
            bins[quarter - k] = o.add(v[0], e[1]), o.add(v[1], e[0])
    return bins


def inverse_real_fft(o: Algebra, bins: Sequence[Bin]) -> list[Value]:
    """n times the real values that have these bins 0 … n/2: the butterflies of `real_fft` backwards."""
    n = 2 * (len(bins) - 1)
    if n == 0:
        return [bins[0][0]]
    if n == 2:
        return [v for v, _ in _ends(o, bins[0][0], bins[1][0])]
    quarter = n // 4
    u: list[Bin] = [(None, None)] * (quarter + 1)
    z, y = [(None, None)] * (n // 8 + 1), [(None, None)] * (n // 8 + 1)
    (u[0], s), (re, im) = _ends(o, bins[0][0], bins[n // 2][0]), bins[quarter]
    u[quarter] = o.add(re, re), None
    z[0], y[0] = (o.scale_add(-2.0, im, s[0]), None), (o.scale_add(2.0, im, s[0]), None)
    for k in range(1, n // 8 + 1):
        low, high = bins[k], bins[n // 2 - k]
        u[k] = o.add(low[0], high[0]), o.sub(low[1], high[1])
        s = o.sub(low[0], high[0]), o.add(low[1], high[1])
        if 8 * k == n:
            z[k] = o.scale(sqrt(2), o.sub(s[0], s[1])), None
            y[k] = o.scale(-sqrt(2), o.add(s[0], s[1])), None
            continue
        low, high = bins[quarter - k], bins[quarter + k]
        u[quarter - k] = o.add(low[0], high[0]), o.sub(low[1], high[1])
        g, h = o.add(low[1], high[1]), o.sub(high[0], low[0])
        z[k] = _turned(o, (o.sub(s[0], g), o.add(s[1], h)), -k, n)
        y[k] = _turned(o, (o.add(s[0], g), o.sub(s[1], h)), -3 * k, n)
    values: list[Value] = [None] * n
    values[0::2], values[1::4], values[3::4] = (inverse_real_fft(o, part) for part in (u, z, y))
    return values


def _ends(o: Algebra, a: Value, b: Value) -> tuple[Bin, Bin]:
    return (o.add(a, b), None), (o.sub(a, b), None)


def _add(o: Algebra, a: Bin, b: Bin) -> Bin:
    return o.add(a[0], b[0]), o.add(a[1], b[1])


def _sub(o: Algebra, a: Bin, b: Bin) -> Bin:
    return o.sub(a[0], b[0]), o.sub(a[1], b[1])


def _turned(o: Algebra, v: Bin, k: int, n: int) -> Bin:
    """v·e^(−2πi·k/n)."""
    if k == 0:
        return v
    c, s = cos(2 * pi * k / n), sin(2 * pi * k / n)
    if v[1] is None:
        return o.scale(c, v[0]), o.scale(-s, v[0])
    return o.scale_add(s, v[1], o.scale(c, v[0])), o.scale_add(-s, v[0], o.scale(c, v[1]))
