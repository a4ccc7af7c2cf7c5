"""This file infers shapes of normalisations; most keep the shape of their first operand."""

from __future__ import annotations

from onnxc.dialects.dims import Dim
from onnxc.dialects.shapes.broadcasting import broadcast_shapes
from onnxc.dialects.shapes.registry import ShapeContext, infers
from onnxc.dialects.types import Tensor


@infers("GroupNormalization", "InstanceNormalization", "LRN", "LpNormalization", "MeanVarianceNormalization")
def keep(c: ShapeContext) -> list[Tensor]:
    return [c.tensor(0)]


@infers("BatchNormalization")
def batch_normalization(c: ShapeContext) -> list[Tensor]:
    x = c.shape(0)
    for index in range(1, 5):
        if len(x) > 1:
            c.same(c.ranked(index, 1)[0], x[1], f"operand {index} and the channels")
    return [c.tensor(0), c.tensor(3), c.tensor(4)]


@infers("LayerNormalization", "RMSNormalization", "microsoft.LayerNormalization")
def layer_normalization(c: ShapeContext) -> list[Tensor]:
    x = c.shape(0)
    axis = c.axis(c.attr("axis", -1), len(x))
    broadcast_shapes(c, x[axis:], c.shape(1))
    statistic = Tensor(c.element("stash_type", 1), (*x[:axis], *_ones(len(x) - axis)))
    return [c.tensor(0), statistic, statistic]


@infers("microsoft.SkipLayerNormalization")
def skip_layer_normalization(c: ShapeContext) -> list[Tensor]:
    x = c.shape(0)
    broadcast_shapes(c, x, c.shape(1))
    statistic = Tensor("f32", (*x[:-1], 1))
    return [c.tensor(0), statistic, statistic, c.tensor(0)]


@infers("microsoft.EmbedLayerNormalization")
def embed_layer_normalization(c: ShapeContext) -> list[Tensor]:
    ids, words = c.ranked(0, 2), c.ranked(2, 2)
    embedded = Tensor(c.elem(2), (*ids, words[1]))
    return [embedded, Tensor("i32", ids[:1]), embedded]


def _ones(count: int) -> tuple[Dim, ...]:
    return (1,) * count
