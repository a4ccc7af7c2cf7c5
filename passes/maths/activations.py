"""This file emits the activations made from one exp and at most one division: sigmoid, swish, tanh, mish, gelu_tanh.

They need 2^n and e^r - 1 of `exp.py` apart, so that the sum with 1 is rounded once.
"""

from __future__ import annotations

from onnxc.passes.maths.coefficients import EXP_RANGE, EXPM1, LN2_ROUNDED, LOG2E, TANH, TANH_ONE
from onnxc.passes.maths.exp import expm1_reduced, power_of_two, reduce
from onnxc.passes.maths.lanes import Lanes, select

GELU_TANH_ZERO = {32: -10.0, 64: -21.14}  # next to nothing from here on: the gate is near the smallest normal number


def sigmoid(x: Lanes) -> Lanes:
    """1/(1 + e^-x) = a/(a + a 2^n e^r), -x = n ln2 + r; a = 2^-lift if the result is nearly denormal, else 1."""
    limits = EXP_RANGE[x.format.width]
    clamped = x.at_least(limits.zero).at_most(-limits.normal)
    t, r = reduce(-clamped, x.format.bias)
    small = clamped < limits.normal + 8.0
    scale = power_of_two(select(small, t - limits.lift, t))
    one = select(small, x.constant(2.0**-limits.lift), 1.0)
    # What rounding scale + one loses (n = 24: a whole ulp) goes into the smaller term.
    total = scale + one
    lost = one - (total - scale)
    return one / (total + scale.fma(expm1_reduced(r), lost))


def swish(x: Lanes, alpha: float = 1.0) -> Lanes:
    """x sigmoid(alpha x); next to nothing where the sigmoid is below the smallest normal number, if alpha > 0."""
    if alpha <= 0:
        return x * sigmoid(x * alpha)
    x = x.at_least(EXP_RANGE[x.format.width].normal / alpha)
    return _gated(x, x if alpha == 1 else x * alpha)


def _gated(x: Lanes, u: Lanes) -> Lanes:
    """x/(1 + e^-u) for u no less than log(smallest normal number).

    Two thirds of the time of x sigmoid(u), whose denormal results would take microcode on many CPUs besides.
    """
    t, r = reduce(-u.at_most(-EXP_RANGE[x.format.width].normal), x.format.bias)
    return x / power_of_two(t).fma(r.polynomial((1.0, 1.0, *EXPM1[x.format.width])), 1.0)


def tanh(x: Lanes) -> Lanes:
    """h/(h + 1) with h = (e^2a - 1)/2, a = |x|, given the sign of x; h = 2^n p + (2^n - 1)/2, p = (e^2r - 1)/2.

    a = n ln2/2 + r in one step: its error grows with n, its weight shrinks as 4^-n. Where a < 0.3, n is 0, so that
    nothing cancels, and the quotient q only serves in h - h q, where its error counts little.
    """
    width = x.format.width
    magic = x.constant(x.format.magic + x.format.bias)
    a = abs(x).at_most(TANH_ONE[width])
    near = a < 0.3
    t = select(near, magic, a.fma(2 * LOG2E, magic))
    r = (t - magic).fma(-LN2_ROUNDED[width] / 2, a)
    p = r.polynomial(TANH[width]).fma(r * r, r)
    scale = power_of_two(t)
    h = scale.fma(p, scale.fma(0.5, -0.5))
    q = h / (h + 1.0)
    return select(near, (-h).fma(q, h), q).copysign(x)


def mish(x: Lanes) -> Lanes:
    """x tanh(log(1 + e^x)) = x n/(n + 2), n = e^2 + 2e, e = e^x; at most 4 ulp.

    x e where e is tiny, kept 2^lift times larger.
    """
    limits = EXP_RANGE[x.format.width]
    x = x.at_least(limits.zero - 10.0)
    t, r = reduce(x.at_most(24.0), x.format.bias)
    tiny = x < limits.normal
    scale = power_of_two(select(tiny, t + float(limits.lift), t))
    e = scale.fma(expm1_reduced(r), scale)
    # n + 2 as e (e + 2) + 2: where e is small, what rounding e + 2 loses does not count.
    ratio = select(tiny, e, e.fma(e, e + e) / e.fma(e + 2.0, 2.0))
    y = x * ratio
    return select(tiny, y * 2.0**-limits.lift, y)


def gelu_tanh(x: Lanes) -> Lanes:
    """x/2 (1 + tanh u) = x sigmoid(2u), u = sqrt(2/pi) (x + 0.044715 x^3)."""
    x = x.at_least(GELU_TANH_ZERO[x.format.width])
    cubic = (x * x).fma(0.044715, 1.0)
    return _gated(x, x * 1.5957691216057308 * cubic)
