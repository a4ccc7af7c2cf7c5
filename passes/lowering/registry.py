"""The tables of lowerings: operator name → function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mlir import ir

from onnxc.dialects.onnx import OnnxOp
from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import scalars


@dataclass(frozen=True)
class Element:
    """What an element-wise lowering knows of its op beside the operand values."""

    op: OnnxOp
    elem: str  # element type of the first operand
    result: str  # element type of the result

    def attr(self, name: str, *default: Any) -> Any:
        return self.op.attr(name, *default)


HALVES = {"f16", "bf16"}
# Ops that only pass elements on or convert them.
AS_STORED = {"Cast", "CastLike", "Identity"}

ElementwiseLowering = Callable[..., ir.Value]
ELEMENTWISE: dict[str, ElementwiseLowering] = {}
MOVES: dict[str, Callable[..., ir.Value]] = {}


def elementwise(*names: str) -> Callable[[ElementwiseLowering], ElementwiseLowering]:
    """Registers `f(e: Element, *operands: Value) -> Value`; operands are broadcast, absent ones are None."""

    def register(f: ElementwiseLowering) -> ElementwiseLowering:
        ELEMENTWISE.update(dict.fromkeys(names, f))
        return f

    return register


def moves(*names: str) -> Callable[[Callable[..., ir.Value]], Callable[..., ir.Value]]:
    """Registers `f(ev: Evaluator, op: OnnxOp, idx) -> Value`: the element of the result at `idx`."""

    def register(f: Callable[..., ir.Value]) -> Callable[..., ir.Value]:
        MOVES.update(dict.fromkeys(names, f))
        return f

    return register


def evaluated(op: OnnxOp, operands: list[ir.Value | None]) -> ir.Value:
    """The element of an element-wise op's result. Halves are computed in f32 and rounded after each op."""
    elems = ["" if v is None else Tensor.of(v.type).elem for v in op.operands]
    first, result = next(e for e in elems if e), Tensor.of(op.results[0].type).elem
    if op.name in AS_STORED or not {*elems, result} & HALVES:
        return ELEMENTWISE[op.name](Element(op, first, result), *operands)
    wide = [scalars.cast(v, e, "f32") if e in HALVES else v for v, e in zip(operands, elems, strict=False)]
    computed, kept = ("f32" if e in HALVES else e for e in (first, result))
    return scalars.cast(ELEMENTWISE[op.name](Element(op, computed, kept), *wide), kept, result)
