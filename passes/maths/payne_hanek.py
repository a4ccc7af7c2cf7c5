"""This file emits the reduction of large f64 arguments modulo pi/2 after Payne and Hanek (1983), without tables.

x = M 2^E; of the bits of 2/pi only a window of 192 matters, from the one that makes M 2^E 2^-j less than 4. Lanes pick
their windows from constants by halving selects; the product with M is made of 32-bit limbs.
"""

from __future__ import annotations

from itertools import pairwise
from typing import NamedTuple

from onnxc.passes.maths.lanes import Lanes, select

SMALLEST = 2.0**30
HALF_PI = (1.5707963267948966, 6.123233995736766e-17)
LOW_HALF = 0xFFFFFFFF
# 64 zero bits, then 1216 bits of 2/pi.
TWO_OVER_PI_WORDS = (
    0x0000000000000000,
    0xA2F9836E4E441529,
    0xFC2757D1F534DDC0,
    0xDB6295993C439041,
    0xFE5163ABDEBBC561,
    0xB7246E3A424DD2E0,
    0x06492EEA09D1921C,
    0xFE1DEB1CB129A73E,
    0xE88235F52EBB4484,
    0xE99C7026B45F7E41,
    0x3991D639835339F4,
    0x9C845F8BBDF9283B,
    0x1FF897FFDE05980F,
    0xEF2F118B5A0A6D1F,
    0x6D367ECF27CB09B7,
    0x4F463F669E5FEA2D,
    0x7527BAC7EBE5F17B,
    0x3D0739F78A5292EA,
    0x6BFB5FB11F8D5D08,
    0x56033046FC7B6BAB,
)


class Far(NamedTuple):
    """As `quadrants.Reduced`."""

    high: Lanes
    low: Lanes
    quadrant: Lanes


def reduce(x: Lanes) -> Far:
    """For finite |x| >= 2^30; garbage, never poison, for others."""
    bits = x.bits()
    exponent = (bits >> 52) & 0x7FF
    mantissa = (bits & (1 << 52) - 1) | 1 << 52
    position = (exponent - (1075 - 62)).at_least(0)
    top, bottom = _product(mantissa, _window(position))
    # The fraction as a signed number: one half and more become negative, and one quadrant further.
    fraction = (top << 2) | bottom.shift_right_logical(62)
    quadrant = top.shift_right_logical(62) + fraction.shift_right_logical(63)
    high, low = _to_floats(x, fraction, bottom << 2)
    negative = bits < 0
    return Far(
        select(negative, -high, high),
        select(negative, -low, low),
        select(negative, quadrant.constant(0) - quadrant, quadrant),
    )


def _window(position: Lanes) -> list[Lanes]:
    """Six 32-bit limbs, highest first, of 2/pi from bit `position` (0 to 1087) on."""
    words = [position.constant(_signed(w)) for w in TWO_OVER_PI_WORDS]
    index = position >> 6
    for step in (16, 8, 4, 2, 1):
        taken = (index & step).differs(0)
        keep = 4 if step == 16 else step + 3  # 16 is the last position: no further steps follow it
        moved = [select(taken, words[i + step], words[i]) for i in range(keep)]
        words = moved + words[keep : 16 + 3] if step == 16 else moved
    shift = position & 63
    complement = 63 - shift
    limbs: list[Lanes] = []
    for word, following in pairwise(words):  # four words after the last step
        joined = (word << shift) | (following.shift_right_logical(1)).shift_right_logical(complement)
        limbs += [joined.shift_right_logical(32), joined & LOW_HALF]
    return limbs


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


def _product(mantissa: Lanes, limbs: list[Lanes]) -> tuple[Lanes, Lanes]:
    """The upper two of three 64-bit words of mantissa*window, modulo 2^192; the last bits lack some carries."""
    low, high = mantissa & LOW_HALF, mantissa.shift_right_logical(32)
    by_low = [low * limb for limb in reversed(limbs)]
    by_high = [high * limb for limb in reversed(limbs)]
    carry: Lanes | None = None
    columns = []
    for k in range(2, 6):
        column = by_low[k - 1].shift_right_logical(32) + (by_low[k] & LOW_HALF)
        column = column + by_high[k - 2].shift_right_logical(32) + (by_high[k - 1] & LOW_HALF)
        if carry is not None:
            column = column + carry
        columns.append(column)
        carry = column.shift_right_logical(32)
    return (columns[3] << 32) + (columns[2] & LOW_HALF), (columns[1] << 32) + (columns[0] & LOW_HALF)


def _to_floats(x: Lanes, fraction: Lanes, rest: Lanes) -> tuple[Lanes, Lanes]:
    """(high, low) of (fraction 2^-64 + rest 2^-128) pi/2; `fraction` is signed, `rest` is not."""
    magic = x.constant(x.format.magic)

    def exact(piece: Lanes, scale: float) -> Lanes:
        return ((piece + magic.bits()).as_float() - magic) * scale

    a, b = exact(fraction >> 32, 2.0**-32), exact(fraction & LOW_HALF, 2.0**-64)
    c, d = exact(rest.shift_right_logical(32), 2.0**-96), exact(rest & LOW_HALF, 2.0**-128)
    head = a + b
    tail = (b - (head - a)) + (c + d)
    f = head + tail
    f_low = (head - f) + tail
    high = f * HALF_PI[0]
    low = f.fma(HALF_PI[1], f_low * HALF_PI[0]) + f.fma(HALF_PI[0], -high)
    return high, low
