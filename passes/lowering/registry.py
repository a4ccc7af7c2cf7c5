"""The tables of lowerings: operator name → function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from mlir import ir

from onnxc.dialects.onnx import OnnxOp
from onnxc.dialects.types import Tensor


@dataclass(frozen=True)
class Element:
    """What an element-wise lowering knows of its op beside the operand values."""

    op: OnnxOp
    elem: str  # element type of the first operand
    result: str  # element type of the result

    def attr(self, name: str, *default: Any) -> Any:
        return self.op.attr(name, *default)


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


def element_of(op: OnnxOp) -> Element:
    first = next(v for v in op.operands if v is not None)
    return Element(op, Tensor.of(first.type).elem, Tensor.of(op.results[0].type).elem)
