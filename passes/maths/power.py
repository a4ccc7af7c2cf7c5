"""This file emits pow and rsqrt; pow with C's special values (C11 F.10.4.4), which ONNX inherits from its reference.

f32 goes through log2 and exp2 in f64: correctly rounded but for near ties, hence exact where the result is
representable. f64 has a logarithm in two doubles.
"""

from __future__ import annotations

from onnxc.passes.maths.coefficients import ATANH_FOR_POW, EXP2_FOR_POW, EXPM1, LN2, LOG2_FOR_POW, LOG2E
from onnxc.passes.maths.double import narrow, widen
from onnxc.passes.maths.exp import power_of_two
from onnxc.passes.maths.lanes import INF, NAN, Lanes, Mask, select
from onnxc.passes.maths.log import as_float, split

THIRD = (0.3333333333333333, 1.850371707708594e-17)
LARGEST_PRODUCT = 760.0  # e^-760 is 0, e^760 infinite


def pow(x: Lanes, y: Lanes) -> Lanes:
    """x^y."""
    magnitude = _magnitude_single(x, y) if x.format.width == 32 else _magnitude_double(x, y)
    return _signed(x, y, magnitude)


def rsqrt(x: Lanes) -> Lanes:
    """1/sqrt(x), both rounded."""
    return 1.0 / x.sqrt()


def _parity(y: Lanes) -> tuple[Mask, Mask]:
    """(y is no integer, y is an odd integer); infinities are even. Adding 2^mantissa rounds to integers."""
    limit = 2.0**y.format.mantissa
    a = abs(y).at_most(2.0 * limit)
    large = a >= limit
    shifted = select(large, a, a + limit)
    whole = select(large, a, shifted - limit)
    return whole.differs(a), whole.equals(a) & (shifted.bits() & 1).differs(0)


def _signed(x: Lanes, y: Lanes, magnitude: Lanes) -> Lanes:
    """x^y from |x|^y."""
    fractional, odd = _parity(y)
    result = select(odd, magnitude.copysign(x), magnitude)
    result = select((x < 0.0) & (x > -INF) & fractional, x.constant(NAN), result)
    return select(x.equals(1.0) | y.equals(0.0), x.constant(1.0), result)


def _magnitude_single(x: Lanes, y: Lanes) -> Lanes:
    """|x|^y for f32, through f64: 2^(y log2|x|)."""
    a, exponent = widen(abs(x)), widen(y)
    e, m = split(a)
    f = m - 1.0
    log2 = f.fma(f.polynomial(LOG2_FOR_POW), as_float(e, a.constant(a.format.magic)))
    log2 = select(a.equals(0.0), a.constant(-INF), select(a < INF, log2, a))
    product = exponent * log2
    product = select(a.equals(1.0), a.constant(0.0), product)  # also 1^inf
    product = product.at_least(-200.0).at_most(200.0)
    magic = a.constant(a.format.magic + a.format.bias)
    t = product + magic
    r = product - (t - magic)
    return narrow(r.polynomial((1.0, *EXP2_FOR_POW)) * power_of_two(t))


def _log_double(a: Lanes) -> tuple[Lanes, Lanes]:
    """log a, a positive normal or denormal, as high + low, relative error 2^-65: 2 atanh(s) + e ln2, s = f/(2 + f)."""
    form = a.format
    small = a < form.smallest_normal
    e, m = split(select(small, a * 2.0**54, a))
    n = as_float(e, a.constant(form.magic)) - select(small, a.constant(54.0), 0.0)
    f = m - 1.0
    g = f + 2.0
    g_low = f - (g - 2.0)
    s = f / g
    s_low = (s.fma(-g, f) - s * g_low) / g
    z = s * s
    z_low = s.fma(s, -z) + (s + s) * s_low
    # atanh(s)/s = 1 + z (1/3 + z P(z)): the cubic term in two parts, the rest in one.
    rest = z * z.polynomial(ATANH_FOR_POW)
    c = rest + THIRD[0]
    c_low = (rest - (c - THIRD[0])) + THIRD[1]
    w = z * c
    w_low = z.fma(c, -w) + z.fma(c_low, z_low * c)
    u = s * w
    u_low = s.fma(w, -u) + s.fma(w_low, s_low * w)
    high, low = LN2[64]
    main = n * high  # exact
    first = main + (s + s)
    error = _sum_error(main, s + s, first)
    second = first + (u + u)
    error = error + _sum_error(first, u + u, second)
    tail = n.fma(low, error + 2.0 * (s_low + u_low))
    total = second + tail
    return total, (second - total) + tail


def _sum_error(a: Lanes, b: Lanes, total: Lanes) -> Lanes:
    """a + b - total exactly, total = a + b rounded (Knuth)."""
    back = total - a
    return (a - (total - back)) + (b - back)


def _magnitude_double(x: Lanes, y: Lanes) -> Lanes:
    """|x|^y = e^(y log|x|), the product in two parts; the special values of the logarithm are put in its high part."""
    a = abs(x)
    log, log_low = _log_double(a)
    at_one = a.equals(1.0)
    regular = (a > 0.0) & (a < INF) & a.differs(1.0)
    log = select(regular, log, select(a.equals(0.0), a.constant(-INF), a))
    product = select(at_one, a.constant(0.0), y * log)  # also 1^inf
    bounded = abs(product) < LARGEST_PRODUCT
    product = product.at_least(-LARGEST_PRODUCT).at_most(LARGEST_PRODUCT)
    low = select(regular & bounded, y.fma(log_low, y.fma(log, -product)), 0.0)
    magic = a.constant(a.format.magic)
    t = product.fma(LOG2E, magic)
    n = t - magic
    first = n.fma(-LN2[64][0], product)
    second = n.fma(-LN2[64][1], low)
    r = first + second
    r_low = (first - r) + second
    head = r + 1.0
    tail = (r - (head - 1.0)) + (r * r).fma(r.polynomial(EXPM1[64]), r_low)
    return _scaled(head + tail, t.bits() - magic.bits())


def _scaled(p: Lanes, n: Lanes) -> Lanes:
    """p 2^n in two factors, each a power of two in the normal range: rounds once, overflows to infinity."""
    half = n >> 1
    for part in (half, n - half):
        p = p * ((part + p.format.bias) << p.format.mantissa).as_float()
    return p
