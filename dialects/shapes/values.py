"""This file evaluates small tensors of integers symbolically: what exporters write to compute shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Union

import numpy as np

from onnxc.dialects import dims
from onnxc.dialects.dims import Dim
from onnxc.dialects.shapes import reals
from onnxc.dialects.shapes.creation import range_count, shape_part
from onnxc.dialects.shapes.movement import split_sizes
from onnxc.dialects.shapes.reals import Number, Real
from onnxc.dialects.shapes.registry import ShapeContext, evaluates
from onnxc.dialects.shapes.reshaping import slice_range

Elements = Union["list[list[Number] | None]", None]  # of each result; None: not known
_FLOATS = ("f16", "bf16", "f32", "f64")


def array(c: ShapeContext, index: int) -> np.ndarray | None:
    """The elements of operand `index` in its shape; None where they or the shape are not known."""
    found, tensor = c.known(index), c.type(index)
    if found is None or tensor is None or not tensor.is_static:
        return None
    result = np.empty(len(found), object)
    result[:] = found
    return result.reshape([size for size in tensor.dims if isinstance(size, int)])


def listed(value: np.ndarray) -> Elements:
    """The elements of the only result. numpy gives an element itself where one is left of an array of objects."""
    return [list(value.reshape(-1)) if isinstance(value, np.ndarray) else [value]]


@evaluates("Shape")
def shape(c: ShapeContext) -> Elements:
    return [list(shape_part(c))]


@evaluates("Size")
def size(c: ShapeContext) -> Elements:
    return [[c.tensor(0).numel]]


@evaluates("Identity", "Squeeze", "Unsqueeze", "Reshape", "Flatten", "Dropout")
def keep(c: ShapeContext) -> Elements:
    found = c.known(0)
    return None if found is None else [list(found), None]


@evaluates("Cast")
def cast(c: ShapeContext) -> Elements:
    found, target = c.known(0), c.element("to")
    if found is None or target == "!onnx.string":
        return None
    if target in _FLOATS:
        return [list(found)]
    if target == "i1":
        return _all([_truth(value) for value in found])
    return _all([reals.truncate(value) if isinstance(value, Real) else value for value in found])


def _truth(value: Number) -> int | None:
    return int(value != 0) if isinstance(value, int) else 1 if _decide(value, 0, _positive) else None


def _all(values: Sequence[Number | None]) -> Elements:
    known = [value for value in values if value is not None]
    return [known] if len(known) == len(values) else None


@evaluates("Concat")
def concat(c: ShapeContext) -> Elements:
    parts = [array(c, index) for index in range(len(c.types))]
    known = [part for part in parts if part is not None]
    return listed(np.concatenate(known, axis=c.attr("axis", 0))) if len(known) == len(parts) else None


@evaluates("Gather")
def gather(c: ShapeContext) -> Elements:
    data, indices = array(c, 0), array(c, 1)
    if data is None or indices is None or not all(isinstance(index, int) for index in indices.reshape(-1)):
        return None
    axis = c.attr("axis", 0)
    places = indices.astype(np.int64)
    if places.size and not (-data.shape[axis] <= places.min() and places.max() < data.shape[axis]):
        return None  # the kernel reports it, if the node runs at all
    return listed(np.take(data, places, axis=axis))


@evaluates("Slice")
def slice_(c: ShapeContext) -> Elements:
    data, starts, ends = array(c, 0), c.known(1), c.known(2)
    axes = c.known(3) if c.has(3) else range(len(starts or ()))
    steps = c.known(4) if c.has(4) else [1] * len(starts or ())
    if data is None or starts is None or ends is None or axes is None or steps is None:
        return None
    cut: list[Any] = [slice(None)] * data.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if isinstance(start, Real) or isinstance(end, Real) or not isinstance(axis, int) or not isinstance(step, int):
            return None
        first, count = slice_range(data.shape[axis], start, end, step)
        if not isinstance(first, int) or not isinstance(count, int):
            return None
        cut[axis] = [first + step * i for i in range(count)]
        data = np.take(data, cut[axis], axis=axis)
    return listed(data)


@evaluates("Split")
def split(c: ShapeContext) -> Elements:
    data = array(c, 0)
    if data is None:
        return None
    axis = c.attr("axis", 0)
    sizes = [part for part in split_sizes(c, data.shape[axis]) if isinstance(part, int)]
    if len(sizes) != c.results:
        return None
    parts = np.split(data, np.cumsum(sizes)[:-1], axis=axis)
    return [list(part.reshape(-1)) for part in parts]


@evaluates("Transpose")
def transpose(c: ShapeContext) -> Elements:
    data = array(c, 0)
    return None if data is None else listed(np.transpose(data, c.attr("perm", None)))


@evaluates("Expand")
def expand(c: ShapeContext) -> Elements:
    data, target = array(c, 0), c.known(1)
    if data is None or target is None or not all(isinstance(size, int) for size in target):
        return None
    return listed(np.broadcast_to(data, np.broadcast_shapes(data.shape, tuple(target))))


@evaluates("Tile")
def tile(c: ShapeContext) -> Elements:
    data, repeats = array(c, 0), c.known(1)
    if data is None or repeats is None or not all(isinstance(times, int) for times in repeats):
        return None
    return listed(np.tile(data, tuple(repeats)))


@evaluates("Range")
def range_(c: ShapeContext) -> Elements:
    start, limit, delta = ((c.known(index) or [None])[0] for index in range(3))
    if start is None or limit is None or not isinstance(delta, int):
        return None
    if isinstance(start, Real) or isinstance(limit, Real):
        return None
    count = range_count(start, limit, delta)
    return [[start + delta * i for i in range(count)]] if isinstance(count, int) else None


@evaluates("ReduceProd", "ReduceSum", "ReduceMax", "ReduceMin")
def reduce_all(c: ShapeContext) -> Elements:
    """Only over everything that there is: over vectors, as exporters count elements."""
    found, tensor = c.known(0), c.tensor(0)
    if not found or tensor.rank != 1 or (c.has(1) and not c.known(1)):
        return None
    steps: dict[str, Callable[[Any, Any], Any]] = {
        "ReduceProd": reals.multiply, "ReduceSum": reals.add, "ReduceMax": dims.max, "ReduceMin": dims.min,
    }  # fmt: skip
    if c.name in ("ReduceMax", "ReduceMin") and any(isinstance(value, Real) for value in found):
        return None
    return [[reduce(steps[c.name], found)]]


def _positive(gap: Dim) -> bool:
    return dims.nonnegative(gap - 1)


def _decide(a: Number, b: Number, holds: Callable[[Dim], bool]) -> bool:
    """Whether `holds` is proved of a - b (times a positive number)."""
    num, _ = reals.parts(reals.add(a, reals.multiply(b, -1)))
    return holds(num)
