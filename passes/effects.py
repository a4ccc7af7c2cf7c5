"""This file says which ops of the graph level may be erased, merged or evaluated early.

MLIR cannot know: the ops are unregistered. Nothing at this level writes memory, so only three things restrict us:
random draws, run-time values bound to symbols, and terminators.
"""

from __future__ import annotations

from mlir import ir

RANDOM = frozenset(
    f"onnx.{name}"
    for name in ("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli")
)
KEEP = frozenset(
    ("onnx.Yield", "kernel.yield", "kernel.bind_dims", "kernel.require", "func.return", "func.func", "builtin.module")
)


def is_random(op: ir.Operation) -> bool:
    """Two equal ops give different results. A Dropout that trains counts; one that cannot is gone after `simplify`."""
    return op.name in RANDOM or (op.name == "onnx.Dropout" and len(op.operands) > 2)


def may_erase(op: ir.Operation) -> bool:
    """Erasing the op is right as soon as nothing uses its results and no symbol is bound by it."""
    return op.name not in KEEP and not len(op.regions)


def may_merge(op: ir.Operation) -> bool:
    """Two such ops of equal operands, attributes and types always give equal results."""
    return op.name not in KEEP and op.name != "kernel.scratch" and not is_random(op) and not len(op.regions)
