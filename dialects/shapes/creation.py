"""This file infers shapes of operators that make tensors from sizes and numbers, and of Shape and Size."""

from __future__ import annotations

from math import ceil

import numpy as np

from onnxc.dialects import dims
from onnxc.dialects.dims import Dim
from onnxc.dialects.shapes import reals
from onnxc.dialects.shapes.registry import IllegalShape, ShapeContext, infers
from onnxc.dialects.types import Tensor
from onnxc.dialects.weights import element_of


@infers("Shape")
def shape(c: ShapeContext) -> list[Tensor]:
    return [Tensor("i64", (len(shape_part(c)),))]


def shape_part(c: ShapeContext) -> tuple[Dim, ...]:
    """The sizes that Shape gives: those from `start` up to `end`, clamped to the rank."""
    x = c.shape(0)
    start, end = c.attr("start", 0), c.attr("end", None)
    return x[slice(start, end)]


@infers("Size")
def size(c: ShapeContext) -> list[Tensor]:
    return [Tensor("i64", ())]


@infers("ConstantOfShape")
def constant_of_shape(c: ShapeContext) -> list[Tensor]:
    return [Tensor(constant_elem(c), c.sizes(0))]


def constant_elem(c: ShapeContext) -> str:
    """The element type of ConstantOfShape: its value's, or f32."""
    value = c.attr("value", None)
    return "f32" if value is None else element_of(np.asarray(value).dtype)


@infers("Range")
def range_(c: ShapeContext) -> list[Tensor]:
    """The number of elements of a range of floats that are no constants is counted at run time."""
    for index in range(3):
        if c.tensor(index).numel != 1:
            raise IllegalShape(f"operand {index} must be a scalar")
    if c.elem(0) in ("f16", "bf16", "f32", "f64"):
        return [Tensor(c.elem(0), (_float_count(c),))]
    (start,), (limit,), (delta,) = c.values(0), c.values(1), c.values(2)
    c.require("!=", delta, 0, "the step")
    elem = c.declared[0].elem if c.recorded(0) and c.declared[0] is not None else c.elem(0)
    return [Tensor(elem, (range_count(start, limit, delta),))]


def _float_count(c: ShapeContext) -> Dim:
    numbers = [c.known(index) for index in range(3)]
    whole = [number[0] for number in numbers if number is not None and not isinstance(number[0], reals.Real)]
    if len(whole) == 3 and isinstance(whole[2], int) and whole[2] != 0:
        return range_count(*whole)
    fractions = [None if number is None else reals.as_fraction(number[0]) for number in numbers]
    if any(fraction is None for fraction in fractions) or not fractions[2]:
        return c.fresh("0")
    start, limit, delta = (float(fraction) for fraction in fractions if fraction is not None)
    return max(0, ceil((limit - start) / delta))


def range_count(start: Dim, limit: Dim, delta: Dim) -> Dim:
    """max(0, ceil((limit - start) / delta))."""
    return dims.max(0, -dims.floordiv(start - limit, delta))


@infers("EyeLike")
def eye_like(c: ShapeContext) -> list[Tensor]:
    c.ranked(0, 2)
    given = c.attr("dtype", None)
    return [c.tensor(0).of_elem(c.element("dtype")) if given else c.tensor(0)]


@infers("RandomNormal", "RandomUniform")
def random(c: ShapeContext) -> list[Tensor]:
    return [Tensor(c.element("dtype", 1), tuple(c.attr("shape", [])))]


@infers("Bernoulli", "RandomNormalLike", "RandomUniformLike")
def random_like(c: ShapeContext) -> list[Tensor]:
    given = c.attr("dtype", None)
    return [c.tensor(0).of_elem(c.element("dtype")) if given else c.tensor(0)]


@infers("Multinomial")
def multinomial(c: ShapeContext) -> list[Tensor]:
    return [Tensor(c.element("dtype", 6), (c.ranked(0, 2)[0], c.attr("sample_size", 1)))]
