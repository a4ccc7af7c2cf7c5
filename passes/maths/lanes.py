"""This file defines `Lanes`: one value of floats or integers, scalar or fixed vector, with Python's operators.

Every operator emits one arith or math op at the current insertion point; a Python number becomes a constant of the
other side's type. Nothing here folds, reassociates or branches: scalars and vectors get the same ops, so the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partialmethod

from mlir import ir
from mlir.dialects import arith, math

INF = float("inf")
NAN = float("nan")


@dataclass(frozen=True)
class Format:
    """What an IEEE binary format fixes. Adding `magic` rounds |x| < 2^(mantissa-1) to an integer, in the low bits."""

    width: int
    mantissa: int
    bias: int

    @property
    def magic(self) -> float:
        return 1.5 * 2.0**self.mantissa

    @property
    def smallest_normal(self) -> float:
        return 2.0 ** (1 - self.bias)


FORMATS = {32: Format(32, 23, 127), 64: Format(64, 52, 1023)}


class Lanes:
    """A value; `format` is that of its width, `floats` and `integers` its two types of that width."""

    __slots__ = ("floats", "format", "integers", "is_float", "value")

    def __init__(self, value: ir.Value, like: Lanes | None = None, is_float: bool = True) -> None:
        self.value = value
        self.is_float = is_float
        if like is not None:
            self.format, self.floats, self.integers = like.format, like.floats, like.integers
            return
        element = value.type.element_type if isinstance(value.type, ir.VectorType) else value.type
        self.format = FORMATS[element.width]
        self.floats = value.type
        self.integers = self._retyped(ir.IntegerType.get_signless(self.format.width))

    def _retyped(self, element: ir.Type) -> ir.Type:
        kind = self.value.type
        return ir.VectorType.get(kind.shape, element) if isinstance(kind, ir.VectorType) else element

    def _made(self, value: ir.Value) -> Lanes:
        return Lanes(value, self, self.is_float)

    def constant(self, number: float) -> Lanes:
        """`number` in every lane, of this value's type."""
        kind = self.floats if self.is_float else self.integers
        element = kind.element_type if isinstance(kind, ir.VectorType) else kind
        attribute = ir.FloatAttr.get(element, number) if self.is_float else ir.IntegerAttr.get(element, number)
        if isinstance(kind, ir.VectorType):
            attribute = ir.DenseElementsAttr.get_splat(kind, attribute)
        return self._made(arith.constant(kind, attribute))

    def _lift(self, other: Lanes | float) -> Lanes:
        return other if isinstance(other, Lanes) else self.constant(other)

    def _binary(self, other: Lanes | float, floats: Callable, integers: Callable | None) -> Lanes:
        build = floats if self.is_float else integers
        return self._made(build(self.value, self._lift(other).value))

    def _reflected(self, other: float, floats: Callable, integers: Callable | None) -> Lanes:
        return self.constant(other)._binary(self, floats, integers)

    __add__ = partialmethod(_binary, floats=arith.addf, integers=arith.addi)
    __sub__ = partialmethod(_binary, floats=arith.subf, integers=arith.subi)
    __mul__ = partialmethod(_binary, floats=arith.mulf, integers=arith.muli)
    __truediv__ = partialmethod(_binary, floats=arith.divf, integers=None)
    __and__ = partialmethod(_binary, floats=None, integers=arith.andi)
    __or__ = partialmethod(_binary, floats=None, integers=arith.ori)
    __xor__ = partialmethod(_binary, floats=None, integers=arith.xori)
    __lshift__ = partialmethod(_binary, floats=None, integers=arith.shli)
    __rshift__ = partialmethod(_binary, floats=None, integers=arith.shrsi)
    __radd__ = partialmethod(_reflected, floats=arith.addf, integers=arith.addi)
    __rsub__ = partialmethod(_reflected, floats=arith.subf, integers=arith.subi)
    __rmul__ = partialmethod(_reflected, floats=arith.mulf, integers=arith.muli)
    __rtruediv__ = partialmethod(_reflected, floats=arith.divf, integers=None)

    def __neg__(self) -> Lanes:
        return self._made(arith.negf(self.value))

    def __abs__(self) -> Lanes:
        return self._made(math.absf(self.value))

    def fma(self, factor: Lanes | float, term: Lanes | float) -> Lanes:
        """self*factor + term, rounded once."""
        return self._made(math.fma(self.value, self._lift(factor).value, self._lift(term).value))

    def sqrt(self) -> Lanes:
        return self._made(math.sqrt(self.value))

    def copysign(self, sign: Lanes) -> Lanes:
        return self._made(math.copysign(self.value, sign.value))

    def shift_right_logical(self, count: Lanes | int) -> Lanes:
        return self._made(arith.shrui(self.value, self._lift(count).value))

    def bits(self) -> Lanes:
        """The integer of the same bits."""
        return Lanes(arith.bitcast(self.integers, self.value), self, is_float=False)

    def as_float(self) -> Lanes:
        """The float of the same bits."""
        return Lanes(arith.bitcast(self.floats, self.value), self, is_float=True)

    def _compare(self, other: Lanes | float, floats: arith.CmpFPredicate, integers: arith.CmpIPredicate) -> Mask:
        right = self._lift(other).value
        if self.is_float:
            return Mask(arith.cmpf(floats, self.value, right))
        return Mask(arith.cmpi(integers, self.value, right))

    # Ordered: false when a side is NaN (!= is true then).
    __lt__ = partialmethod(_compare, floats=arith.CmpFPredicate.OLT, integers=arith.CmpIPredicate.slt)
    __le__ = partialmethod(_compare, floats=arith.CmpFPredicate.OLE, integers=arith.CmpIPredicate.sle)
    __gt__ = partialmethod(_compare, floats=arith.CmpFPredicate.OGT, integers=arith.CmpIPredicate.sgt)
    __ge__ = partialmethod(_compare, floats=arith.CmpFPredicate.OGE, integers=arith.CmpIPredicate.sge)
    equals = partialmethod(_compare, floats=arith.CmpFPredicate.OEQ, integers=arith.CmpIPredicate.eq)
    differs = partialmethod(_compare, floats=arith.CmpFPredicate.UNE, integers=arith.CmpIPredicate.ne)

    def at_least(self, low: float) -> Lanes:
        """max(self, low), signed for integers; NaN stays. Compare and select, which x86 has in one instruction."""
        bound = self.constant(low)
        return select(self < bound, bound, self)

    def at_most(self, high: float) -> Lanes:
        """min(self, high); NaN stays."""
        bound = self.constant(high)
        return select(self > bound, bound, self)

    def polynomial(self, coefficients: Sequence[float]) -> Lanes:
        """c0 + c1 x + c2 x^2 + … by Horner's rule, each step one fma."""
        total = self.constant(coefficients[-1])
        for c in reversed(coefficients[:-1]):
            total = total.fma(self, c)
        return total


class Mask:
    """A truth value in every lane."""

    __slots__ = ("value",)

    def __init__(self, value: ir.Value) -> None:
        self.value = value

    def __and__(self, other: Mask) -> Mask:
        return Mask(arith.andi(self.value, other.value))

    def __or__(self, other: Mask) -> Mask:
        return Mask(arith.ori(self.value, other.value))

    def __xor__(self, other: Mask) -> Mask:
        return Mask(arith.xori(self.value, other.value))


def select(mask: Mask, yes: Lanes | float, no: Lanes | float) -> Lanes:
    """`yes` in the lanes where the mask is true, else `no`; at least one of them is Lanes."""
    like = yes if isinstance(yes, Lanes) else no
    return like._made(arith.select(mask.value, like._lift(yes).value, like._lift(no).value))
