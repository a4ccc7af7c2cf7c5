"""This file is the arithmetic of sliding windows: sizes of convolutions and pools, symbolic ones included."""

from __future__ import annotations

from collections.abc import Sequence

from onnxc.dialects import dims
from onnxc.dialects.dims import Dim
from onnxc.dialects.shapes.registry import IllegalShape, ShapeContext


def spatial(c: ShapeContext, name: str, count: int, default: int = 1) -> list[int]:
    """An attribute with one entry a spatial axis."""
    found = c.attr(name, None) or [default] * count
    if len(found) != count:
        raise IllegalShape(f"{name} has {len(found)} entries for {count} spatial axes")
    return list(found)


def steps(c: ShapeContext, name: str, count: int) -> list[int]:
    """Strides or dilations, of which each is at least 1."""
    found = spatial(c, name, count)
    if min(found, default=1) < 1:
        raise IllegalShape(f"{name} are {found}: each is 1 or more")
    return found


def window_shape(c: ShapeContext, sizes: Sequence[Dim], kernel: Sequence[Dim], *, ceil: bool = False) -> list[Dim]:
    """Output sizes of a window of `kernel` elements that slides over `sizes`, by the node's strides, pads, …"""
    count = len(sizes)
    if len(kernel) != count:
        raise IllegalShape(f"a window of {len(kernel)} axes over {count} spatial axes")
    if any(isinstance(size, int) and size < 1 for size in kernel):
        raise IllegalShape(f"a window of {list(kernel)} elements")
    strides, dilations = steps(c, "strides", count), steps(c, "dilations", count)
    pads = spatial(c, "pads", 2 * count, 0)
    mode = c.attr("auto_pad", "NOTSET") or "NOTSET"
    result: list[Dim] = []
    for axis, size in enumerate(sizes):
        reach = (kernel[axis] - 1) * dilations[axis] + 1
        stride = strides[axis]
        if mode in ("SAME_UPPER", "SAME_LOWER"):
            result.append(dims.ceildiv(size, stride))
        else:
            before, after = (0, 0) if mode == "VALID" else (pads[axis], pads[axis + count])
            result.append(_slide(c, size, reach, stride, before, after, ceil))
    return result


def _slide(c: ShapeContext, size: Dim, reach: Dim, stride: int, before: int, after: int, ceil: bool) -> Dim:
    room = size + before + after - reach
    if size != 0 and dims.bounds(room)[1] < 0:
        raise IllegalShape(f"a window of {reach} elements does not fit into {size} with pads {before}, {after}")
    places = (dims.ceildiv if ceil else dims.floordiv)(room, stride) + 1
    c.require(">=", places, 0, f"the places of a window of {reach} elements in {size} with pads {before}, {after}")
    # a window that would start in the padding behind is left out
    return dims.min(places, dims.ceildiv(size + before, stride)) if ceil else places


def transposed_shape(c: ShapeContext, sizes: Sequence[Dim], kernel: Sequence[Dim]) -> list[Dim]:
    """Output sizes of a transposed convolution."""
    count = len(sizes)
    given = c.attr("output_shape", None)
    if given:
        return list(given)[-count:]
    strides, dilations = steps(c, "strides", count), steps(c, "dilations", count)
    extra, pads = spatial(c, "output_padding", count, 0), spatial(c, "pads", 2 * count, 0)
    mode = c.attr("auto_pad", "NOTSET") or "NOTSET"
    result: list[Dim] = []
    for axis, size in enumerate(sizes):
        if mode in ("SAME_UPPER", "SAME_LOWER"):
            result.append(size * strides[axis])
            continue
        cut = 0 if mode == "VALID" else pads[axis] + pads[axis + count]
        reach = (kernel[axis] - 1) * dilations[axis] + 1
        result.append((size - 1) * strides[axis] + reach + extra[axis] - cut)
    return result
