"""This file infers shapes of operators that move elements without looking at them."""

from __future__ import annotations

from onnxc.dialects import dims
from onnxc.dialects.dims import Dim
from onnxc.dialects.shapes.broadcasting import broadcast_shapes
from onnxc.dialects.shapes.registry import IllegalShape, ShapeContext, infers
from onnxc.dialects.types import Tensor


@infers("Transpose")
def transpose(c: ShapeContext) -> list[Tensor]:
    x = c.shape(0)
    order = c.attr("perm", None) or list(reversed(range(len(x))))
    if sorted(order) != list(range(len(x))):
        raise IllegalShape(f"perm {list(order)} is not an order of {len(x)} axes")
    return [Tensor(c.elem(0), tuple(x[axis] for axis in order))]


@infers("Squeeze")
def squeeze(c: ShapeContext) -> list[Tensor]:
    x = c.shape(0)
    axes = squeezed_axes(c)
    for axis in axes:
        c.same(x[axis], 1, f"the size of squeezed axis {axis}")
    return [Tensor(c.elem(0), tuple(dim for axis, dim in enumerate(x) if axis not in axes))]


def squeezed_axes(c: ShapeContext) -> list[int]:
    """The axes that Squeeze takes away: operand 1, or all of size 1.

    Without axes the rank would depend on sizes that are symbols: these are required to be other than 1.
    """
    x = c.shape(0)
    if c.has(1):
        return c.axes(c.constants(1, "axes"), len(x))
    for axis, dim in enumerate(x):
        if not isinstance(dim, int):
            c.require("!=", dim, 1, f"the size of axis {axis}, which a Squeeze without axes is compiled to keep")
    return [axis for axis, dim in enumerate(x) if dim == 1]


@infers("Unsqueeze")
def unsqueeze(c: ShapeContext) -> list[Tensor]:
    x = list(c.shape(0))
    axes = c.constants(1, "axes")
    for axis in sorted(c.axes(axes, len(x) + len(axes))):
        x.insert(axis, 1)
    return [Tensor(c.elem(0), tuple(x))]


@infers("Flatten")
def flatten(c: ShapeContext) -> list[Tensor]:
    x = c.shape(0)
    axis = c.attr("axis", 1)
    if not -len(x) <= axis <= len(x):
        raise IllegalShape(f"axis {axis} is outside a rank-{len(x)} tensor")
    axis = axis + len(x) if axis < 0 else axis
    return [Tensor(c.elem(0), (dims.product(x[:axis]), dims.product(x[axis:])))]


@infers("Expand")
def expand(c: ShapeContext) -> list[Tensor]:
    return [Tensor(c.elem(0), broadcast_shapes(c, c.shape(0), c.sizes(1)))]


@infers("Tile")
def tile(c: ShapeContext) -> list[Tensor]:
    x, repeats = c.shape(0), c.sizes(1)
    if len(x) != len(repeats):
        raise IllegalShape(f"{len(repeats)} repeats for a rank-{len(x)} tensor")
    return [Tensor(c.elem(0), tuple(dim * times for dim, times in zip(x, repeats, strict=True)))]


@infers("Concat")
def concat(c: ShapeContext) -> list[Tensor]:
    return [Tensor(c.elem(0), concatenated(c, [c.shape(i) for i in range(len(c.types))], c.attr("axis", 0)))]


def concatenated(c: ShapeContext, shapes: list[tuple[Dim, ...]], axis: int) -> tuple[Dim, ...]:
    """The shape of `shapes` joined along `axis`."""
    result = list(shapes[0])
    axis = c.axis(axis, len(result))
    for shape in shapes[1:]:
        if len(shape) != len(result):
            raise IllegalShape(f"ranks {len(result)} and {len(shape)} differ")
        for at, dim in enumerate(shape):
            result[at] = result[at] + dim if at == axis else c.same(result[at], dim, f"sizes of axis {at}")
    return tuple(result)


@infers("Split")
def split(c: ShapeContext) -> list[Tensor]:
    x = c.shape(0)
    axis = c.axis(c.attr("axis", 0), len(x))
    return [Tensor(c.elem(0), (*x[:axis], size, *x[axis + 1 :])) for size in split_sizes(c, x[axis])]


def split_sizes(c: ShapeContext, whole: Dim) -> list[Dim]:
    """The size of each part: operand 1, or equal parts of which the last may be smaller."""
    if c.has(1):
        sizes = list(c.sizes(1))
        if len(sizes) != c.results:
            raise IllegalShape(f"{len(sizes)} sizes for {c.results} results")
        c.same(sum(sizes[1:], sizes[0]), whole, "the sum of the parts and the axis")
        return sizes
    count = c.attr("num_outputs", None) or c.results
    part = dims.ceildiv(whole, count)
    last = whole - part * (count - 1)
    if count != c.results:
        raise IllegalShape(f"{count} parts for {c.results} results")
    c.require(">=", last, 0, f"the last of {count} parts")
    return [part] * (count - 1) + [last]


@infers("Pad")
def pad(c: ShapeContext) -> list[Tensor]:
    x = list(c.shape(0))
    axes = c.axes(c.constants(3, "axes"), len(x)) if c.has(3) else list(range(len(x)))
    pads = c.values(1)
    if len(pads) != 2 * len(axes):
        raise IllegalShape(f"{len(pads)} pads for {len(axes)} axes")
    repeats = c.attr("mode", "constant") != "constant"
    for at, axis in enumerate(axes):
        if repeats and not pads[at] == 0 == pads[at + len(axes)]:
            c.require(">=", x[axis], 1, f"axis {axis}, whose elements are repeated")
        x[axis] = x[axis] + pads[at] + pads[at + len(axes)]
        if any(entry != 0 and not dims.nonnegative(entry) for entry in (pads[at], pads[at + len(axes)])):
            c.require(">=", x[axis], 0, f"axis {axis} of the result")
    return [Tensor(c.elem(0), tuple(x))]


@infers("CenterCropPad")
def center_crop_pad(c: ShapeContext) -> list[Tensor]:
    x = list(c.shape(0))
    axes = c.axes(c.attr("axes", None) or list(range(len(x))), len(x))
    for axis, size in zip(axes, c.sizes(1), strict=True):
        x[axis] = size
    return [Tensor(c.elem(0), tuple(x))]


@infers("DepthToSpace")
def depth_to_space(c: ShapeContext) -> list[Tensor]:
    batch, depth, height, width = c.ranked(0, 4)
    block = c.attr("blocksize", 1)
    channels = c.divides(depth, block * block, "the channels")
    return [Tensor(c.elem(0), (batch, channels, height * block, width * block))]


@infers("SpaceToDepth")
def space_to_depth(c: ShapeContext) -> list[Tensor]:
    batch, depth, height, width = c.ranked(0, 4)
    block = c.attr("blocksize", 1)
    rows, columns = c.divides(height, block, "the height"), c.divides(width, block, "the width")
    return [Tensor(c.elem(0), (batch, depth * block * block, rows, columns))]


@infers("Trilu")
def keep(c: ShapeContext) -> list[Tensor]:
    return [c.tensor(0)]


@infers("ReverseSequence")
def reverse_sequence(c: ShapeContext) -> list[Tensor]:
    batch = c.axis(c.attr("batch_axis", 1), len(c.shape(0)), "batch_axis")
    c.same(c.ranked(1, 1)[0], c.shape(0)[batch], "sequence_lens and the batch")
    return [c.tensor(0)]
