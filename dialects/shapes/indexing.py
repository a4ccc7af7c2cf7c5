"""This file infers shapes of operators that gather, scatter and select by index."""

from __future__ import annotations

from onnxc.dialects.dims import Dim
from onnxc.dialects.shapes.registry import IllegalShape, ShapeContext, UnknownRank, infers
from onnxc.dialects.types import Tensor


@infers("Gather")
def gather(c: ShapeContext) -> list[Tensor]:
    data, indices = c.shape(0), c.shape(1)
    axis = c.axis(c.attr("axis", 0), len(data))
    return [Tensor(c.elem(0), (*data[:axis], *indices, *data[axis + 1 :]))]


@infers("GatherElements")
def gather_elements(c: ShapeContext) -> list[Tensor]:
    data, indices = c.shape(0), c.shape(1)
    if len(data) != len(indices):
        raise IllegalShape(f"data of rank {len(data)} and indices of rank {len(indices)}")
    _fits_beside_axis(c, data, indices)
    return [Tensor(c.elem(0), indices)]


def _fits_beside_axis(c: ShapeContext, data: tuple[Dim, ...], indices: tuple[Dim, ...]) -> None:
    """Other axes than `axis` are indexed by place: indices must not reach further than the data."""
    axis = c.axis(c.attr("axis", 0), len(data))
    for at, (size, count) in enumerate(zip(data, indices, strict=True)):
        if at != axis:
            c.require(">=", size, count, f"axis {at} of data and indices")


@infers("GatherND")
def gather_nd(c: ShapeContext) -> list[Tensor]:
    data, indices = c.shape(0), c.shape(1)
    batch = c.attr("batch_dims", 0)
    depth = _depth(c)
    if batch + depth > len(data) or batch >= len(indices):
        raise IllegalShape(f"{depth} coordinates after {batch} batch axes for data of rank {len(data)}")
    for axis in range(batch):
        c.same(data[axis], indices[axis], f"batch axis {axis}")
    return [Tensor(c.elem(0), (*indices[:-1], *data[batch + depth :]))]


def _depth(c: ShapeContext) -> int:
    indices = c.shape(1)
    if not indices:
        raise IllegalShape("indices must not be a scalar")
    if not isinstance(indices[-1], int):
        raise UnknownRank("the number of coordinates of its indices is known at run time only")
    return indices[-1]


@infers("ScatterElements")
def scatter_elements(c: ShapeContext) -> list[Tensor]:
    data, indices, updates = c.shape(0), c.shape(1), c.shape(2)
    if not len(data) == len(indices) == len(updates):
        raise IllegalShape(f"data of rank {len(data)}, indices of {len(indices)}, updates of {len(updates)}")
    _fits_beside_axis(c, data, indices)
    for axis, (a, b) in enumerate(zip(indices, updates, strict=True)):
        c.same(a, b, f"axis {axis} of indices and updates")
    return [c.tensor(0)]


@infers("ScatterND")
def scatter_nd(c: ShapeContext) -> list[Tensor]:
    data, indices, updates = c.shape(0), c.shape(1), c.shape(2)
    expected = (*indices[:-1], *data[_depth(c) :])
    if len(updates) != len(expected):
        raise IllegalShape(f"updates of rank {len(updates)}, where indices ask for rank {len(expected)}")
    for axis, (a, b) in enumerate(zip(updates, expected, strict=True)):
        c.same(a, b, f"axis {axis} of updates")
    return [c.tensor(0)]


@infers("TensorScatter")
def tensor_scatter(c: ShapeContext) -> list[Tensor]:
    return [c.tensor(0)]


@infers("OneHot")
def one_hot(c: ShapeContext) -> list[Tensor]:
    indices = list(c.shape(0))
    axis = c.axis(c.attr("axis", -1), len(indices) + 1)
    (depth,) = c.sizes(1)
    indices.insert(axis, depth)
    return [Tensor(c.elem(2), tuple(indices))]


@infers("Compress")
def compress(c: ShapeContext) -> list[Tensor]:
    x = list(c.shape(0))
    axis = c.attr("axis", None)
    extent = c.tensor(0).numel if axis is None else x[c.axis(axis, len(x))]
    c.require(">=", extent, c.tensor(1).numel, "what is selected from and the number of conditions")
    if axis is None:
        return [Tensor(c.elem(0), (c.fresh("0"),))]
    x[c.axis(axis, len(x))] = c.fresh("0")
    return [Tensor(c.elem(0), tuple(x))]


@infers("NonZero")
def non_zero(c: ShapeContext) -> list[Tensor]:
    return [Tensor("i64", (len(c.shape(0)), c.fresh("0")))]


@infers("Unique")
def unique(c: ShapeContext) -> list[Tensor]:
    x = list(c.shape(0))
    axis = c.attr("axis", None)
    count, whole = c.fresh("0"), c.tensor(0).numel
    if axis is None:
        kept = Tensor(c.elem(0), (count,))
    else:
        axis = c.axis(axis, len(x))
        whole, x[axis] = x[axis], count
        kept = Tensor(c.elem(0), tuple(x))
    counts = Tensor("i64", (count,))
    return [kept, counts, Tensor("i64", (whole,)), counts]
