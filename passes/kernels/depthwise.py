"""Convolution with one channel and one filter a group: vectors run over channels, a tile over pixels of one row.

Loops: row → block of pixels → vector of channels → taps. That order keeps the input rows in cache (channels outside the
pixels cost up to 1.9×). A column of x is loaded once for all pixels of the block that it touches. Taps outside x are
left out, which changes no bit. Same order of summation as conv.py: taps in row-major order, in blocks
(Conv.taps_a_block).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace

from mlir import ir
from mlir.dialects import arith, vector

from onnxc.dialects import dims
from onnxc.passes.kernels import contraction, pointers, scalars
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.contraction import Arithmetic
from onnxc.passes.kernels.conv_problem import Conv
from onnxc.passes.kernels.evaluate import Evaluator, Lanes
from onnxc.passes.kernels.kernel_function import ELEMENT, MULTIPLY_ADD, KernelFunction, Launch
from onnxc.passes.kernels.row_order import RowOrder
from onnxc.passes.kernels.schedule_space import distinct

PIXELS = 8  # 4 to 8 are within 5 % of each other
MOST_UNROLLED = 49  # taps of a row; a longer row is a loop over runs
RUN = 16  # taps of such a run, at most


@dataclass(frozen=True)
class DepthwiseSchedule:
    """`pixels` of a row a tile, channels in vectors of `lanes`."""

    pixels: int
    lanes: int
    algorithm: str = "depthwise"


def applies(p: Conv) -> bool:
    """A block of terms ends with an index of the window's first axis (Conv.taps_a_block), if it is not the only one."""
    whole = p.taps <= contraction.BLOCK or (dims.product(p.kernel[1:]) <= contraction.BLOCK and len(p.kernel) > 1)
    return p.channels == 1 and p.filters == 1 and p.group > 1 and whole and not p.dense


def choose(p: Conv, target) -> dict[str, int | str]:
    sums = contraction.arithmetic(p.elem, target)
    pixels = PIXELS if target.vector_registers >= 32 else 4
    return asdict(DepthwiseSchedule(pixels, sums.lanes))


def candidates(p: Conv, target) -> list[dict[str, int | str]]:
    """Other numbers of pixels, and narrower vectors."""
    first = choose(p, target)
    most = target.vector_registers * 3 // 4
    pixels = [first | {"pixels": n} for n in (4, 6, 8, 12, 16, 2, 14, 7) if n <= most]
    narrow = [first | {"lanes": first["lanes"] // 2, "pixels": n} for n in (8, 4)] if first["lanes"] >= 8 else []
    return distinct(first, [*pixels, *narrow])


def launch(kernel: KernelFunction) -> Launch:
    p = Conv.of(kernel)
    pixel = p.group * (MULTIPLY_ADD * p.taps + ELEMENT)
    return Launch(p.images * dims.product(p.out[:-1]), pixel * p.out[-1])


def order(kernel: KernelFunction) -> RowOrder | None:
    """A unit is a row."""
    p = Conv.of(kernel)
    width = p.out[-1]
    return p.row_order(kernel, lambda: range(0, p.pixels + 1, width), 1)


def emit(b: KernelBuilder) -> None:
    _Emitter(b, Conv.of(b.kernel), DepthwiseSchedule(**b.kernel.schedule)).run()


@dataclass(frozen=True)
class _Tile:
    """`count` pixels of a row, whose taps begin on x's column `left`, and a vector of channels; `edge`: taps may lie
    beside the row."""

    count: int
    left: im.Index
    edge: bool
    channel: im.Index
    mask: ir.Value | None


class _Emitter:
    def __init__(self, b: KernelBuilder, p: Conv, s: DepthwiseSchedule):
        self.b, self.p, self.s = b, p, s
        self.sums = Arithmetic(p.elem, contraction.arithmetic(p.elem, b.target).compute, s.lanes, b.target.has_fma)
        self.ev = Evaluator(b)
        self.x, self.w = b.inputs[p.op.operands[0]], b.inputs[p.op.operands[1]]
        self.size, self.out = [b.dim(d) for d in p.size], [b.dim(d) for d in p.out]
        self.base = pointers.pointer(self.x.memory)
        if p.padded or not isinstance(p.out[-1], int):
            self.zeros = pointers.zeros(b, self.x, p.group)

    def run(self) -> None:
        b, p = self.b, self.p
        with b.loop(b.begin, b.end) as row:
            self.outer = im.unflattened(row, [b.dim(p.images), *self.out[:-1]])
            self.corner = [
                im.sub(im.mul(o, s), pad) for o, s, pad in zip(self.outer[1:], p.strides, p.pads, strict=False)
            ]
            tiles = b.dim(contraction.tile_count(p.out[-1], self.s.pixels))
            contraction.row_tiles(b, self.out[-1], self.s.pixels, 0, tiles, self._pixels)

    def _pixels(self, first: im.Index, count: int) -> None:
        """One block of pixels: without tests where all its taps lie inside x's row."""
        p = self.p
        left = im.sub(im.mul(first, p.strides[-1]), p.pads[-1])
        reach = (count - 1) * p.strides[-1] + (p.kernel[-1] - 1) * p.dilations[-1]
        inside = (
            im.both(im.compare(left, ">=", 0), im.compare(im.add(left, reach), "<", self.size[-1]))
            if p.padded
            else True
        )
        if isinstance(inside, bool):
            self._channels(first, count, left, not inside)
            return
        with self.b.when(inside):
            self._channels(first, count, left, False)
        with self.b.when(im.negate(inside)):
            self._channels(first, count, left, True)

    def _channels(self, first: im.Index, count: int, left: im.Index, edge: bool) -> None:
        lanes, channels = self.s.lanes, self.p.group
        whole = channels // lanes * lanes
        if whole:
            with self.b.loop(0, whole, lanes) as c, self.ev.scope():
                self._tile(first, _Tile(count, left, edge, c, None))
        if whole < channels:
            type_ = ir.VectorType.get([lanes], ir.IntegerType.get_signless(1))
            with self.ev.scope():
                mask = vector.create_mask(type_, [im.value(channels - whole)])
                self._tile(first, _Tile(count, left, edge, whole, mask))

    def _tile(self, first: im.Index, tile: _Tile) -> None:
        acc = self._taps([], [], [self.sums.zero()] * tile.count, tile)
        lanes = Lanes(self.s.lanes, len(self.p.size) + 1, tile.mask)

        def point(r: int, _v: int) -> list[im.Index]:
            return [*self.outer, im.add(first, r), tile.channel]

        contraction.store_tile(
            self.b, self.ev, self.p.op.results[0], lambda _: lanes, point, tile.count, 1, self._element, acc
        )

    def _element(self, point: Sequence[im.Index], lanes: Lanes, total: ir.Value) -> ir.Value:
        return self.p.with_bias(self.ev, self.sums, point[-1], lanes, total)

    def _taps(self, position: list[im.Index], at: list[im.Index], acc: list[ir.Value], tile: _Tile) -> list[ir.Value]:
        """A loop per axis of the window over the taps inside x; the last axis is unrolled, as a whole or in runs."""
        p, axis = self.p, len(position)
        if axis == len(p.size) - 1:
            return self._row_of_taps(position, at, acc, tile)
        corner, step, extent = self.corner[axis], p.dilations[axis], p.kernel[axis]
        low: im.Index = 0
        high: im.Index = extent
        if p.padded:
            low = im.ceildiv(im.maximum(im.sub(0, corner), 0), step)
            high = im.minimum(extent, im.ceildiv(im.maximum(im.sub(self.size[axis], corner), 0), step))

        def one(i: im.Index, *carried: ir.Value) -> list[ir.Value]:
            place = [*at, im.add(corner, im.mul(i, step))]
            return self._taps([*position, i], place, list(carried), tile)

        if axis or p.taps <= contraction.BLOCK:
            return self.b.reduce(low, high, 1, acc, one)
        length = p.taps_a_block // (p.taps // extent)

        def block(first: im.Index, *totals: ir.Value) -> list[ir.Value]:
            start, end = im.maximum(low, first), im.minimum(high, im.add(first, length))
            part = self.b.reduce(start, end, 1, [self.sums.zero()] * tile.count, one)
            return [scalars.add(t, s) for t, s in zip(totals, part, strict=True)]

        return self.b.reduce(0, extent, length, acc, block)

    def _row_of_taps(
        self, position: list[im.Index], at: list[im.Index], acc: list[ir.Value], tile: _Tile
    ) -> list[ir.Value]:
        taps = self.p.kernel[-1]

        def run(first: im.Index, length: int, acc: list[ir.Value]) -> list[ir.Value]:
            start = im.add(tile.left, im.mul(first, self.p.dilations[-1]))
            return self._run_of_taps([*position, first], at, acc, replace(tile, left=start), length)

        if taps <= MOST_UNROLLED:
            return run(0, taps, acc)
        length = -(-taps // -(-taps // RUN))
        whole = taps // length * length
        acc = self.b.reduce(0, whole, length, acc, lambda first, *carried: run(first, length, list(carried)))
        return run(whole, taps - whole, acc) if whole < taps else acc

    def _run_of_taps(
        self, position: list[im.Index], at: list[im.Index], acc: list[ir.Value], tile: _Tile, length: int
    ) -> list[ir.Value]:
        """`length` taps of a row from `position` on, the first of which lies on the tile's column of x."""
        p, w = self.p, self.w
        row = self.outer[0]
        for i, extent in zip([*at, 0], self.size, strict=True):
            row = im.add(im.mul(row, extent), i)
        row_start = im.add(im.mul(im.add(row, tile.left), p.row), tile.channel)
        tap_row: im.Index = 0
        for i, extent in zip(position, p.kernel, strict=True):
            tap_row = im.add(im.mul(tap_row, extent), i)
        columns: dict[int, ir.Value] = {}
        after = list(acc)
        for tap in range(length):
            weight = w.load_vector(im.add(im.mul(im.add(tap_row, tap), p.group), tile.channel), self.s.lanes, tile.mask)
            weight = self.sums.widen(weight)
            for pixel in range(tile.count):
                column = pixel * p.strides[-1] + tap * p.dilations[-1]
                if column not in columns:
                    columns[column] = self.sums.widen(self._column(row_start, column, tile))
                after[pixel] = self.sums.multiply_add(columns[column], weight, after[pixel])
        return after

    def _column(self, row_start: im.Index, column: int, tile: _Tile) -> ir.Value:
        """A vector of channels of x's pixel `column` to the right of the block's first tap; zeros outside x."""
        place = im.add(row_start, column * self.p.row)
        if not tile.edge:
            return self.x.load_vector(place, self.s.lanes, tile.mask)
        inside = im.within(im.add(tile.left, column), self.size[-1])
        start = pointers.advance(self.base, place, self.x.elem)
        start = arith.select(inside, start, pointers.advance(self.zeros, tile.channel, self.x.elem))
        return pointers.load_vector(start, self.s.lanes, self.x.elem, tile.mask)
