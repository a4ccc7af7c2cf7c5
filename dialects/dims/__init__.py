"""This package is the arithmetic of tensor dimensions: a `Dim` is an int or a symbolic `Expr`.

Expressions are canonical polynomials with integer coefficients over atoms (symbols, floor divisions,
remainders, minima, maxima, broadcasts). They are interned, so equality is identity, and two
expressions that are equal as polynomials are the same object. Nothing here knows about IR.
"""

from onnxc.dialects.dims.bounds import at_least, bounds, divisor, nonnegative
from onnxc.dialects.dims.emitting import Arithmetic, emit, evaluate, substitute, symbols
from onnxc.dialects.dims.expr import Dim, Expr, multiple_of_symbol, ranged, symbol
from onnxc.dialects.dims.facts import Facts, usual
from onnxc.dialects.dims.rounding import broadcast, ceildiv, floordiv, maximum, minimum, mod
from onnxc.dialects.dims.text import DimSyntaxError, parse

min = minimum
max = maximum


def product(values: "tuple[Dim, ...] | list[Dim]") -> Dim:
    """The product of `values`; 1 if there are none."""
    total: Dim = 1
    for value in values:
        total = total * value
    return total


__all__ = [
    "Arithmetic", "Dim", "DimSyntaxError", "Expr", "Facts", "at_least", "bounds", "broadcast", "ceildiv", "divisor",
    "emit", "evaluate", "floordiv", "max", "maximum", "min", "minimum", "mod", "multiple_of_symbol", "nonnegative",
    "parse", "product", "ranged", "substitute", "symbol", "symbols", "usual",
]  # fmt: skip
