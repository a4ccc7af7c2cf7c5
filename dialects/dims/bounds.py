"""This file proves bounds of dims: intervals first, then a bounded search that relaxes one atom at a time.

Every answer is sound: True and finite bounds are proofs, False and infinite bounds mean "not known".
"""

from __future__ import annotations

from functools import lru_cache
from math import gcd, inf

from onnxc.dialects.dims.expr import Atom, Dim, Expr, Monomial, polynomial, terms_of

SAMPLES = (33, 128, 500)
Interval = tuple[float, float]  # ints, or -inf and inf


def bounds(value: Dim) -> Interval:
    """The smallest and largest value that `value` can have, as far as intervals tell."""
    if isinstance(value, int):
        return value, value
    if value._bounds is None:
        low: float = 0
        high: float = 0
        for monomial, coefficient in value.terms:
            interval: Interval = (coefficient, coefficient)
            for atom in monomial:
                interval = _times(interval, _atom_bounds(atom))
            low, high = low + interval[0], high + interval[1]
        value._bounds = (low, high)
    return value._bounds


def nonnegative(value: Dim) -> bool:
    """Whether `value` is provably >= 0."""
    if isinstance(value, int):
        return value >= 0
    if bounds(value)[0] >= 0:
        return True
    return _nonnegative(value, 4 if len(value.terms) < 8 else 1)  # the search branches at every term


@lru_cache(maxsize=65536)
def _nonnegative(value: Dim, depth: int) -> bool:
    if isinstance(value, int):
        return value >= 0
    if bounds(value)[0] >= 0:
        return True
    if depth == 0 or bounds(value)[1] < 0 or _is_refuted(value):
        return False
    return any(
        _nonnegative_by_relaxing(value, monomial, coefficient, atom, depth - 1)
        for monomial, coefficient in value.terms
        for atom in monomial
        if atom.op != "sym"
    )


def divisor(value: Dim) -> int:
    """The largest number that provably divides `value`; 0 of 0."""
    return gcd(*(coefficient for _, coefficient in terms_of(value)))


def _is_refuted(value: Expr) -> bool:
    """Whether `value` is negative where all symbols have one of a few sizes: the search would be in vain."""
    try:
        return any(_at(value, size, {}) < 0 for size in SAMPLES)
    except ZeroDivisionError:  # no size that a model could have
        return False


def _at(value: Dim, size: int, done: dict[Atom, int]) -> int:
    """`value` where every symbol is `size`, or as near to it as its range allows."""
    if isinstance(value, int):
        return value
    total = 0
    for monomial, coefficient in value.terms:
        for atom in monomial:
            if atom not in done:
                done[atom] = _atom_at(atom, size, done)
            coefficient *= done[atom]
        total += coefficient
    return total


def _atom_at(atom: Atom, size: int, done: dict[Atom, int]) -> int:
    if atom.op == "sym":
        low, high = _atom_bounds(atom)
        return int(min(max(size, low), high))
    arguments = [_at(argument, size, done) for argument in atom.args]
    if atom.op == "floordiv":
        return arguments[0] // arguments[1]
    if atom.op == "mod":
        return arguments[0] % arguments[1]
    return min(arguments) if atom.op == "min" else max(arguments)


def at_least(left: Dim, right: Dim) -> bool:
    """Whether `left >= right` is provable."""
    return left is right or nonnegative(left - right)


def _nonnegative_by_relaxing(value: Expr, monomial: Monomial, coefficient: int, atom: Atom, depth: int) -> bool:
    """Replaces `coefficient * atom * others` by something not larger, and asks again."""
    at = monomial.index(atom)
    others = polynomial({monomial[:at] + monomial[at + 1 :]: 1})
    if not bounds(others)[0] >= 0:
        return False
    scale = coefficient * others
    rest = value - atom_times(atom, scale)
    if atom.op == "floordiv":
        numerator, divisor = atom.args
        if not isinstance(divisor, int) or divisor < 1:
            return False
        # a//c <= a/c, and a//c >= (a-c+1)/c
        bound = numerator if coefficient < 0 else numerator - (divisor - 1)
        return _nonnegative(rest * divisor + scale * bound, depth)
    if atom.op in ("min", "max", "broadcast"):
        one_is_enough = (atom.op == "max") if coefficient > 0 else (atom.op == "min")
        which = any if one_is_enough and atom.op != "broadcast" else all
        return which(_nonnegative(rest + scale * argument, depth) for argument in atom.args)
    return False


def atom_times(atom: Atom, scale: Dim) -> Dim:
    """`atom * scale`."""
    products = {}
    for monomial, coefficient in terms_of(scale):
        joined = tuple(sorted((*monomial, atom), key=lambda a: a.text))
        products[joined] = products.get(joined, 0) + coefficient
    return polynomial(products)


def _atom_bounds(atom: Atom) -> Interval:
    if atom.op == "sym":
        low, high = atom.args[1:] or (-inf if atom.signed else 0, None)
        return low, inf if high is None else high
    inner = [bounds(argument) for argument in atom.args]
    if atom.op == "floordiv":
        (low, high), (small, large) = inner
        if small == large and small >= 1:
            return _divide(low, small), _divide(high, small)
        return (0, high) if low >= 0 and small >= 0 else (-inf, inf)
    if atom.op == "mod":
        small, large = inner[1]
        return (0, max(large - 1, 0)) if small >= 0 else (-inf, inf)
    lows, highs = [low for low, _ in inner], [high for _, high in inner]
    if atom.op == "min":
        return min(lows), min(highs)
    if atom.op == "max":
        return max(lows), max(highs)
    return min(lows), max(highs)


def _divide(value: float, by: float) -> float:
    return value if value in (-inf, inf) else int(value) // int(by)


def _times(a: Interval, b: Interval) -> Interval:
    ends = [0 if x == 0 or y == 0 else x * y for x in a for y in b]
    return min(ends), max(ends)
