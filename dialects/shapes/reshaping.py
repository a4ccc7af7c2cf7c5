"""This file infers shapes of Reshape and Slice, whose operands hold shapes and places."""

from __future__ import annotations

from collections.abc import Callable

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
    result = reshaped(c, x, entries, bool(c.attr("allowzero", 0)))
    return [Tensor(c.elem(0), result)]


def reshaped(c: ShapeContext, x: tuple[Dim, ...], entries: tuple[Dim, ...], allow_zero: bool) -> tuple[Dim, ...]:
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
        result[at] = _rest(c, whole, others)
    else:
        c.same(whole, dims.product(result), "the numbers of elements before and after")
    return tuple(result)


def _rest(c: ShapeContext, whole: Dim, others: Dim) -> Dim:
    if others == 0:
        raise IllegalShape("the size that is -1 is not determined: another one is 0")
    rest = dims.floordiv(whole, others)
    if rest * others != whole:
        c.require(">=", others, 1, "the product of the other sizes")
    c.same(rest * others, whole, f"{whole} elements in parts of {others}")
    return rest


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
        x[axis] = slice_range(x[axis], start, end, step, c.is_size)[1]
    return [Tensor(c.elem(0), tuple(x))]


def slice_range(
    size: Dim, start: Dim, end: Dim, step: int, is_size: Callable[[Dim], bool] = dims.nonnegative
) -> tuple[Dim, Dim]:
    """The first index and the number of elements that start:end:step takes of `size`."""
    if step == 0:
        raise IllegalShape("a step is 0")
    if step > 0:
        first, past = (_place(index, size, size, 0, is_size) for index in (start, end))
        if first == 0:  # nothing is cut off in front, and `past` is not negative
            return 0, dims.ceildiv(past, step)
        return first, dims.max(0, dims.ceildiv(past - first, step))
    last = size - 1
    first, past = dims.min(_place(start, size, last, 0, is_size), last), _place(end, size, last, -1, is_size)
    return first, dims.max(0, dims.ceildiv(first - past, -step))


def _place(index: Dim, size: Dim, high: Dim, low: int, is_size: Callable[[Dim], bool]) -> Dim:
    """`index`, counted from the end if negative, between `low` and `high`; `size` itself is not negative."""
    if isinstance(index, int) and not isinstance(size, int):
        if index >= _FAR:
            return high
        if index <= -_FAR:
            return low
    if is_size(index):
        place = index
        if place == 0 and low == 0 and high is size:
            return 0
        if high is size:
            return dims.min(place, high)
    elif dims.nonnegative(-index - 1):
        place = index + size
    else:
        place = index + size * dims.min(1, dims.max(0, -index))
    return dims.max(low, dims.min(place, high))
