"""This file infers the shape of Resize from its scales or its sizes."""

from __future__ import annotations

from fractions import Fraction
from math import floor

import numpy as np

from onnxc.dialects.dims import Dim
from onnxc.dialects.shapes import reals
from onnxc.dialects.shapes.reals import Number
from onnxc.dialects.shapes.registry import IllegalShape, NeedsValues, ShapeContext, infers
from onnxc.dialects.types import Tensor

SCALES, SIZES = 2, 3


@infers("Resize")
def resize(c: ShapeContext) -> list[Tensor]:
    """Scales that are no exact factors of a symbolic size leave the sizes to run time: the pass adds operand 3."""
    x = list(c.shape(0))
    axes = c.axes(c.attr("axes", None) or list(range(len(x))), len(x))
    if c.has(SIZES) or not c.has(SCALES):
        results = _from_sizes(c, [x[axis] for axis in axes])
    else:
        results = _from_scales(c, [x[axis] for axis in axes])
    if len(results) != len(axes):
        raise IllegalShape(f"{len(results)} scales or sizes for {len(axes)} axes")
    for axis, size in zip(axes, results, strict=True):
        x[axis] = size
    return [Tensor(c.elem(0), tuple(x))]


def _from_sizes(c: ShapeContext, sizes: list[Dim]) -> list[Dim]:
    wanted = list(c.sizes(SIZES))
    policy = c.attr("keep_aspect_ratio_policy", "stretch")
    if policy == "stretch" or c.has(SCALES):
        return wanted
    ratios = [
        Fraction(want, size)
        for want, size in zip(wanted, sizes, strict=True)
        if isinstance(want, int) and isinstance(size, int) and size
    ]
    if len(ratios) != len(sizes):
        raise IllegalShape(f"keep_aspect_ratio_policy {policy} with sizes that are known at run time only")
    ratio = min(ratios) if policy == "not_larger" else max(ratios)
    return [floor(ratio * size + Fraction(1, 2)) for size in sizes if isinstance(size, int)]


def _from_scales(c: ShapeContext, sizes: list[Dim]) -> list[Dim]:
    scales = c.known(SCALES)
    if scales is None:
        raise NeedsValues(SCALES, sizes=True)
    if len(scales) != len(sizes):
        raise IllegalShape(f"{len(scales)} scales for {len(sizes)} axes")
    if c.attr("coordinate_transformation_mode", "") == "tf_crop_and_resize":
        scales = _cropped(c, scales)
    return [_scaled(size, scale) for size, scale in zip(sizes, scales, strict=True)]


def _cropped(c: ShapeContext, scales: list[Number] | tuple[Number, ...]) -> list[Number]:
    roi = c.known(1)
    if roi is None or len(roi) != 2 * len(scales):
        raise NeedsValues(SCALES, sizes=True)
    count = len(scales)
    spans = [reals.add(roi[i + count], reals.multiply(roi[i], -1)) for i in range(count)]
    return [reals.multiply(span, scale) for span, scale in zip(spans, scales, strict=True)]


def _scaled(size: Dim, scale: Number) -> Dim:
    """floor(size * scale), as f32 arithmetic gives it."""
    ratio = reals.as_fraction(scale)
    if isinstance(size, int) and ratio is not None:
        return floor(np.float32(size) * np.float32(float(ratio)))
    whole = reals.floor(reals.multiply(size, scale))
    if whole is None:
        raise NeedsValues(SCALES, sizes=True)
    return whole
