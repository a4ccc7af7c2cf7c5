"""This file says which operators have a choice of algorithm, and among which: convolutions and attention.

A convolution's are in conv_algorithms.py. Attention is one kernel, head by head, or its steps (unfuse_attention.py).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from mlir import ir

from onnxc.dialects.onnx import OnnxOp
from onnxc.passes import conv_algorithms
from onnxc.passes.conv_algorithms import ATTRIBUTE, DIRECT
from onnxc.passes.rewriting import functions, operations

__all__ = ["ATTRIBUTE", "CHOICES", "DIRECT", "DIRECT_ONLY", "FUSED", "UNFUSED", "applicable", "choosing"]

FUSED, UNFUSED = "fused", "unfused"


def attention_algorithms(op: OnnxOp, target, strict: bool) -> tuple[str, ...]:
    """Of a `kernel.attention`, the kernel's own first, whose bits strict means."""
    return (FUSED,) if strict else (FUSED, UNFUSED)


@dataclass(frozen=True)
class Choice:
    """What an operator is called, its algorithms, and which of them can do it, the plain one first."""

    what: str
    algorithms: tuple[str, ...]
    applicable: Callable[[OnnxOp, object, bool], tuple[str, ...]]


#: operator → its choice
CHOICES = {
    "kernel.conv": Choice("convolution", conv_algorithms.ALGORITHMS, conv_algorithms.applicable_algorithms),
    "kernel.attention": Choice("attention", (FUSED, UNFUSED), attention_algorithms),
}
#: convolutions that are direct sums whatever is asked for
DIRECT_ONLY = frozenset({"kernel.conv_planes", "kernel.conv_transpose", "kernel.depthwise_planes"})


def choosing(module: ir.Module, *names: str) -> list[OnnxOp]:
    """Every operator of the module that has a choice (or of those `names`), in program order; they may be replaced."""
    blocks = [function.regions[0].blocks[0] for function in functions(module)]
    return [OnnxOp(op) for block in blocks for op in operations(block) if op.name in (names or CHOICES)]


def applicable(op: OnnxOp, target, strict: bool) -> tuple[str, ...]:
    """The algorithms that can do such an operator, the plain one first; `strict`: those that give its bits."""
    return CHOICES[op.op.name].applicable(op, target, strict)
