"""This file defines `Expr`: an interned polynomial over atoms, with its ring operations.

An atom is a symbol, or one of the operations that a polynomial cannot express. Rounding operations and
their simplification rules live in `rounding.py`; here is only what holds for every polynomial.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Union

Dim = Union[int, "Expr"]

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_SIGNED = re.compile(r"s\d+")


class Atom:
    """`op` of `args`: op is sym (args: the name, or the name, the least and the largest value), floordiv, mod (two
    dims), min, max, broadcast (two or more)."""

    __slots__ = ("args", "op", "text")
    _all: dict[tuple, Atom] = {}

    op: str
    args: tuple
    text: str

    def __new__(cls, op: str, args: tuple) -> Atom:
        key = (op, args)
        known = cls._all.get(key)
        if known is None:
            known = object.__new__(cls)
            known.op, known.args, known.text = op, args, _atom_text(op, args)
            cls._all[key] = known
        return known

    @property
    def signed(self) -> bool:
        """Whether this is a symbol that may be negative: `s0`, `s1` … hold elements of run-time tensors."""
        return self.op == "sym" and _SIGNED.fullmatch(self.args[0]) is not None

    def __repr__(self) -> str:
        return self.text


Monomial = tuple[Atom, ...]  # sorted by text, repeated for powers
Terms = dict[Monomial, int]


class Expr:
    """An immutable polynomial; equal polynomials are one object."""

    __slots__ = ("_bounds", "_text", "terms")
    _all: dict[tuple, Expr] = {}

    terms: tuple[tuple[Monomial, int], ...]  # highest degree first, the constant last; no zero coefficients
    _text: str | None
    _bounds: tuple[float, float] | None

    def __add__(self, other: Dim) -> Dim:
        if isinstance(other, int):
            return plus_constant(self, other) if other else self
        if not isinstance(other, Expr):
            return NotImplemented
        sums = dict(self.terms)
        for monomial, coefficient in other.terms:
            sums[monomial] = sums.get(monomial, 0) + coefficient
        return polynomial(sums)

    __radd__ = __add__

    def __neg__(self) -> Dim:
        return polynomial({monomial: -coefficient for monomial, coefficient in self.terms})

    def __sub__(self, other: Dim) -> Dim:
        return self + -other

    def __rsub__(self, other: Dim) -> Dim:
        return -self + other

    def __mul__(self, other: Dim) -> Dim:
        if isinstance(other, int):
            return self if other == 1 else polynomial({m: c * other for m, c in self.terms})
        if not isinstance(other, Expr):
            return NotImplemented
        products: Terms = {}
        for left, a in self.terms:
            for right, b in other.terms:
                monomial = join(left, right)
                products[monomial] = products.get(monomial, 0) + a * b
        return polynomial(products)

    __rmul__ = __mul__

    def __floordiv__(self, other: Dim) -> Dim:
        return _rounding().floordiv(self, other)

    def __rfloordiv__(self, other: Dim) -> Dim:
        return _rounding().floordiv(other, self)

    def __mod__(self, other: Dim) -> Dim:
        return _rounding().mod(self, other)

    def __rmod__(self, other: Dim) -> Dim:
        return _rounding().mod(other, self)

    def __str__(self) -> str:
        if self._text is None:
            self._text = "".join(_term_text(m, c, i == 0) for i, (m, c) in enumerate(self.terms))
        return self._text

    def __repr__(self) -> str:
        return f"Expr({self})"

    def __reduce__(self) -> tuple:
        return _unpickle, (str(self),)


def symbol(name: str) -> Expr:
    """The dimension called `name`; any text is a name. `s0`, `s1` … may be negative, all others are at least 0."""
    return of_atom(Atom("sym", (name,)))


def ranged(name: str, low: int, high: int | None) -> Dim:
    """The symbol `name`, which is known to be from `low` to `high` (None: unbounded), as proofs then use.

    One module knows a symbol with one range.
    """
    if low == high:
        return low
    return symbol(name) if low == 0 and high is None else of_atom(Atom("sym", (name, low, high)))


def of_atom(atom: Atom) -> Expr:
    """The polynomial that is just `atom`."""
    return _intern((((atom,), 1),))


def multiple_of_symbol(value: Dim) -> tuple[int, str] | None:
    """(m, name) where `value` is m times a symbol, else None."""
    (monomial, factor), *rest = terms_of(value) or [((), 0)]
    if rest or len(monomial) != 1 or monomial[0].op != "sym":
        return None
    return factor, monomial[0].args[0]


def polynomial(terms: Terms) -> Dim:
    """The dim with these terms; zero coefficients are dropped, a constant becomes an int."""
    kept = [(m, c) for m, c in terms.items() if c]
    if not kept:
        return 0
    if len(kept) == 1 and not kept[0][0]:
        return kept[0][1]
    kept.sort(key=_term_order)
    return _intern(tuple(kept))


def plus_constant(expr: Expr, value: int) -> Dim:
    """`expr + value`, without sorting."""
    *rest, (last, constant) = expr.terms
    if last:
        return _intern((*expr.terms, ((), value)))
    return _intern((*rest, ((), constant + value)) if constant + value else tuple(rest))


def terms_of(value: Dim) -> Iterable[tuple[Monomial, int]]:
    """The terms of an expression or an int."""
    if isinstance(value, Expr):
        return value.terms
    return (((), value),) if value else ()


def join(left: Monomial, right: Monomial) -> Monomial:
    """The product of two monomials."""
    if not left or not right:
        return left or right
    return tuple(sorted(left + right, key=lambda atom: atom.text))


def _intern(terms: tuple[tuple[Monomial, int], ...]) -> Expr:
    known = Expr._all.get(terms)
    if known is None:
        known = object.__new__(Expr)
        known.terms, known._text, known._bounds = terms, None, None
        Expr._all[terms] = known
    return known


def _term_order(term: tuple[Monomial, int]) -> tuple:
    return -len(term[0]), [atom.text for atom in term[0]]


def _unpickle(text: str) -> Dim:
    from onnxc.dialects.dims.text import parse  # the parser builds expressions, so it imports this file

    return parse(text)


def _rounding():
    from onnxc.dialects.dims import rounding  # rounding works on expressions, so it imports this file

    return rounding


def _term_text(monomial: Monomial, coefficient: int, first: bool) -> str:
    sign = "-" if coefficient < 0 else "" if first else "+"
    size = abs(coefficient)
    if not monomial:
        return f"{sign}{size}"
    alone = len(monomial) == 1 and size == 1 and not (first and coefficient < 0)
    factors = [atom.text if alone or atom.op not in ("floordiv", "mod") else f"({atom.text})" for atom in monomial]
    return sign + "*".join([str(size)] * (size != 1) + factors)


def _atom_text(op: str, args: tuple) -> str:
    if op == "sym":
        name, *range_ = args
        text = name if _PLAIN.fullmatch(name) else "'" + name.replace("\\", r"\\").replace("'", r"\'") + "'"
        return text + (f":{range_[0]}..{'' if range_[1] is None else range_[1]}" if range_ else "")
    if op in ("floordiv", "mod"):
        return _operand_text(args[0]) + ("//" if op == "floordiv" else "%") + _operand_text(args[1])
    return f"{op}({','.join(map(str, args))})"


def _operand_text(value: Dim) -> str:
    simple = value >= 0 if isinstance(value, int) else (
        len(value.terms) == 1 and value.terms[0][1] == 1 and len(value.terms[0][0]) == 1
        and value.terms[0][0][0].op not in ("floordiv", "mod")
    )  # fmt: skip
    return str(value) if simple else f"({value})"
