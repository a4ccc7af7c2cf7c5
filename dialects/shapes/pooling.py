"""This file infers shapes of pools and of operators that sample regions of images."""

from __future__ import annotations

from onnxc.dialects import dims
from onnxc.dialects.dims import Dim
from onnxc.dialects.shapes.registry import IllegalShape, ShapeContext, infers
from onnxc.dialects.shapes.windows import spatial, window_shape
from onnxc.dialects.types import Tensor


@infers("AveragePool", "MaxPool", "LpPool")
def pool(c: ShapeContext) -> list[Tensor]:
    x = c.shape(0)
    if len(x) < 3:
        raise IllegalShape(f"a pool needs spatial axes, the input has rank {len(x)}")
    sizes = window_shape(c, x[2:], c.attr("kernel_shape", []), ceil=bool(c.attr("ceil_mode", 0)))
    pooled = Tensor(c.elem(0), (*x[:2], *sizes))
    return [pooled, pooled.of_elem("i64")]


@infers("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool")
def global_pool(c: ShapeContext) -> list[Tensor]:
    x = c.shape(0)
    if len(x) < 3:
        raise IllegalShape(f"a pool needs spatial axes, the input has rank {len(x)}")
    return [Tensor(c.elem(0), (*x[:2], *[1] * (len(x) - 2)))]


@infers("MaxUnpool")
def max_unpool(c: ShapeContext) -> list[Tensor]:
    x = c.shape(0)
    if c.has(2):
        return [Tensor(c.elem(0), c.sizes(2))]
    count = len(x) - 2
    kernel, strides = spatial(c, "kernel_shape", count), spatial(c, "strides", count)
    pads = spatial(c, "pads", 2 * count, 0)
    sizes = [
        (x[2 + i] - 1) * strides[i] + kernel[i] - pads[i] - pads[i + count] for i in range(count)
    ]  # fmt: skip
    return [Tensor(c.elem(0), (*x[:2], *sizes))]


@infers("MaxRoiPool")
def max_roi_pool(c: ShapeContext) -> list[Tensor]:
    return [Tensor(c.elem(0), (c.ranked(1, 2)[0], c.ranked(0, 4)[1], *c.attr("pooled_shape", [])))]


@infers("RoiAlign")
def roi_align(c: ShapeContext) -> list[Tensor]:
    size = (c.attr("output_height", 1), c.attr("output_width", 1))
    return [Tensor(c.elem(0), (c.ranked(1, 2)[0], c.ranked(0, 4)[1], *size))]


@infers("GridSample")
def grid_sample(c: ShapeContext) -> list[Tensor]:
    x, grid = c.shape(0), c.shape(1)
    if len(x) != len(grid):
        raise IllegalShape(f"input of rank {len(x)} and grid of rank {len(grid)}")
    c.same(grid[-1], len(x) - 2, "coordinates of the grid")
    return [Tensor(c.elem(0), (c.same(x[0], grid[0], "batch"), x[1], *grid[1:-1]))]


@infers("AffineGrid")
def affine_grid(c: ShapeContext) -> list[Tensor]:
    batch, _, *sizes = c.sizes(1)
    return [Tensor(c.elem(0), (batch, *sizes, len(sizes)))]


@infers("NonMaxSuppression")
def non_max_suppression(c: ShapeContext) -> list[Tensor]:
    """Its symbol is a size that is known at run time only; the pass replaces the node (see nms_bound)."""
    c.ranked(0, 3)
    c.ranked(1, 3)
    return [Tensor("i64", (c.fresh("0"), 3))]


def nms_bound(boxes: tuple[Dim, ...], scores: tuple[Dim, ...], limit: Dim | None) -> Dim:
    """The most rows that NonMaxSuppression can select: `limit` boxes for each class of each image."""
    count: Dim = scores[2] if limit is None else dims.min(scores[2], dims.max(limit, 0))
    return boxes[0] * scores[1] * count
