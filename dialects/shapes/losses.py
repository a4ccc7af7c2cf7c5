"""This file infers shapes of loss operators and of optimiser steps."""

from __future__ import annotations

from onnxc.dialects.shapes.registry import ShapeContext, infers
from onnxc.dialects.types import Tensor


@infers("NegativeLogLikelihoodLoss")
def negative_log_likelihood(c: ShapeContext) -> list[Tensor]:
    return [_loss(c)]


@infers("SoftmaxCrossEntropyLoss")
def softmax_cross_entropy(c: ShapeContext) -> list[Tensor]:
    return [_loss(c), c.tensor(0)]


def _loss(c: ShapeContext) -> Tensor:
    return Tensor(c.elem(0), c.shape(1) if c.attr("reduction", "mean") == "none" else ())


@infers("preview.training.Adagrad", "preview.training.Momentum", "preview.training.Adam")
def optimiser(c: ShapeContext) -> list[Tensor]:
    """Operands are rate, step, then the tensors, their gradients and one or two states each; results lack gradients."""
    groups = 4 if c.name.endswith("Adam") else 3
    count = (len(c.types) - 2) // groups
    return [c.tensor(2 + i) for i in range(groups * count) if not count <= i < 2 * count]
