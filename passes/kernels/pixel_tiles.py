"""Row tiles of pixels: the loops of a channels-last convolution, as a matmul whose rows are gathered by tap.

No im2col and no padded copy: a row of the register tile is a pointer per tap, to zeros where the tap is in the padding
(adding 0·w changes no bit). An element is summed in the order (taps, channel), in blocks of whole taps of at most 512
terms, or of 512 channels where one tap has more.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mlir import ir
from mlir.dialects import arith

from onnxc.dialects import dims
from onnxc.passes.kernels import contraction, pointers, prefetching, scalars
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.contraction import BLOCK, Arithmetic
from onnxc.passes.kernels.conv_problem import Conv, Pixels, pixels_of
from onnxc.passes.kernels.evaluate import Evaluator, Lanes
from onnxc.passes.kernels.packing import place_in_panel
from onnxc.passes.kernels.register_tiles import TileColumns


@dataclass(frozen=True)
class ConvSchedule(TileColumns):
    """Register tile `rows` pixels × `vectors` of `lanes` filters; `group` row tiles a unit; `packed`: weights in
    panels; `prefetch`: how far ahead they are asked for (prefetching.Panels.ask); `panel`: the columns of a panel,
    0: the tile's; `unroll`, `order`, `apart`: as MatmulSchedule's."""

    rows: int
    vectors: int
    lanes: int
    group: int
    packed: int = 0
    prefetch: int = 0
    algorithm: str = "direct"
    panel: int = 0
    unroll: int = 1
    order: str = "rows"
    apart: int = 0


def pixel_grid(p: Conv, s: ConvSchedule) -> tuple[dims.Dim, dims.Dim, dims.Dim]:
    tiles = contraction.tile_count(p.pixels, s.rows)
    return (tiles + (s.group - 1)) // s.group, (p.filters + (s.width - 1)) // s.width, tiles


def pixel_bounds(p: Conv, s: ConvSchedule) -> list[int]:
    """The pixels, of a known number, at which blocks of row tiles begin (see contraction.row_tiles), and the end."""
    tiles = contraction.tile_count(p.pixels, s.rows)
    small, extra = divmod(p.pixels, tiles)
    return [*(tile * small + min(tile, extra) for tile in range(0, tiles, s.group)), p.pixels]


class PixelTiles:
    """Emits a convolution (or what can be told as one) over channels-last tensors."""

    def __init__(self, b: KernelBuilder, p: Conv, s: ConvSchedule):
        self.b, self.p, self.s = b, p, s
        self.sums = Arithmetic(p.elem, contraction.arithmetic(p.elem, b.target).compute, s.lanes, b.target.has_fma)
        self.ev = Evaluator(b)
        self.one_axis = contraction.rows_are_one_axis(b.kernel)
        self.x, self.w = b.inputs[p.op.operands[0]], b.inputs[p.op.operands[1]]
        self.groups, self.panels, self.tiles = (b.dim(d) for d in pixel_grid(p, s))
        self.shares = im.minimum(s.group, im.maximum(self.tiles, 1))
        self.channels, self.filters, self.pixels = b.dim(p.channels), b.dim(p.filters), b.dim(p.pixels)
        self.row = b.dim(p.row)
        self.size = [b.dim(d) for d in p.size]
        self.exact = dims.mod(p.filters, s.width) == 0
        self.room = self.sums.room(s.rows * s.width) if s.apart else None
        pixels_of(b, p, 0, 1)  # emits the dims where they dominate every use
        if not p.dense:
            self.base = pointers.pointer(self.x.memory)
            if p.padded:
                self.zeros = pointers.zeros(b, self.x, p.channels if isinstance(p.channels, int) else 1)

    def run(self) -> None:
        b, p, s = self.b, self.p, self.s
        with b.loop(b.begin, b.end) as unit:
            if s.order == "columns":
                block, rest = im.mod(unit, self.groups), im.floordiv(unit, self.groups)
                panel, group = im.mod(rest, self.panels), im.floordiv(rest, self.panels)
            else:
                panel, rest = im.mod(unit, self.panels), im.floordiv(unit, self.panels)
                group, rest = im.mod(rest, p.group), im.floordiv(rest, p.group)
                block = self._begin(rest)
            first = im.mul(block, s.group)
            last = im.minimum(im.add(first, s.group), self.tiles)
            start = im.mul(panel, s.width)
            self.masks = contraction.column_masks(s.lanes, s.vectors, self.filters, start, self.exact)
            self.lanes = [Lanes(s.lanes, len(p.size) + 1, m) for m in self.masks]
            self.start, self.group_number = start, group
            first_column = im.add(im.mul(group, self.filters), start)
            self.columns = [im.add(first_column, v * s.lanes) for v in range(s.vectors)]
            self.group_start = im.mul(group, self.channels)
            if s.packed:
                number, self.column = place_in_panel(panel, s.line, s.width)
                self.number = im.add(im.mul(group, self.w.shape[1]), number)

            def tile(pixel: im.Index, rows: int) -> None:
                with self.ev.scope():
                    self._tile(pixel, rows)

            contraction.row_tiles(b, self.pixels, s.rows, first, last, tile)

    def _begin(self, unit: im.Index) -> im.Index:
        """The block of row tiles of a unit (less its panel and group)."""
        return unit

    def _tile(self, pixel: im.Index, rows: int) -> None:
        self.pixel, pixels = pixel, pixels_of(self.b, self.p, pixel, rows)
        if self.one_axis:
            pixels = replace(pixels, points=[[*([0] * len(self.p.out)), im.add(pixel, r)] for r in range(rows)])
        if self.p.dense:
            start = im.add(im.mul(pixel, self.row), self.group_start)
            acc = contraction.sum_blocks(
                self.b,
                self.sums,
                rows,
                self.s.vectors,
                self.channels,
                self._dense(start, rows),
                unroll=self.s.unroll,
                ask=self._ask(pixel, 0),
            )
        else:
            acc = self._sum_taps(pixels, rows, pixel)

        self._store(pixels, rows, acc)

    def _store(self, pixels: Pixels, rows: int, acc: Sequence[ir.Value]) -> None:
        @functools.cache
        def place(r: im.Index) -> list[im.Index]:
            if isinstance(r, int):
                return pixels.points[r]
            at = im.add(self.pixel, r)
            return [*([0] * len(self.p.out)), at] if self.one_axis else pixels_of(self.b, self.p, at, 1).points[0]

        def point(r: im.Index, v: int) -> list[im.Index]:
            return [*place(r), self.columns[v]]

        contraction.store_tile(
            self.b,
            self.ev,
            self.p.op.results[0],
            self.lanes.__getitem__,
            point,
            rows,
            self.s.vectors,
            self._element,
            acc,
            self.room,
        )

    def _element(self, point: Sequence[im.Index], lanes: Lanes, total: ir.Value) -> ir.Value:
        return self.p.with_bias(self.ev, self.sums, point[-1], lanes, total)

    def _dense(self, start: im.Index, rows: int):
        weights = self._panel_rows(0)

        def load(k: im.Index):
            at = im.add(start, k)
            pixels = [self.x.load_flat(im.add(at, im.mul(self.row, r))) for r in range(rows)]
            return [self.sums.widen(v) for v in pixels], weights(k)

        return load

    def _sum_taps(self, pixels: Pixels, rows: int, pixel: im.Index) -> list[ir.Value]:
        """Sums over taps and channels, block by block."""
        b, taps, channels = self.b, self.p.taps, self.channels
        count = rows * self.s.vectors
        zeros = [self.sums.zero()] * count
        per_block = self.p.taps_a_block

        def one_tap(tap: im.Index, *acc: ir.Value) -> list[ir.Value]:
            return self._add_tap(pixels, rows, tap, pixel, acc)

        if not isinstance(channels, int) or channels > BLOCK or taps <= per_block:
            return b.reduce(0, taps, 1, zeros, one_tap) if taps > 1 else one_tap(0, *zeros)

        def block(first: ir.Value, *totals: ir.Value) -> list[ir.Value]:
            part = b.reduce(first, im.minimum(im.add(first, per_block), taps), 1, zeros, one_tap)
            return [scalars.add(t, s) for t, s in zip(totals, part, strict=True)]

        return b.reduce(0, taps, per_block, zeros, block)

    def _add_tap(
        self, pixels: Pixels, rows: int, tap: im.Index, pixel: im.Index, acc: Sequence[ir.Value]
    ) -> list[ir.Value]:
        load, ask = self._tap(pixels, rows, tap), self._ask(pixel, tap)
        if not isinstance(self.channels, int) or self.channels > BLOCK:
            more = {"unroll": self.s.unroll, "ask": ask}
            return contraction.sum_blocks(self.b, self.sums, rows, self.s.vectors, self.channels, load, acc, **more)
        more = (load, acc, self.s.unroll, ask)
        return contraction.sum_products(self.b, self.sums, rows, self.s.vectors, 0, self.channels, *more)

    def _tap(self, pixels: Pixels, rows: int, tap: im.Index) -> Callable:
        """load(k) for one tap: a pointer per pixel, to zeros in the padding."""
        position = self._position(tap)
        step: im.Index = self.group_start
        stride: im.Index = self.row
        for i, extent in zip(reversed(position), reversed(self.size), strict=True):
            step = im.add(step, im.mul(i, stride))
            stride = im.mul(stride, extent)
        starts, insides = [], []
        for r in range(rows):
            start = pointers.advance(self.base, im.add(pixels.offsets[r], step), self.x.elem)
            inside: bool | ir.Value = True
            for corner, i, extent in zip(pixels.corners[r], position, self.size, strict=True) if self.p.padded else ():
                inside = im.both(inside, _unsigned_less(im.add(corner, i), extent))
            insides.append(True if isinstance(self.channels, int) else inside)
            if isinstance(inside, bool):
                starts.append(start if inside else self.zeros)
            else:
                starts.append(arith.select(inside, start, self.zeros))
        weights = self._panel_rows(tap)

        def load(k: im.Index):
            # of channels not counted there is one zero for all
            places = [(start, im.select(inside, k, 0)) for start, inside in zip(starts, insides, strict=True)]
            return [self.sums.widen(pointers.load(*place, self.x.elem)) for place in places], weights(k)

        return load

    def _position(self, tap: im.Index) -> list[im.Index]:
        """Where the tap lies in x, from a pixel's corner."""
        return [im.mul(i, d) for i, d in zip(im.unflattened(tap, self.p.kernel), self.p.dilations, strict=True)]

    def _ask(self, pixel: im.Index, tap: im.Index) -> contraction.Ask | None:
        """Asks for weights ahead of a step of this tap's terms."""
        s, w = self.s, self.w
        if not (s.packed and s.prefetch):
            return None
        panel = im.add(im.mul(self.number, w.strides[1]), self.column)
        number = im.mod(im.floordiv(pixel, s.rows), s.group)
        stream = prefetching.Panels(w, panel, w.strides[1], s.width, im.mul(self.channels, self.p.taps), self.b)
        before = im.mul(tap, self.channels)
        return lambda k, terms: stream.ask(s.prefetch, self.shares, number, im.add(before, k), terms)

    def _panel_rows(self, tap: im.Index) -> Callable[[im.Index], list[ir.Value]]:
        """(k) → the vectors of the weights' row k of this tap."""
        s, w = self.s, self.w
        if not s.packed:
            return self._unpacked(tap)
        panel = im.add(im.mul(self.number, w.strides[1]), self.column)
        first = im.add(panel, im.mul(tap, w.strides[2]))

        def packed(k: im.Index) -> list[ir.Value]:
            row = im.add(first, im.mul(k, s.line))
            return [self.sums.widen(w.load_vector(im.add(row, v * s.lanes), s.lanes)) for v in range(s.vectors)]

        return packed

    def _unpacked(self, tap: im.Index) -> Callable[[im.Index], list[ir.Value]]:
        """The same from weights [taps, channels, groups · filters]."""
        width = im.mul(self.filters, self.p.group)
        first = im.mul(tap, im.mul(self.channels, width))

        def plain(k: im.Index) -> list[ir.Value]:
            row = im.add(first, im.mul(k, width))
            return [
                self.sums.widen(self.w.load_vector(im.add(row, c), self.s.lanes, m))
                for c, m in zip(self.columns, self.masks, strict=True)
            ]

        return plain


def _unsigned_less(i: im.Index, extent: im.Index) -> bool | ir.Value:
    """0 ≤ i < extent in one comparison."""
    if isinstance(i, int) and isinstance(extent, int):
        return 0 <= i < extent
    return im.within(i, extent)
