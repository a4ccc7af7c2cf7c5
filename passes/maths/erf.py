"""This file emits erf, and gelu which is made from it.

erf(|x|) = -expm1(-g(|x|)) with g(a) = -log(erfc(a)), smooth over the whole range: one polynomial and one exp,
no branch. g(a) = a c1 + ..., c1 in two parts, so that erf keeps its relative error at 0.
"""

from __future__ import annotations

from onnxc.passes.maths.coefficients import ERF, ERF_ONE, LN2_ROUNDED, LOG2E, SQRT_HALF
from onnxc.passes.maths.exp import expm1_reduced, power_of_two
from onnxc.passes.maths.lanes import Lanes


def erf(x: Lanes) -> Lanes:
    """The error function; exactly 1 from where it rounds to 1."""
    a = abs(x).at_most(ERF_ONE[x.format.width])
    high, *rest = ERF[x.format.width]
    negative_g = a.fma(-high, a * a.polynomial([-c for c in rest]))
    # One step: what it errs with n, the weight 2^n, n <= 0, takes away.
    magic = x.format.magic + x.format.bias
    t = negative_g.fma(LOG2E, magic)
    r = (t - magic).fma(-LN2_ROUNDED[x.format.width], negative_g)
    scale = power_of_two(t)
    return scale.fma(expm1_reduced(r), scale - 1.0).copysign(x)


def gelu(x: Lanes) -> Lanes:
    """x/2 (1 + erf(x/sqrt2)), composed as ONNX writes it."""
    half = x * 0.5
    return half.fma(erf(x * SQRT_HALF), half)
