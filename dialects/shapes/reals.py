"""This file is the arithmetic of shape values that pass through floating point: a dim divided by a number.

Exporters compute sizes as Cast(Floor(Cast(Shape(x)) * scale)). A float that is a dim is just that dim; `Real`
is a fraction. Only what the float arithmetic would compute exactly is represented; anything else is None.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import gcd, isfinite
from typing import Union

from onnxc.dialects import dims
from onnxc.dialects.dims import Dim, Expr

#: A product of a size below 2**14 and such a fraction has 24 bits at most: exact in f32.
_EXACT_DENOMINATOR = 64
_EXACT_FACTOR = 1024


@dataclass(frozen=True)
class Real:
    """`num / den`, den > 1; never a whole number for certain."""

    num: Dim
    den: int


Number = Union[Dim, Real]  # noqa: UP007 - Dim is a Union with a forward reference


def real(num: Dim, den: int = 1) -> Number:
    """num / den in lowest terms."""
    if den < 0:
        num, den = -num, -den
    common = gcd(den, *(c for _, c in num.terms)) if isinstance(num, Expr) else gcd(den, num)
    num, den = num // common, den // common
    return num if den == 1 else Real(num, den)


def from_float(value: float) -> Number | None:
    """The number that a float constant is; None for NaN and infinities."""
    if not isfinite(value):
        return None
    fraction = Fraction(value)
    return real(fraction.numerator, fraction.denominator)


def as_fraction(value: Number) -> Fraction | None:
    """The fraction that a constant is; None if it holds symbols."""
    num, den = parts(value)
    return Fraction(num, den) if isinstance(num, int) else None


def parts(value: Number) -> tuple[Dim, int]:
    """Numerator and denominator."""
    return (value.num, value.den) if isinstance(value, Real) else (value, 1)


def add(a: Number, b: Number) -> Number:
    (a_num, a_den), (b_num, b_den) = parts(a), parts(b)
    return real(a_num * b_den + b_num * a_den, a_den * b_den)


def multiply(a: Number, b: Number) -> Number:
    (a_num, a_den), (b_num, b_den) = parts(a), parts(b)
    return real(a_num * b_num, a_den * b_den)


def divide(a: Number, b: Number) -> Number | None:
    """a / b, None unless b is a constant that is not 0, or divides a."""
    (a_num, a_den), (b_num, b_den) = parts(a), parts(b)
    if isinstance(b_num, int):
        return real(a_num * b_den, a_den * b_num) if b_num else None
    quotient = a_num * b_den // b_num
    return real(quotient, a_den) if quotient * b_num == a_num * b_den else None


def floor(value: Number) -> Dim | None:
    """The whole number below, None where rounding in f32 could have changed it."""
    num, den = parts(value)
    if den > 1 and isinstance(num, Expr) and not _exact(num, den):
        return None
    return dims.floordiv(num, den)


def truncate(value: Number) -> Dim | None:
    """Rounded towards 0, None if the sign is not known."""
    num, den = parts(value)
    if den == 1:
        return num
    if dims.nonnegative(num):
        return floor(value)
    if dims.nonnegative(-num):
        below = floor(real(-num, den))
        return None if below is None else -below
    return None


def _exact(num: Expr, den: int) -> bool:
    return den & (den - 1) == 0 and den <= _EXACT_DENOMINATOR and all(abs(c) <= _EXACT_FACTOR for _, c in num.terms)
