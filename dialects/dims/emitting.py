"""This file folds dims with a given set of operations: evaluation, substitution and code generation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Protocol, TypeVar

from onnxc.dialects.dims import rounding
from onnxc.dialects.dims.expr import Atom, Dim, Expr, of_atom

V = TypeVar("V")


class Arithmetic(Protocol[V]):
    """What `emit` needs; `floordiv` and `mod` round to minus infinity, `broadcast` is `b if a == 1 else a`."""

    def const(self, value: int) -> V: ...
    def add(self, a: V, b: V) -> V: ...
    def mul(self, a: V, b: V) -> V: ...
    def floordiv(self, a: V, b: V) -> V: ...
    def mod(self, a: V, b: V) -> V: ...
    def min(self, a: V, b: V) -> V: ...
    def max(self, a: V, b: V) -> V: ...
    def broadcast(self, a: V, b: V) -> V: ...


def emit(value: Dim, lookup: Callable[[str], V], ops: Arithmetic[V]) -> V:
    """`value` computed with `ops`; `lookup` gives each symbol's value. Shared atoms are computed once."""
    return _fold(value, lambda atom: lookup(atom.args[0]), ops, {})


def _fold(value: Dim, leaf: Callable[[Atom], V], ops: Arithmetic[V], done: dict[Atom, V]) -> V:
    if isinstance(value, int):
        return ops.const(value)
    total: V | None = None
    for monomial, coefficient in value.terms:
        term: V | None = None
        for atom in monomial:
            factor = _fold_atom(atom, leaf, ops, done)
            term = factor if term is None else ops.mul(term, factor)
        if term is None:
            term = ops.const(coefficient)
        elif coefficient != 1:
            term = ops.mul(term, ops.const(coefficient))
        total = term if total is None else ops.add(total, term)
    return ops.const(0) if total is None else total


def _fold_atom(atom: Atom, leaf: Callable[[Atom], V], ops: Arithmetic[V], done: dict[Atom, V]) -> V:
    if atom not in done:
        if atom.op == "sym":
            done[atom] = leaf(atom)
        else:
            combine = getattr(ops, atom.op)
            first, *others = (_fold(argument, leaf, ops, done) for argument in atom.args)
            for other in others:
                first = combine(first, other)
            done[atom] = first
    return done[atom]


class _Numbers:
    """Arithmetic on ints and dims alike."""

    const = staticmethod(lambda value: value)
    add = staticmethod(lambda a, b: a + b)
    mul = staticmethod(lambda a, b: a * b)
    floordiv = staticmethod(rounding.floordiv)
    mod = staticmethod(rounding.mod)
    min = staticmethod(rounding.minimum)
    max = staticmethod(rounding.maximum)
    broadcast = staticmethod(rounding.broadcast)


def substitute(value: Dim, replacements: Mapping[str, Dim]) -> Dim:
    """`value` with symbols replaced; others stay."""
    if isinstance(value, int) or not replacements or symbols(value).isdisjoint(replacements):
        return value

    def leaf(atom: Atom) -> Dim:
        found = replacements.get(atom.args[0])
        return of_atom(atom) if found is None else found

    return _fold(value, leaf, _Numbers, {})  # type: ignore[arg-type]


def evaluate(value: Dim, known: Mapping[str, int]) -> int:
    """The number that `value` is; KeyError names a symbol that is missing."""
    return fold(value, lambda atom: known[atom.args[0]])


def fold(value: Dim, leaf: Callable[[Atom], int]) -> int:
    """The number that `value` is, where `leaf` tells that of each symbol."""
    return value if isinstance(value, int) else _fold(value, leaf, _Numbers, {})  # type: ignore[arg-type]


_symbols: dict[Expr, frozenset[str]] = {}


def symbols(value: Dim) -> frozenset[str]:
    """The names of the symbols in `value`."""
    if isinstance(value, int):
        return frozenset()
    known = _symbols.get(value)
    if known is None:
        names: set[str] = set()
        for monomial, _ in value.terms:
            for atom in monomial:
                names |= {atom.args[0]} if atom.op == "sym" else frozenset().union(*map(symbols, atom.args))
        known = _symbols[value] = frozenset(names)
    return known
