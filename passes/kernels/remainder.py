"""The remainder of floats as C's fmod gives it, without libm: exact, and the same for scalars and vectors.

Long division in f64 with digits of DIGIT bits: from the largest multiple y·2^(DIGIT·k) down, each step takes a digit of
the quotient off. r − q·y is exact in one fma, as the difference is a multiple of y's last place and smaller than y; a
quotient rounded up is put right by adding y once.
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith, math

from onnxc.passes.kernels import scalars
from onnxc.passes.kernels.scalars import constant_like

DIGIT = 50
# Digits of the largest quotient: exponents span 2^-149 … 2^128 in f32, 2^-1074 … 2^1024 in f64.
DIGITS = {"f32": 6, "f64": 42}
LARGEST_POWER = 1000  # of two, that one factor holds


def remainder(a: ir.Value, b: ir.Value, elem: str) -> ir.Value:
    """a − trunc(a / b)·b with the sign of `a`; NaN for an infinite `a` or b = 0."""
    wide_a, wide_b = scalars.cast(a, elem, "f64"), scalars.cast(b, elem, "f64")
    rest, divisor = math.absf(wide_a), math.absf(wide_b)
    infinity = constant_like(float("inf"), rest)
    endless = scalars.compare(rest, "==", infinity)
    for k in reversed(range(DIGITS.get(elem, DIGITS["f32"]))):
        rest = _without_digit(rest, _scaled(divisor, DIGIT * k))
    rest = arith.select(endless, constant_like(float("nan"), rest), rest)
    return scalars.cast(math.copysign(rest, wide_a), "f64", elem)


def _scaled(divisor: ir.Value, exponent: int) -> ir.Value:
    first = min(exponent, LARGEST_POWER)
    for part in (first, min(exponent - first, LARGEST_POWER), exponent - first - min(exponent - first, LARGEST_POWER)):
        if part:
            divisor = arith.mulf(divisor, constant_like(2.0**part, divisor))
    return divisor


def _without_digit(rest: ir.Value, divisor: ir.Value) -> ir.Value:
    """`rest` modulo `divisor`, whose quotient is below 2^DIGIT; an infinite divisor is larger than any rest."""
    digit = math.trunc(arith.divf(rest, divisor))
    left = math.fma(arith.negf(digit), divisor, rest)
    left = arith.select(scalars.compare(left, "<", constant_like(0, left)), arith.addf(left, divisor), left)
    return arith.select(scalars.compare(divisor, "==", constant_like(float("inf"), divisor)), rest, left)
