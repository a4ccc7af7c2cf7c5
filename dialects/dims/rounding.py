"""This file holds floor division, remainder, minimum, maximum and broadcast of dims, with their simplifications.

Division is Python's: it rounds to minus infinity, and the remainder has the divisor's sign. Every rule holds for
all values of the symbols for which no divisor is 0 (and, for `broadcast`, for legal broadcasts).
"""

from __future__ import annotations

from math import gcd

from onnxc.dialects.dims.bounds import at_least, bounds
from onnxc.dialects.dims.expr import Atom, Dim, Expr, Monomial, join, of_atom, polynomial, terms_of


def floordiv(a: Dim, b: Dim) -> Dim:
    """floor(a / b)."""
    if isinstance(b, int):
        return a // b if isinstance(a, int) else _divide_by_constant(a, b)
    if a == 0:
        return 0
    quotient, remainder = _divide_polynomials(a, b)
    if remainder == 0 or (at_least(remainder, 0) and at_least(b, remainder + 1)):
        return quotient
    a, b = _cancel(a, b)
    if isinstance(b, int):
        return floordiv(a, b)
    return of_atom(Atom("floordiv", (a, b)))


def ceildiv(a: Dim, b: Dim) -> Dim:
    """ceil(a / b) for b > 0."""
    return floordiv(a + b - 1, b)


def mod(a: Dim, b: Dim) -> Dim:
    """a - b * floor(a / b)."""
    if isinstance(b, int):
        return a % b if isinstance(a, int) else _remainder_by_constant(a, b)
    if a == 0 or _divide_polynomials(a, b)[1] == 0:
        return 0
    if at_least(a, 0) and at_least(b, a + 1):
        return a
    return of_atom(Atom("mod", (a, b)))


def minimum(*values: Dim) -> Dim:
    """The least of `values`."""
    return _extreme("min", values, lambda a, b: at_least(b, a))


def maximum(*values: Dim) -> Dim:
    """The greatest of `values`."""
    return _extreme("max", values, at_least)


def broadcast(a: Dim, b: Dim) -> Dim:
    """The result of broadcasting dims `a` and `b`, which must be equal unless one is 1."""
    if a is b or a == b or _never_one(a):
        return a
    if a == 1 or _never_one(b):
        return b
    if b == 1:
        return a
    for one, other in ((a, b), (b, a)):
        if _equal_or_one(one, other):
            return other
    parts = {part: None for value in (a, b) for part in _parts("broadcast", value)}
    if len(parts) == 1:
        return next(iter(parts))
    return of_atom(Atom("broadcast", tuple(sorted(parts, key=str))))


def _equal_or_one(a: Dim, b: Dim) -> bool:
    """Whether `a`, being a size that broadcasts with `b`, is `b` or is 1: `max(0, b)`, and `min(b, c)` with c >= 1."""
    if isinstance(b, int):
        return False
    parts = _parts("max", a)
    if len(parts) == 2 and b in parts and 0 in parts:
        return True
    parts = _parts("min", a)
    return len(parts) > 1 and b in parts and all(part is b or bounds(part)[0] >= 1 for part in parts)


def _never_one(value: Dim) -> bool:
    if isinstance(value, int):
        return value != 1
    if bounds(value)[0] > 1:
        return True
    return gcd(*(coefficient for _, coefficient in value.terms)) > 1


def _divide_by_constant(a: Expr, b: int) -> Dim:
    if b < 0:
        return floordiv(-a, -b)
    if b == 0:
        raise ZeroDivisionError(f"({a}) // 0")
    whole = polynomial({m: c // b for m, c in a.terms})
    rest = polynomial({m: c % b for m, c in a.terms})
    if isinstance(rest, int):
        return whole  # 0 <= rest < b
    low, high = bounds(rest)
    if low >= 0 and high < b:
        return whole
    common = gcd(b, *(c for m, c in rest.terms if m))
    if common > 1:
        return whole + floordiv(polynomial({m: c // common for m, c in rest.terms}), b // common)
    inner = _single_division(rest)
    if inner is not None:
        numerator, divisor, constant = inner
        return whole + floordiv(numerator + constant * divisor, divisor * b)
    return whole + of_atom(Atom("floordiv", (rest, b)))


def _single_division(value: Expr) -> tuple[Dim, int, int] | None:
    """(x, d, k) if `value` is `x//d + k` with a positive constant d."""
    (monomial, coefficient), *rest = value.terms
    if coefficient != 1 or len(monomial) != 1 or monomial[0].op != "floordiv" or len(rest) > 1 or (rest and rest[0][0]):
        return None
    numerator, divisor = monomial[0].args
    return (numerator, divisor, rest[0][1] if rest else 0) if isinstance(divisor, int) and divisor > 0 else None


def _remainder_by_constant(a: Expr, b: int) -> Dim:
    if b < 0:
        return -mod(-a, -b)
    if b == 0:
        raise ZeroDivisionError(f"({a}) % 0")
    rest = polynomial({m: c % b for m, c in a.terms})
    if isinstance(rest, int):
        return rest
    low, high = bounds(rest)
    if low >= 0 and high < b:
        return rest
    common = gcd(b, *(c for _, c in rest.terms))
    if common > 1:
        return mod(polynomial({m: c // common for m, c in rest.terms}), b // common) * common
    return of_atom(Atom("mod", (rest, b)))


def _divide_polynomials(a: Dim, b: Expr) -> tuple[Dim, Dim]:
    """Quotient and remainder of polynomial long division by the leading term of `b`."""
    lead, lead_coefficient = b.terms[0]
    quotient: Dim = 0
    rest = a
    while isinstance(rest, Expr):
        monomial, coefficient = rest.terms[0]
        over = _without(monomial, lead)
        if over is None or coefficient % lead_coefficient:
            break
        step = polynomial({over: coefficient // lead_coefficient})
        quotient, rest = quotient + step, rest - step * b
    return quotient, rest


def _cancel(a: Dim, b: Expr) -> tuple[Dim, Dim]:
    """Divides both by their common factors: integers and atoms that occur in every term."""
    terms = [*terms_of(a), *b.terms]
    common = gcd(*(c for _, c in terms))
    shared: Monomial = terms[0][0]
    for monomial, _ in terms[1:]:
        shared = _intersection(shared, monomial)
    if common == 1 and not shared:
        return a, b

    def divide(value: Dim) -> Dim:
        return polynomial({_without(m, shared) or (): c // common for m, c in terms_of(value)})

    return divide(a), divide(b)


def _without(monomial: Monomial, part: Monomial) -> Monomial | None:
    """`monomial / part`, None if it does not divide."""
    rest = list(monomial)
    for atom in part:
        if atom not in rest:
            return None
        rest.remove(atom)
    return tuple(rest)


def _intersection(a: Monomial, b: Monomial) -> Monomial:
    rest, shared = list(b), []
    for atom in a:
        if atom in rest:
            rest.remove(atom)
            shared.append(atom)
    return join(tuple(shared), ())


def _parts(op: str, value: Dim) -> tuple[Dim, ...]:
    """The arguments if `value` is an `op` of several, else `value` itself."""
    if isinstance(value, Expr) and len(value.terms) == 1:
        monomial, coefficient = value.terms[0]
        if coefficient == 1 and len(monomial) == 1 and monomial[0].op == op:
            return monomial[0].args
    return (value,)


def _extreme(op: str, values: tuple[Dim, ...], wins) -> Dim:
    kept: list[Dim] = []
    for candidate in dict.fromkeys(part for value in values for part in _parts(op, value)):
        if any(wins(other, candidate) for other in kept):
            continue
        kept = [other for other in kept if not wins(candidate, other)]
        kept.append(candidate)
    if len(kept) == 1:
        return kept[0]
    return of_atom(Atom(op, tuple(sorted(kept, key=lambda d: (isinstance(d, int), str(d))))))
