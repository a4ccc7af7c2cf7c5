"""Comparisons, logic and selection: element-wise ops with bool operands or results."""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith, math

from onnxc.passes.kernels import scalars
from onnxc.passes.kernels.scalars import constant_like, is_unsigned
from onnxc.passes.lowering.registry import ELEMENTWISE, Element, elementwise

for _name, _predicate in {
    "Equal": "==",
    "Less": "<",
    "LessOrEqual": "<=",
    "Greater": ">",
    "GreaterOrEqual": ">=",
}.items():
    ELEMENTWISE[_name] = lambda e, a, b, p=_predicate: scalars.compare(a, p, b, is_unsigned(e.elem))
for _name, _logic in {
    "And": arith.andi,
    "Or": arith.ori,
    "Xor": arith.xori,
    "BitwiseAnd": arith.andi,
    "BitwiseOr": arith.ori,
    "BitwiseXor": arith.xori,
}.items():
    ELEMENTWISE[_name] = lambda e, a, b, f=_logic: f(a, b)


@elementwise("Not", "BitwiseNot")
def logical_not(e: Element, x: ir.Value) -> ir.Value:
    return scalars.logical_not(x)


@elementwise("Where")
def where(e: Element, condition: ir.Value, a: ir.Value, b: ir.Value) -> ir.Value:
    return scalars.select(condition, a, b)


@elementwise("IsNaN")
def is_nan(e: Element, x: ir.Value) -> ir.Value:
    return scalars.is_nan(x)


@elementwise("IsInf")
def is_inf(e: Element, x: ir.Value) -> ir.Value:
    inf = float("inf")
    if not e.attr("detect_negative"):
        return scalars.compare(x, "==", constant_like(inf if e.attr("detect_positive") else float("nan"), x))
    if not e.attr("detect_positive"):
        return scalars.compare(x, "==", constant_like(-inf, x))
    return scalars.compare(math.absf(x), "==", constant_like(inf, x))


@elementwise("BitShift")
def bit_shift(e: Element, x: ir.Value, by: ir.Value) -> ir.Value:
    """Shifts by the width or more leave nothing of the number; signed ones keep their sign to the right."""
    width = scalars.scalar_type(x).width
    fits = scalars.compare(by, "<", constant_like(width, by), unsigned=True)
    if e.attr("direction") == "RIGHT" and not is_unsigned(e.elem):
        return arith.shrsi(x, scalars.select(fits, by, constant_like(width - 1, by)))
    safe = scalars.select(fits, by, constant_like(0, by))
    shifted = arith.shli(x, safe) if e.attr("direction") == "LEFT" else arith.shrui(x, safe)
    return scalars.select(fits, shifted, constant_like(0, x))
