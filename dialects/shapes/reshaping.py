"""This file infers shapes of Reshape and Slice, whose operands hold shapes and places."""

from __future__ import annotations

from onnxc.dialects import dims
from onnxc.dialects.dims import Dim
from onnxc.dialects.shapes.registry import IllegalShape, NeedsValues, ShapeContext, infers
from onnxc.dialects.types import Tensor

#: Exporters write "to the end" as the largest 32- or 64-bit number, or as a thousand million.
_FAR = 10**9


@infers("Reshape")
def reshape(c: ShapeContext) -> list[Tensor]:
    """An entry of the shape that could be 0 or -1 at run time is not a size: the pass resolves it first."""
    x, entries = c.shape(0), c.sizes(1)
    if any(not isinstance(entry, int) and any(map(_signed, dims.symbols(entry))) for entry in entries):
        raise NeedsValues(1, sizes=True)
    result = reshaped(x, entries, bool(c.attr("allowzero", 0)))
    return [Tensor(c.elem(0), result)]


def reshaped(x: tuple[Dim, ...], entries: tuple[Dim, ...], allow_zero: bool) -> tuple[Dim, ...]:
    """`entries` as a shape for the elements of `x`: 0 copies a size of `x` (unless allowed), one -1 takes the rest."""
    result = list(entries)
    for at, entry in enumerate(entries):
        if entry == 0 and not allow_zero:
            if at >= len(x):
                raise IllegalShape(f"entry {at} copies a size that a rank-{len(x)} tensor does not have")
            result[at] = x[at]
        elif isinstance(entry, int) and entry < -1:
            raise IllegalShape(f"{entry} is not a size")
    whole = dims.product(x)
    if result.count(-1) > 1:
        raise IllegalShape("more than one size is -1")
    if -1 in result:
        at = result.index(-1)
        others = dims.product(result[:at] + result[at + 1 :])
        result[at] = _rest(whole, others)
    else:
        _same_count(whole, dims.product(result))
    return tuple(result)


def _rest(whole: Dim, others: Dim) -> Dim:
    if others == 0:
        raise IllegalShape("the size that is -1 is not determined: another one is 0")
    if isinstance(whole, int) and isinstance(others, int) and whole % others:
        raise IllegalShape(f"{whole} elements do not divide into parts of {others}")
    return dims.floordiv(whole, others)


def _same_count(a: Dim, b: Dim) -> None:
    gap = a - b
    if isinstance(gap, int) and gap != 0:
        raise IllegalShape(f"{a} elements cannot become {b} elements")


def _signed(name: str) -> bool:
    return dims.bounds(dims.symbol(name))[0] < 0


@infers("Slice")
def slice_(c: ShapeContext) -> list[Tensor]:
    x = list(c.shape(0))
    starts, ends = c.values(1), c.values(2)
    axes = c.axes(c.constants(3, "axes"), len(x)) if c.has(3) else list(range(len(starts)))
    steps = c.constants(4, "steps") if c.has(4) else [1] * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps) or len(axes) > len(x):
        raise IllegalShape(f"{len(starts)} starts, {len(ends)} ends, {len(axes)} axes, {len(steps)} steps "
                           f"for a rank-{len(x)} tensor")  # fmt: skip
    for axis, start, end, step in zip(axes, starts, ends, steps, strict=True):
        x[axis] = slice_range(x[axis], start, end, step)[1]
    return [Tensor(c.elem(0), tuple(x))]


def slice_range(size: Dim, start: Dim, end: Dim, step: int) -> tuple[Dim, Dim]:
    """The first index and the number of elements that start:end:step takes of `size`."""
    if step == 0:
        raise IllegalShape("a step is 0")
    if step > 0:
        first, past = _place(start, size, size), _place(end, size, size)
        return first, dims.max(0, dims.ceildiv(past - first, step))
    last = size - 1
    first, past = dims.min(_place(start, size, last), last), _place(end, size, last, -1)
    return first, dims.max(0, dims.ceildiv(first - past, -step))


def _place(index: Dim, size: Dim, high: Dim, low: Dim = 0) -> Dim:
    """`index`, counted from the end if negative, between `low` and `high`."""
    if isinstance(index, int) and not isinstance(size, int):
        if index >= _FAR:
            return high
        if index <= -_FAR:
            return low
    if dims.nonnegative(index):
        place = index
    elif dims.nonnegative(-index - 1):
        place = index + size
    else:
        place = index + size * dims.min(1, dims.max(0, -index))
    return dims.max(low, dims.min(place, high))
