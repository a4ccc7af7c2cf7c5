"""Gathering the windows of pixels: line after line of (tap, channel) terms, zeros where a window reaches beyond x.

Whole vectors are stored, so that a run's last one may overwrite what follows: the next run comes after it, and behind
the last line there is room.
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith, vector

from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels import pointers
from onnxc.passes.kernels.builder import Buffer, KernelBuilder
from onnxc.passes.kernels.contraction import Arithmetic
from onnxc.passes.kernels.conv_problem import Conv

SLACK = 64  # elements behind the last line: a vector at least
PAGE = 1024  # elements; lines that far apart would share the sets of a cache


def line_length(terms: int) -> int:
    """Elements from one pixel's line of so many terms to the next."""
    return terms + 16 if terms % PAGE == 0 else terms


def gathered_size(terms: int, rows: int) -> int:
    """Elements that hold so many lines."""
    return rows * line_length(terms) + SLACK


class WindowGather:
    """Emits the copying; made where the kernel's function begins."""

    def __init__(self, b: KernelBuilder, p: Conv, sums: Arithmetic):
        self.b, self.p, self.sums = b, p, sums
        self.x = b.inputs[p.op.operands[0]]
        self.size, self.out = [b.dim(d) for d in p.size], [b.dim(d) for d in (p.images, *p.out)]
        self.joined = p.dilations[-1] == 1  # the taps of a row are one run of x
        self.run = p.kernel[-1] * p.channels if self.joined else p.channels
        self.base = pointers.pointer(self.x.memory)
        self.zeros = pointers.zeros(b, self.x, self.run) if p.padded else None

    def copy(self, first: im.Index, last: im.Index, out: Buffer) -> None:
        """The windows of pixels `first` … `last` - 1 become the first lines of `out`."""
        p, b = self.p, self.b
        with b.loop(first, last) as pixel:
            image, *place = im.unflattened(pixel, self.out)
            corner = [im.sub(im.mul(o, s), pad) for o, s, pad in zip(place, p.strides, p.pads, strict=True)]
            line = im.mul(im.sub(pixel, first), out.strides[0])
            with b.loop(0, p.taps // p.kernel[-1]) as lead:
                taps = im.unflattened(lead, p.kernel[:-1])
                at = [im.add(c, im.mul(t, d)) for c, t, d in zip(corner, taps, p.dilations, strict=False)]
                row, inside = image, True
                for i, extent in zip(at, self.size, strict=False):
                    row = im.add(im.mul(row, extent), i)
                    inside = im.both(inside, self._within(i, extent))
                self._row(row, inside, corner[-1], im.add(line, im.mul(lead, p.kernel[-1] * p.channels)), out)

    def _row(self, row: im.Index, inside: bool | ir.Value, left: im.Index, target: im.Index, out: Buffer) -> None:
        """A row of taps from column `left` of x's row number `row`."""
        p, b = self.p, self.b
        start = im.mul(row, self.size[-1])
        if self.joined:
            reach = im.add(left, p.kernel[-1] - 1)
            whole = im.both(im.compare(left, ">=", 0), im.compare(reach, "<", self.size[-1])) if p.padded else True
            with b.when(whole):
                self._copy_run(self._pointer(im.add(start, left), inside), target, out)
            if whole is True:
                return
            with b.when(im.negate(whole)):
                self._taps(start, inside, left, target, out)
            return
        self._taps(start, inside, left, target, out)

    def _taps(self, start: im.Index, inside: bool | ir.Value, left: im.Index, target: im.Index, out: Buffer) -> None:
        p = self.p
        with self.b.loop(0, p.kernel[-1]) as tap:
            column = im.add(left, im.mul(tap, p.dilations[-1]))
            there = im.both(inside, self._within(column, self.size[-1]))
            source = self._pointer(im.add(start, column), there)
            self._copy_run(source, im.add(target, im.mul(tap, p.channels)), out, p.channels)

    def _within(self, i: im.Index, extent: im.Index) -> bool | ir.Value:
        return im.within(i, extent) if self.p.padded else True

    def _pointer(self, pixel: im.Index, inside: bool | ir.Value) -> ir.Value:
        found = pointers.advance(self.base, im.mul(pixel, self.p.channels), self.x.elem)
        return found if inside is True else arith.select(inside, found, self.zeros)

    def _copy_run(self, source: ir.Value, target: im.Index, out: Buffer, count: int | None = None) -> None:
        count, lanes = count or self.run, self.sums.lanes
        whole = count // lanes * lanes

        def move(i: im.Index, mask: ir.Value | None) -> None:
            v = pointers.load_vector(pointers.advance(source, i, self.x.elem), lanes, self.x.elem, mask)
            out.store_vector(v, im.add(target, i))

        if whole > 4 * lanes:
            with self.b.loop(0, whole, lanes) as i:
                move(i, None)
        else:
            for i in range(0, whole, lanes):
                move(i, None)
        if whole < count:
            type_ = ir.VectorType.get([lanes], ir.IntegerType.get_signless(1))
            move(whole, vector.create_mask(type_, [im.value(count - whole)]))
