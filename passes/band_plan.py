"""This file plans how kernels that follow each other take turns: which units each of them runs in every band.

A band is a run of blocks of the last kernel's result. Before it, the kernels in front run what it reads and is not yet
there. What they make lies in a buffer for a part of the rows: a byte of the result stands `base` bytes further in
front, and `base` grows from band to band; where the buffer would end, what is still to be read moves to its beginning.
The numbers are read by runtime_stub/bands.c.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onnxc.passes.kernels.row_order import RowOrder

ALIGNMENT = 64
MOST_BANDS = 64  # enough for an even split over many threads
ROOM = 3  # buffers: so many times what a band needs at once, so that little has to move


@dataclass(frozen=True)
class Step:
    """A kernel's part of a band: units `fresh` … `end` - 1, less those that the band before has run, where that was
    this thread's. Its buffer begins with byte `base` of its result; byte `top` is the first not made yet."""

    fresh: int
    end: int
    base: int
    top: int


@dataclass(frozen=True)
class BandPlan:
    """`steps`: a row a band, with a step for each kernel; `buffers`: bytes of each result but the last one's."""

    steps: tuple[tuple[Step, ...], ...]
    buffers: tuple[int, ...]


def band_plan(orders: Sequence[RowOrder], widths: Sequence[int], room: int) -> BandPlan | None:
    """For kernels each of which reads the one before: `widths` are the bytes of a pixel of each result but the last.

    None where the buffers would take more than `room` bytes.
    """
    plan = _plan(orders, widths, min(orders[-1].blocks, MOST_BANDS), room)
    return plan if sum(plan.buffers) <= room else None


def _plan(orders: Sequence[RowOrder], widths: Sequence[int], count: int, room: int) -> BandPlan:
    last = orders[-1].blocks
    ends = [last * (band + 1) // count for band in range(count)]
    ranges = _ranges(orders, ends)
    live = [max(order.bounds[end] - order.bounds[first] for first, end in column) * width
            for order, width, column in zip(orders, widths, zip(*ranges, strict=True), strict=False)]  # fmt: skip
    spare = max(1, min(ROOM, room // max(1, sum(live))))
    buffers = [-(-bytes_ * spare // ALIGNMENT) * ALIGNMENT for bytes_ in live]
    return BandPlan(_steps(orders, widths, ranges, buffers), tuple(buffers))


Ranges = list[list[tuple[int, int]]]


def _ranges(orders: Sequence[RowOrder], ends: Sequence[int]) -> Ranges:
    """For each band and kernel the blocks [first, end) that the band needs; neither ever goes back."""
    found: Ranges = []
    begin = 0
    for end in ends:
        band = [(begin, end)]
        for behind, order in zip(reversed(orders), reversed(orders[:-1]), strict=False):
            first, stop = band[0]
            low, high = behind.reads(behind.bounds[first], behind.bounds[stop]) if first < stop else (0, 0)
            blocks = (order.block_of(low), order.blocks_for(high)) if low < high else (0, 0)
            if found:
                before = found[-1][len(orders) - len(band) - 1]
                blocks = (max(blocks[0], before[0]), max(blocks[1], before[1]))
            band.insert(0, (min(blocks), blocks[1]))
        found.append(band)
        begin = end
    return found


def _steps(
    orders: Sequence[RowOrder], widths: Sequence[int], ranges: Ranges, buffers: Sequence[int]
) -> tuple[tuple[Step, ...], ...]:
    found: list[tuple[Step, ...]] = []
    for band in ranges:
        steps = []
        for i, (order, (first, end)) in enumerate(zip(orders, band, strict=True)):
            base = top = 0
            if i < len(buffers):
                start, top = order.bounds[first] * widths[i], order.bounds[end] * widths[i]
                base = found[-1][i].base if found else start
                base = base if top - base <= buffers[i] else start
            steps.append(Step(first * order.units, end * order.units, base, top))
        found.append(tuple(steps))
    return tuple(found)
