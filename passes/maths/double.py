"""This file computes f32 functions in f64 lanes: where f32 needs more bits, or where its own code would not pay."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps

from mlir import ir
from mlir.dialects import arith

from onnxc.passes.maths.lanes import Lanes


def _retyped(kind: ir.Type, element: ir.Type) -> ir.Type:
    return ir.VectorType.get(kind.shape, element) if isinstance(kind, ir.VectorType) else element


def widen(x: Lanes) -> Lanes:
    """f32 to f64."""
    return Lanes(arith.extf(_retyped(x.value.type, ir.F64Type.get()), x.value))


def narrow(x: Lanes) -> Lanes:
    """f64 to f32, rounded."""
    return Lanes(arith.truncf(_retyped(x.value.type, ir.F32Type.get()), x.value))


def in_double(function: Callable[..., Lanes]) -> Callable[..., Lanes]:
    """The f64 function, for f32 operands too."""

    @wraps(function)
    def either(*operands: Lanes) -> Lanes:
        if operands[0].format.width == 64:
            return function(*operands)
        return narrow(function(*map(widen, operands)))

    return either
