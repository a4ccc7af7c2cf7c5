"""This file evaluates arithmetic and comparisons of small tensors symbolically, where the result is decided."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from onnxc.dialects import dims
from onnxc.dialects.dims import Dim
from onnxc.dialects.shapes import reals
from onnxc.dialects.shapes.reals import Number, Real
from onnxc.dialects.shapes.registry import ShapeContext, evaluates
from onnxc.dialects.shapes.values import Elements, array

_FLOATS = ("f16", "bf16", "f32", "f64")
Binary = Callable[[Any, Any], "Number | None"]


def _whole(function: Callable[[Dim, Dim], Dim | None]) -> Binary:
    """A binary operation that is only defined on dims."""
    return lambda a, b: None if isinstance(a, Real) or isinstance(b, Real) else function(a, b)


def _divide_integers(a: Dim, b: Dim) -> Dim | None:
    """Integer division rounds to 0; floor division is the same where the quotient is not negative."""
    if isinstance(a, int) and isinstance(b, int):
        return None if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)
    if b == 0 or not dims.nonnegative(b):
        return None
    if dims.nonnegative(a):
        return dims.floordiv(a, b)
    quotient = dims.floordiv(a, b)
    return quotient if quotient * b == a else None


def _modulo(a: Dim, b: Dim) -> Dim | None:
    return None if b == 0 or not dims.nonnegative(b) else dims.mod(a, b)


def _power(a: Dim, b: Dim) -> Dim | None:
    return None if not isinstance(b, int) or not 0 <= b <= 8 else dims.product([a] * b)


ARITHMETIC: dict[str, Binary] = {
    "Add": reals.add,
    "Sub": lambda a, b: reals.add(a, reals.multiply(b, -1)),
    "Mul": reals.multiply,
    "Div": _whole(_divide_integers),
    "Mod": _whole(_modulo),
    "Min": _whole(dims.min),
    "Max": _whole(dims.max),
    "Pow": _whole(_power),
}


def _compare(a: Number, b: Number, yes: Callable[[Dim], bool], no: Callable[[Dim], bool]) -> int | None:
    """1 if `yes` is proved of a - b, 0 if `no` is, None if neither."""
    gap, _ = reals.parts(reals.add(a, reals.multiply(b, -1)))
    return 1 if yes(gap) else 0 if no(gap) else None


def _zero(gap: Dim) -> bool:
    return isinstance(gap, int) and gap == 0


def _above(gap: Dim) -> bool:
    return dims.nonnegative(gap - 1)


def _below(gap: Dim) -> bool:
    return dims.nonnegative(-gap - 1)


def _not_above(gap: Dim) -> bool:
    return dims.nonnegative(-gap)


COMPARISONS: dict[str, Binary] = {
    "Equal": lambda a, b: _compare(a, b, _zero, lambda gap: _above(gap) or _below(gap)),
    "Greater": lambda a, b: _compare(a, b, _above, _not_above),
    "GreaterOrEqual": lambda a, b: _compare(a, b, dims.nonnegative, _below),
    "Less": lambda a, b: _compare(a, b, _below, dims.nonnegative),
    "LessOrEqual": lambda a, b: _compare(a, b, _not_above, _above),
    "And": lambda a, b: 0 if 0 in (a, b) else 1 if a == b == 1 else None,
    "Or": lambda a, b: 1 if 1 in (a, b) else 0 if a == b == 0 else None,
}


@evaluates(*ARITHMETIC, *COMPARISONS)
def binary(c: ShapeContext) -> Elements:
    if c.name == "Mod" and c.attr("fmod", 0):
        return None
    combine = ARITHMETIC.get(c.name) or COMPARISONS[c.name]
    floats = c.elem(0) in _FLOATS
    if c.name == "Div" and floats:
        combine = reals.divide
    result = array(c, 0)
    for index in range(1, len(c.types)):
        other = array(c, index)
        if result is None or other is None:
            return None
        result = _broadcast(combine, result, other)
    if result is None:
        return None
    values = [_rounded(value, c.elem(0)) if floats else value for value in result.reshape(-1)]
    return [values]


def _broadcast(combine: Binary, a: np.ndarray, b: np.ndarray) -> np.ndarray | None:
    a, b = np.broadcast_arrays(a, b)
    result = np.empty(a.shape, object)
    for at in np.ndindex(a.shape):
        value = combine(a[at], b[at])
        if value is None:
            return None
        result[at] = value
    return result


def _rounded(value: Number, elem: str) -> Number:
    """A constant as its float type holds it; what holds symbols is kept exact."""
    fraction = reals.as_fraction(value) if isinstance(value, Real) else None
    if fraction is None or elem == "f64":
        return value
    return reals.from_float(float(np.float32(float(fraction)))) or 0


UNARY: dict[str, Callable[[Any], Number | None]] = {
    "Neg": lambda a: reals.multiply(a, -1),
    "Floor": reals.floor,
    "Ceil": lambda a: None if (below := reals.floor(reals.multiply(a, -1))) is None else -below,
    "Abs": lambda a: a if _is_size(a) else abs(a) if isinstance(a, int) else None,
    "Relu": lambda a: a if _is_size(a) else None,
    "Not": lambda a: 1 - a if a in (0, 1) else None,
}


def _is_size(value: Number) -> bool:
    return not isinstance(value, Real) and dims.nonnegative(value)


@evaluates(*UNARY)
def unary(c: ShapeContext) -> Elements:
    found = c.known(0)
    if found is None:
        return None
    values = [UNARY[c.name](value) for value in found]
    known = [value for value in values if value is not None]
    return [known] if len(known) == len(values) else None


@evaluates("Where")
def where(c: ShapeContext) -> Elements:
    choices = [array(c, index) for index in range(3)]
    if any(choice is None for choice in choices):
        return None
    condition, yes, no = np.broadcast_arrays(*choices)
    values: list[Number] = []
    for at in np.ndindex(condition.shape):
        if not isinstance(condition[at], int) and yes[at] != no[at]:
            return None
        values.append(yes[at] if condition[at] else no[at])
    return [values]


@evaluates("ConstantOfShape")
def constant_of_shape(c: ShapeContext) -> Elements:
    """The value is an array of one element; without it, zeros."""
    sizes, value = c.known(0), c.attr("value", None)
    if sizes is None or not all(isinstance(size, int) for size in sizes):
        return None
    element: Any = 0 if value is None else np.asarray(value).reshape(-1)[0].item()
    number = reals.from_float(element) if isinstance(element, float) else int(element)
    return None if number is None else [[number] * int(dims.product(list(sizes)))]
