"""This file is the table of patterns, by the op at which they end, and the readers that patterns share."""

from __future__ import annotations

import math
from collections.abc import Callable

from mlir import ir

from onnxc.dialects.types import Tensor
from onnxc.passes.rewriting import Rewriter, Rule

PATTERNS: dict[str, list[Rule]] = {}


def recognises(*names: str) -> Callable[[Rule], Rule]:
    """Registers a rule for the last op of a pattern: it returns the one op that is meant, or None."""

    def register(rule: Rule) -> Rule:
        for name in names:
            PATTERNS.setdefault(name, []).append(rule)
        return rule

    return register


def product(value: ir.Value, rw: Rewriter, *, root: bool = True) -> tuple[float, list[ir.Value]]:
    """`value` as number · factor · factor …, through Mul, Neg and Div by a number that nothing else reads.

    What two places of a pattern read (its x) has two uses, so it stays whole."""
    op = rw.producer(value, "Mul", "Div", "Neg")
    if op is None or not (root or rw.single_use(value)):
        return 1.0, [value]
    if op.name == "Neg":
        number, factors = product(op.operands[0], rw, root=False)
        return -number, factors
    constants = [rw.scalar(operand) for operand in op.operands]
    if op.name == "Div":
        if not constants[1]:
            return 1.0, [value]
        number, factors = product(op.operands[0], rw, root=False)
        return number / constants[1], factors
    total, found = 1.0, []
    for operand, constant in zip(op.operands, constants, strict=True):
        number, factors = (constant, []) if constant is not None else product(operand, rw, root=False)
        total *= number
        found += factors
    return total, found


def shifted(value: ir.Value, rw: Rewriter) -> tuple[ir.Value, float] | None:
    """(x, c) where `value` is x + c for a number c."""
    op = rw.producer(value, "Add", "Sub")
    if op is None:
        return None
    for x, other in ((0, 1), (1, 0)) if op.name == "Add" else ((0, 1),):
        number = rw.scalar(op.operands[other])
        if number is not None:
            return op.operands[x], float(number) if op.name == "Add" else -float(number)
    return None


def near(a: float | int | None, b: float, tolerance: float = 1e-3) -> bool:
    """Whether a number of a model is this constant; exporters write few digits, or those of a half float."""
    return a is not None and math.isclose(a, b, rel_tol=tolerance)


def same_shape(a: ir.Value, b: ir.Value) -> bool:
    return Tensor.of(a.type).shape == Tensor.of(b.type).shape
