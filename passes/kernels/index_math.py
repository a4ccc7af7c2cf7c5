"""Index arithmetic that folds: an index is a Python int where it is known, else an SSA value of type `index`."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import arith

Index = int | ir.Value


def value(i: Index) -> ir.Value:
    """The SSA value of `i`, making a constant at the current insertion point if it is an int."""
    return arith.constant(ir.IndexType.get(), i) if isinstance(i, int) else i


def add(a: Index, b: Index) -> Index:
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    if isinstance(a, int):
        a, b = b, a
    return a if isinstance(b, int) and b == 0 else arith.addi(value(a), value(b))


def sub(a: Index, b: Index) -> Index:
    if isinstance(b, int):
        return add(a, -b)
    return arith.subi(value(a), b)


def mul(a: Index, b: Index) -> Index:
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    if isinstance(a, int):
        a, b = b, a
    if isinstance(b, int):
        if b == 0:
            return 0
        if b == 1:
            return a
    return arith.muli(value(a), value(b))


def floordiv(a: Index, b: Index) -> Index:
    """`a // b` for a ≥ 0 and b > 0 (unsigned division: the cheaper one)."""
    if isinstance(a, int) and isinstance(b, int):
        return a // b
    if isinstance(b, int) and b == 1:
        return a
    return arith.divui(value(a), value(b))


def floordiv_signed(a: Index, b: int) -> Index:
    """`a // b` rounding to minus infinity, for any a and a constant b > 0."""
    if isinstance(a, int):
        return a // b
    return a if b == 1 else arith.floordivsi(a, value(b))


def ceildiv(a: Index, b: int) -> Index:
    return floordiv(add(a, b - 1), b)


def mod(a: Index, b: Index) -> Index:
    """`a % b` for a ≥ 0 and b > 0."""
    if isinstance(a, int) and isinstance(b, int):
        return a % b
    if isinstance(b, int) and b == 1:
        return 0
    return arith.remui(value(a), value(b))


def minimum(a: Index, b: Index) -> Index:
    if isinstance(a, int) and isinstance(b, int):
        return min(a, b)
    return arith.minsi(value(a), value(b))


def maximum(a: Index, b: Index) -> Index:
    if isinstance(a, int) and isinstance(b, int):
        return max(a, b)
    return arith.maxsi(value(a), value(b))


def product(indices: list[Index]) -> Index:
    total: Index = 1
    for i in indices:
        total = mul(total, i)
    return total


_PREDICATES = {"==": 0, "!=": 1, "<": 2, "<=": 3, ">": 4, ">=": 5}


def compare(a: Index, predicate: str, b: Index) -> bool | ir.Value:
    """A signed comparison: a Python bool where both sides are known, else an i1 value."""
    if isinstance(a, int) and isinstance(b, int):
        return {"==": a == b, "!=": a != b, "<": a < b, "<=": a <= b, ">": a > b, ">=": a >= b}[predicate]
    return arith.cmpi(_PREDICATES[predicate], value(a), value(b))


def within(i: Index, extent: Index) -> ir.Value:
    """0 ≤ i < extent in one comparison: as unsigned numbers, of which negative ones are large."""
    return arith.cmpi(arith.CmpIPredicate.ult, value(i), value(extent))


def select(condition: bool | ir.Value, a: Index, b: Index) -> Index:
    if isinstance(condition, bool):
        return a if condition else b
    if isinstance(a, int) and isinstance(b, int) and a == b:
        return a
    return arith.select(condition, value(a), value(b))


def both(a: bool | ir.Value, b: bool | ir.Value) -> bool | ir.Value:
    if isinstance(a, bool):
        return b if a else False
    if isinstance(b, bool):
        return a if b else False
    return arith.andi(a, b)


def negate(a: bool | ir.Value) -> bool | ir.Value:
    return not a if isinstance(a, bool) else arith.xori(a, arith.constant(ir.IntegerType.get_signless(1), 1))


def unflattened(row: Index, sizes: Sequence[Index]) -> list[Index]:
    """The index into each of `sizes` for position `row` of their product; the first is not taken modulo."""
    points: list[Index] = []
    for size in reversed(sizes[1:]):
        points.append(mod(row, size))
        row = floordiv(row, size)
    return [row, *points[::-1]] if sizes else []
