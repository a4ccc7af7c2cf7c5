"""Kernels that take turns: whatever pieces threads take, what a kernel reads is there, and buffers are large enough."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from onnxc.passes.band_plan import BandPlan, Step, band_plan
from onnxc.passes.kernels.row_order import RowOrder

PLENTY = 1 << 40


@st.composite
def chains(draw: st.DrawFn) -> list[RowOrder]:
    """Two to four kernels; each reads the one before by rows, and has units of its own cut."""
    images, height, width = draw(st.integers(1, 3)), draw(st.integers(1, 20)), draw(st.integers(1, 5))
    found: list[RowOrder] = []
    for _ in range(draw(st.integers(2, 4))):
        window, stride, dilation = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
        reach = (window - 1) * dilation + 1
        pad, behind = draw(st.integers(0, reach)), draw(st.integers(0, reach))
        out_height = (height + pad + behind - reach) // stride + 1
        if out_height < 1:
            window, stride, dilation, pad, out_height = 1, 1, 1, 0, height
        out_width = draw(st.integers(1, 5))
        pixels = images * out_height * out_width
        cuts = draw(st.lists(st.integers(1, pixels - 1), unique=True, max_size=30)) if pixels > 1 else []
        bounds, units = (0, *sorted(cuts), pixels), draw(st.integers(1, 3))
        found.append(
            RowOrder(0, bounds, units, images, height, width, out_height, out_width, window, stride, dilation, pad)
        )
        height, width = out_height, out_width
    return found


def read_rows(order: RowOrder, pixel: int) -> set[int]:
    """The rows of x that a pixel of the result is made from, straight from the definition of a window."""
    image, row = divmod(pixel // order.out_width, order.out_height)
    taps = (row * order.stride - order.pad + tap * order.dilation for tap in range(order.window))
    return {image * order.height + tap for tap in taps if 0 <= tap < order.height}


class Thread:
    """Runs bands as the stub does; its buffers hold, by byte, which pixel lies there."""

    def __init__(self, orders: Sequence[RowOrder], widths: Sequence[int], plan: BandPlan) -> None:
        self.orders, self.widths, self.plan = orders, widths, plan
        self.buffers: list[dict[int, int]] = [{} for _ in widths]
        self.next = 0
        self.done: list[int] = []  # units of the last kernel

    def run(self, band: int) -> None:
        now = self.plan.steps[band]
        before = self.plan.steps[band - 1] if band and self.next == band else None
        for i, (order, step) in enumerate(zip(self.orders, now, strict=True)):
            if before and i < len(self.widths):
                self.move(i, before[i], step)
            for unit in range(max(before[i].end, step.fresh) if before else step.fresh, step.end):
                self.run_unit(i, order, unit, now)
        self.next = band + 1

    def move(self, i: int, before: Step, now: Step) -> None:
        by, kept = now.base - before.base, before.top - now.base
        assert by >= 0
        if by and kept > 0:
            self.buffers[i].update({at - by: p for at, p in self.buffers[i].items() if by <= at < by + kept})

    def run_unit(self, i: int, order: RowOrder, unit: int, now: Sequence[Step]) -> None:
        block = unit // order.units
        for pixel in range(order.bounds[block], order.bounds[block + 1]):
            for row in read_rows(order, pixel) if i else ():
                for x in range(row * order.width, (row + 1) * order.width):
                    assert self.buffers[i - 1].get(x * self.widths[i - 1] - now[i - 1].base) == x
            if i < len(self.widths):
                at = pixel * self.widths[i] - now[i].base
                assert at >= 0
                assert at + self.widths[i] <= self.plan.buffers[i]
                self.buffers[i][at] = pixel
        if i == len(self.widths):
            self.done.append(unit)


@given(chains(), st.data())
@settings(max_examples=150)
def test_what_is_read_is_there(orders: list[RowOrder], data: st.DataObject) -> None:
    widths = [data.draw(st.sampled_from([1, 4, 12])) for _ in orders[1:]]
    needed = sum(band_plan(orders, widths, PLENTY).buffers)
    plan = band_plan(orders, widths, data.draw(st.integers(needed // 3, needed)))
    if plan is None:
        return
    count = len(plan.steps)
    cuts = sorted(data.draw(st.sets(st.integers(0, count), max_size=6)) | {0, count})
    pieces = data.draw(st.permutations(list(itertools.pairwise(cuts))))
    threads = [Thread(orders, widths, plan) for _ in range(2)]
    for first, end in pieces:
        thread = data.draw(st.sampled_from(threads))
        for band in range(first, end):
            thread.run(band)
    done = sorted(unit for thread in threads for unit in thread.done)
    assert done == list(range(orders[-1].blocks * orders[-1].units))


def test_one_thread_makes_no_row_twice() -> None:
    expand = RowOrder(0, tuple(range(0, 101, 10)), 1, 1, 10, 10, 10, 10)
    rows = RowOrder(0, tuple(range(0, 101, 10)), 1, 1, 10, 10, 10, 10, window=3, pad=1)
    plan = band_plan([expand, rows], [4], PLENTY)
    assert [step.end for step, _ in plan.steps] == [2, 3, 4, 5, 6, 7, 8, 9, 10, 10]
    assert [step.fresh for step, _ in plan.steps] == [0, 0, 1, 2, 3, 4, 5, 6, 7, 8]
    assert plan.buffers == (384,)  # three times what a band reads: three rows of 40 bytes; the end in whole lines


def test_none_where_buffers_are_too_large() -> None:
    whole = RowOrder(0, (0, 100), 1, 1, 10, 10, 10, 10)
    rows = RowOrder(0, tuple(range(0, 101, 10)), 1, 1, 10, 10, 10, 10)
    assert band_plan([whole, rows], [4], 447) is None
    assert band_plan([whole, rows], [4], 448).buffers == (448,)
