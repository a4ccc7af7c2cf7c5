"""Kernel kind `im2col`: a convolution as a matrix product over gathered windows, a block of pixels at a time.

    kernel.im2col(x, w [K, C, M], scratch [pieces, size], bias?) {strides, dilations, pads, group = 1, rows}
A unit takes a span of blocks of at most `rows` pixels, and a slice of the filters. For each block it copies the pixels'
windows to its piece of the scratch, a line of (tap, channel) terms a pixel, zeros for the padding, and multiplies the
lines with the weights' panels: the innermost loop has nothing but loads at constant distances, and no end where a tap
ends. It pays where taps have few channels, so that pixel_tiles.py has new pointers every few terms, and filters are
many.
Same bits as the direct kernel: the same order of summation, in its blocks of whole taps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from mlir import ir

from onnxc.dialects import dims
from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import contraction, pointers, prefetching, scalars
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels.builder import Buffer, KernelBuilder
from onnxc.passes.kernels.contraction import BLOCK, Arithmetic
from onnxc.passes.kernels.conv_problem import Conv
from onnxc.passes.kernels.evaluate import Evaluator, Lanes
from onnxc.passes.kernels.filter_panels import filter_panels
from onnxc.passes.kernels.gather import WindowGather, line_length
from onnxc.passes.kernels.kernel_function import MULTIPLY_ADD, KernelFunction, Launch
from onnxc.passes.kernels.packing import Packing
from onnxc.passes.kernels.register_tiles import Product, TileColumns, best_tile, terms_a_step
from onnxc.passes.kernels.schedule_space import tile_space
from onnxc.passes.kernels.scratch_pieces import BIAS, PIECES, SCRATCH, split

LEAST_FILTERS = 64  # of a slice: each slice copies the windows anew


@dataclass(frozen=True)
class Im2colSchedule(TileColumns):
    """Register tile `rows` pixels × `vectors` of `lanes` filters; `group` row tiles a block, `slices` of the filters;
    `prefetch`: how far ahead weights are asked for (prefetching.Panels.ask)."""

    rows: int
    vectors: int
    lanes: int
    group: int
    slices: int
    prefetch: int
    packed: int = 1


@dataclass(frozen=True)
class Grid:
    """The units: spans of blocks × slices of panels."""

    tiles: dims.Dim
    blocks: dims.Dim
    span: dims.Dim  # blocks a unit
    spans: dims.Dim
    panels: int
    share: int  # panels a slice

    @classmethod
    def of(cls, p: Conv, s: Im2colSchedule) -> Grid:
        tiles = contraction.tile_count(p.pixels, s.rows)
        blocks = (tiles + (s.group - 1)) // s.group
        spans, span = split(blocks, PIECES // s.slices)
        panels = -(-p.filters // s.width)
        return cls(tiles, blocks, span, spans, panels, -(-panels // s.slices))


def choose(kernel: KernelFunction, target) -> dict[str, int | str]:
    p = Conv.of(kernel)
    sums = contraction.arithmetic(p.elem, target)
    terms = p.taps * p.channels
    apart = line_length(terms) * scalars.byte_width(p.elem)
    product = Product(p.pixels, p.filters, sums.lanes, terms, row_bytes=apart, pointers=True)
    rows, vectors, lanes = best_tile(product, target)
    tiles = contraction.tile_count(p.pixels, rows)
    group = max(1, min(kernel.root.attr("rows") // rows, tiles if isinstance(tiles, int) else PIECES))
    if isinstance(tiles, int):
        blocks = -(-tiles // group)
        group = -(-tiles // blocks)
        wanted = -(-PIECES // blocks)
        slices = max(1, min(wanted, p.filters // max(LEAST_FILTERS, vectors * lanes), PIECES))
    else:
        slices = 1
    line = vectors * lanes * scalars.byte_width(p.elem)
    ahead = prefetching.prefetch_distance(group, rows, line, kernel, target)
    return asdict(Im2colSchedule(rows, vectors, lanes, group, slices, ahead))


def candidates(kernel: KernelFunction, target) -> list[dict[str, int | str]]:
    """Other register tiles, blocks and distances, the heuristic's first."""
    p = Conv.of(kernel)
    return tile_space(choose(kernel, target), p.pixels, p.filters, p.taps * p.channels, target)


def packings(kernel: KernelFunction) -> list[Packing]:
    s = Im2colSchedule(**kernel.schedule)
    return [filter_panels(kernel, Conv.of(kernel), s.width)]


def launch(kernel: KernelFunction) -> Launch:
    p, s = Conv.of(kernel), Im2colSchedule(**kernel.schedule)
    grid = Grid.of(p, s)
    block = s.group * s.rows * p.taps * p.channels * grid.share * s.width
    return Launch(grid.spans * s.slices, MULTIPLY_ADD * block * grid.span)


def emit(b: KernelBuilder) -> None:
    _Emitter(b, Conv.of(b.kernel), Im2colSchedule(**b.kernel.schedule)).run()


class _Emitter:
    def __init__(self, b: KernelBuilder, p: Conv, s: Im2colSchedule):
        self.b, self.p, self.s, self.op, self.ev = b, p, s, b.kernel.root, Evaluator(b)
        self.sums = Arithmetic(p.elem, contraction.arithmetic(p.elem, b.target).compute, s.lanes, b.target.has_fma)
        self.w, self.scratch = b.inputs[self.op.operands[1]], b.inputs[self.op.operands[SCRATCH]]
        self.grid = Grid.of(p, s)
        self.tiles, self.blocks, self.span = (b.dim(d) for d in (self.grid.tiles, self.grid.blocks, self.grid.span))
        self.pixels, self.out = b.dim(p.pixels), [b.dim(d) for d in (p.images, *p.out)]
        self.one_axis = contraction.rows_are_one_axis(b.kernel, operands=3)
        self.length = line_length(p.taps * p.channels)
        self.gather = WindowGather(b, p, self.sums)

    def run(self) -> None:
        b, s = self.b, self.s
        piece = self._piece()
        with b.loop(b.begin, b.end) as unit:
            part, span = im.mod(unit, s.slices), im.floordiv(unit, s.slices)
            start = im.mul(span, self.span)
            with b.loop(start, im.minimum(im.add(start, self.span), self.blocks)) as block:
                first = im.mul(block, s.group)
                last = im.minimum(im.add(first, s.group), self.tiles)
                self.first, self.piece = self._pixel(first), piece
                self.gather.copy(self.first, self._pixel(last), piece)
                panel = im.mul(part, self.grid.share)
                with b.loop(panel, im.minimum(im.add(panel, self.grid.share), self.grid.panels)) as panel:
                    self._panel(panel, first, last)

    def _piece(self) -> Buffer:
        """The piece of scratch of the call's first unit."""
        size = Tensor.of(self.op.operands[SCRATCH].type).shape[1]
        memory = pointers.part(self.scratch.memory, im.mul(self.b.begin, size), size)
        return Buffer(memory, self.scratch.elem, [size // self.length, self.length], [self.length, 1])

    def _pixel(self, tile: im.Index) -> im.Index:
        """The first pixel of a row tile (as contraction.row_tiles cuts them)."""
        if not isinstance(self.pixels, int):
            return im.minimum(im.mul(tile, self.s.rows), self.pixels)
        small, extra = divmod(self.pixels, self.grid.tiles)
        return im.add(im.mul(tile, small), im.minimum(tile, extra))

    def _panel(self, panel: im.Index, first: im.Index, last: im.Index) -> None:
        p, s = self.p, self.s
        column = im.mul(panel, s.width)
        masks = contraction.column_masks(s.lanes, s.vectors, p.filters, column, p.filters % s.width == 0)
        lanes = [Lanes(s.lanes, len(p.size) + 1, m) for m in masks]
        start = im.mul(panel, self.w.strides[1])

        def tile(pixel: im.Index, rows: int) -> None:
            with self.ev.scope():
                acc = self._sums(start, pixel, rows)

                def point(r: int, v: int) -> list[im.Index]:
                    at = im.add(pixel, r)
                    place = [*([0] * len(p.out)), at] if self.one_axis else im.unflattened(at, self.out)
                    return [*place, im.add(column, v * s.lanes)]

                contraction.store_tile(
                    self.b, self.ev, self.op.results[0], lanes.__getitem__, point, rows, s.vectors, self._element, acc
                )

        contraction.row_tiles(self.b, self.pixels, s.rows, first, last, tile)

    def _element(self, point: Sequence[im.Index], lanes: Lanes, total: ir.Value) -> ir.Value:
        if len(self.op.operands) > BIAS:
            bias = self.ev.at(self.op.operands[BIAS], (point[-1],), Lanes(lanes.width, 0, lanes.mask))
            total = scalars.add(total, self.sums.widen(bias))
        return self.sums.narrow(total)

    def _sums(self, panel: im.Index, pixel: im.Index, rows: int) -> list[ir.Value]:
        b, p, s = self.b, self.p, self.s
        terms, channels = p.taps * p.channels, p.channels
        line = im.mul(im.sub(pixel, self.first), self.length)
        number = im.floordiv(im.sub(pixel, self.first), s.rows)
        stream = prefetching.Panels(self.w, panel, self.w.strides[1], s.width, terms, b)
        ask = (lambda k, step: stream.ask(s.prefetch, s.group, number, k, step)) if s.prefetch else None
        self.loop = (terms_a_step(channels, rows, s.vectors, b.target), ask)

        def load(k: im.Index):
            at, row = im.add(line, k), im.add(panel, im.mul(k, s.width))
            return (
                [self.sums.widen(self.piece.load_flat(im.add(at, r * self.length))) for r in range(rows)],
                [self.sums.widen(self.w.load_vector(im.add(row, v * s.lanes), s.lanes)) for v in range(s.vectors)],
            )

        if channels <= BLOCK:
            return self._blocks(rows, load, terms, BLOCK // channels * channels)
        zeros = [self.sums.zero()] * (rows * s.vectors)
        return b.reduce(0, terms, channels, zeros, lambda start, *acc: self._tap(rows, load, start, acc))

    def _blocks(self, rows: int, load, terms: int, block: int) -> list[ir.Value]:
        """The sum in blocks of so many terms: whole taps."""
        vectors, zeros = self.s.vectors, [self.sums.zero()] * (rows * self.s.vectors)
        if terms <= block:
            return contraction.sum_products(self.b, self.sums, rows, vectors, 0, terms, load, zeros, *self.loop)

        def one(start: ir.Value, *totals: ir.Value) -> list[ir.Value]:
            stop = im.minimum(im.add(start, block), terms)
            part = contraction.sum_products(self.b, self.sums, rows, vectors, start, stop, load, zeros, *self.loop)
            return [scalars.add(t, v) for t, v in zip(totals, part, strict=True)]

        return self.b.reduce(0, terms, block, zeros, one)

    def _tap(self, rows: int, load, start: ir.Value, acc: Sequence[ir.Value]) -> list[ir.Value]:
        """One tap of more channels than a block has terms."""
        stop = im.add(start, self.p.channels)
        return contraction.sum_blocks(self.b, self.sums, rows, self.s.vectors, stop, load, acc, start, *self.loop)
