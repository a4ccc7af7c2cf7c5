"""This package is the shape functions: for every operator one that gives its result types, by families.

Some operators also have one that gives the elements of small results symbolically, so that shapes that a model
computes are known. Each family registers itself; `INFER` and `EVALUATE` are the tables.
"""

from onnxc.dialects.shapes import (
    arithmetic,
    attention,
    channels_last,
    classical,
    contraction,
    convolution,
    creation,
    elementwise,
    indexing,
    losses,
    movement,
    normalization,
    pooling,
    quantization,
    recurrent,
    reduction,
    reshaping,
    resize,
    signal,
    text,
    values,
)
from onnxc.dialects.shapes.registry import (
    EVALUATE,
    INFER,
    IllegalShape,
    NeedsValues,
    ShapeContext,
    UnknownOperandRank,
    UnknownRank,
    evaluates,
    infers,
)

FAMILIES = (
    arithmetic, attention, channels_last, classical, contraction, convolution, creation, elementwise, indexing, losses,
    movement, normalization, pooling, quantization, recurrent, reduction, reshaping, resize, signal, text, values,
)  # fmt: skip

__all__ = [
    "EVALUATE", "FAMILIES", "INFER", "IllegalShape", "NeedsValues", "ShapeContext", "UnknownOperandRank", "UnknownRank",
    "evaluates", "infers",
]  # fmt: skip
