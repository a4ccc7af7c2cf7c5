"""Direct convolution of few channels: a unit copies its window's rows of x, zeros around, to a patch on the stack.

A unit is a run of pixels of one row of the result. In the patch the columns and channels of a tap row are one run of
terms, and a pixel's place is a constant, so that nothing but multiply-adds is left in the innermost loop; with few
channels the pointers of pixel_tiles.py would cost more than the sums. Same order of summation, one block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import memref

from onnxc.dialects import dims
from onnxc.passes.kernels import contraction, scalars
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.contraction import BLOCK, Arithmetic
from onnxc.passes.kernels.conv_problem import Conv
from onnxc.passes.kernels.evaluate import Evaluator, Lanes
from onnxc.passes.kernels.kernel_function import MULTIPLY_ADD, KernelFunction, Launch
from onnxc.passes.kernels.packing import entries, place_in_panel
from onnxc.passes.kernels.register_tiles import Product, TileColumns, best_tile, terms_a_step
from onnxc.passes.kernels.row_order import RowOrder
from onnxc.passes.kernels.schedule_space import distinct, interleaved, tile_space

PATCH_BYTES = 32 << 10  # stays in L1 beside the weights, and is little enough for any stack


@dataclass(frozen=True)
class PatchSchedule(TileColumns):
    """Register tile `rows` × `vectors` of `lanes`; `run` pixels a unit; weights in panels of `panel` columns (0: the
    tile's)."""

    rows: int
    vectors: int
    lanes: int
    run: int
    packed: int = 1
    algorithm: str = "patch"
    panel: int = 0


def applies(p: Conv, target) -> bool:
    """Few channels, a sum of one block, all weights in cache."""
    if not isinstance(p.channels, int) or p.group != 1 or p.dilations[-1] != 1 or p.dense:
        return False
    terms = p.taps * p.channels
    weights = terms * p.filters * scalars.byte_width(p.elem)
    few = 16 if isinstance(p.filters, int) and p.filters * 32 <= target.vector_bits else 12
    return (
        1 < terms <= BLOCK
        and p.channels <= few
        and weights <= target.l2_bytes // 4
        and _pixel_bytes(p) <= PATCH_BYTES // 16
    )


def _pixel_bytes(p: Conv) -> int:
    return p.taps // p.kernel[-1] * p.strides[-1] * p.channels * scalars.byte_width(p.elem)


def choose(p: Conv, target, costly: bool = False, panel: int = 0) -> dict[str, int | str]:
    sums = contraction.arithmetic(p.elem, target, p.filters)
    width = p.out[-1]
    terms = p.taps * p.channels
    product = Product(p.pixels, p.filters, sums.lanes, terms, costly=costly, panel=panel)
    rows, vectors, lanes = best_tile(product, target)
    most = max(rows, PATCH_BYTES // _pixel_bytes(p) - p.kernel[-1])
    run = -(-width // -(-width // most)) if isinstance(width, int) and width else _run(width, rows, most)
    wider = panel if panel != vectors * lanes else 0
    return entries(PatchSchedule(rows, vectors, lanes, run, panel=wider))


def candidates(p: Conv, target) -> list[dict[str, int | str]]:
    """Other register tiles, each with shorter runs too."""
    first = choose(p, target)
    space = tile_space(first, p.pixels, p.filters, p.taps * p.channels, target)
    shorter = [s | {"run": max(s["rows"], -(-s["run"] // n))} for n in (2, 4) for s in space[:2]]
    return distinct(first, interleaved(space[1:], shorter))


def _run(width: dims.Dim, rows: int, most: int) -> int:
    """Pixels a unit, at most `most`, of a row whose width is not known: whole tiles, or what divides it."""
    tiles = most // rows * rows
    return max((n for n in range(rows, most + 1) if dims.mod(width, n) == 0 and 2 * n > tiles), default=tiles)


def launch(kernel: KernelFunction) -> Launch:
    p, s = Conv.of(kernel), PatchSchedule(**kernel.schedule)
    runs = (p.out[-1] + (s.run - 1)) // s.run
    products = s.run * p.taps * p.channels * p.filters
    return Launch(p.images * dims.product(p.out[:-1]) * runs, MULTIPLY_ADD * products)


def order(kernel: KernelFunction) -> RowOrder | None:
    """A block is a row, a unit a run of its pixels."""
    p, s = Conv.of(kernel), PatchSchedule(**kernel.schedule)
    width = p.out[-1]
    runs = -(-width // s.run) if isinstance(width, int) else 0
    return p.row_order(kernel, lambda: range(0, p.pixels + 1, width), runs)


def emit(b: KernelBuilder) -> None:
    _Emitter(b, Conv.of(b.kernel), PatchSchedule(**b.kernel.schedule)).run()


class _Emitter:
    def __init__(self, b: KernelBuilder, p: Conv, s: PatchSchedule):
        self.b, self.p, self.s = b, p, s
        self.sums = Arithmetic(p.elem, contraction.arithmetic(p.elem, b.target).compute, s.lanes, b.target.has_fma)
        self.ev = Evaluator(b)
        self.x, self.w = b.inputs[p.op.operands[0]], b.inputs[p.op.operands[1]]
        self.size, self.out = [b.dim(d) for d in p.size], [b.dim(d) for d in p.out]
        self.runs = b.dim((p.out[-1] + (s.run - 1)) // s.run)
        self.row_length = ((s.run - 1) * p.strides[-1] + p.kernel[-1]) * p.channels
        self.lead = p.taps // p.kernel[-1]
        self.strided = b.kernel.strided(p.op.operands[0])
        type_ = ir.MemRefType.get([self.lead * self.row_length], scalars.element_type(self.sums.compute))
        self.patch = memref.alloca(type_, [], [], alignment=64)

    def run(self) -> None:
        b, p, s = self.b, self.p, self.s
        with b.loop(b.begin, b.end) as unit:
            number, rest = im.mod(unit, self.runs), im.floordiv(unit, self.runs)
            outer = im.unflattened(rest, [b.dim(p.images), *self.out[:-1]])
            first = im.mul(number, s.run)
            count = s.run if b.divides(s.run, self.out[-1]) else im.minimum(im.sub(self.out[-1], first), s.run)
            self._fill(outer, first)
            for panel in range(-(-p.filters // s.width)):
                self._panel(panel, outer, first, count)

    def _fill(self, outer: list[im.Index], first: im.Index) -> None:
        """Copies the rows that the taps meet; zeros where they lie outside x."""
        b, p = self.b, self.p
        left = im.sub(im.mul(first, p.strides[-1]), p.pads[-1])
        width = im.mul(self.size[-1], p.channels)
        with b.loop(0, self.lead) as tap:
            row: im.Index = outer[0]
            inside: bool | ir.Value = True
            taps = im.unflattened(tap, p.kernel[:-1])
            for o, t, axis in zip(outer[1:], taps, range(len(taps)), strict=True):
                i = im.sub(im.add(im.mul(o, p.strides[axis]), im.mul(t, p.dilations[axis])), p.pads[axis])
                if p.padded:
                    inside = im.both(inside, im.compare(i, ">=", 0))
                    inside = im.both(inside, im.compare(i, "<", self.size[axis]))
                row = im.add(im.mul(row, self.size[axis]), i)
            start = im.mul(left, p.channels)
            low = im.minimum(im.maximum(im.sub(0, start), 0), self.row_length)
            high = im.maximum(im.minimum(im.sub(width, start), self.row_length), low)
            low = im.select(inside, low, self.row_length)
            high = im.select(inside, high, self.row_length)
            target = im.mul(tap, self.row_length)
            zero = scalars.constant(0, scalars.element_type(self.sums.compute))
            for begin, end in ((0, low), (high, self.row_length)):
                with b.loop(begin, end) as i:
                    memref.store(zero, self.patch, [im.value(im.add(target, i))])
            self._copy(im.add(im.mul(row, self.size[-1]), left), low, high, target)

    def _copy(self, pixel: im.Index, low: im.Index, high: im.Index, target: im.Index) -> None:
        """Elements `low` … `high` - 1 (whole pixels) of x from `pixel` on go to the patch from element `target` on."""
        b, channels = self.b, self.p.channels

        def move(source: im.Index, i: im.Index) -> None:
            v = self.sums.widen(self.x.load_flat(source))
            memref.store(v, self.patch, [im.value(im.add(target, i))])

        if not self.strided:
            source = im.mul(pixel, channels)
            with b.loop(low, high) as i:
                move(im.add(source, i), i)
            return
        with b.loop(im.floordiv(low, channels), im.floordiv(high, channels)) as j, b.loop(0, channels) as c:
            move(im.add(im.mul(im.add(pixel, j), self.p.row), c), im.add(im.mul(j, channels), c))

    def _panel(self, panel: int, outer: list[im.Index], first: im.Index, count: im.Index) -> None:
        s, p = self.s, self.p
        start = panel * s.width
        masks = contraction.column_masks(s.lanes, s.vectors, p.filters, start, start + s.width <= p.filters)
        self.lanes = [Lanes(s.lanes, len(p.size) + 1, m) for m in masks]
        self.columns = [start + v * s.lanes for v in range(s.vectors)]

        def tile(pixel: im.Index, rows: int) -> None:
            with self.ev.scope():
                acc = self._sums(panel, pixel, rows)

                def point(r: int, v: int) -> list[im.Index]:
                    return [*outer, im.add(im.add(first, pixel), r), self.columns[v]]

                contraction.store_tile(
                    self.b, self.ev, p.op.results[0], self.lanes.__getitem__, point, rows, s.vectors, self._element, acc
                )

        tiles = im.ceildiv(count, s.rows)
        contraction.row_tiles(self.b, count, s.rows, 0, tiles, tile)

    def _element(self, point: Sequence[im.Index], lanes: Lanes, total: ir.Value) -> ir.Value:
        return self.p.with_bias(self.ev, self.sums, point[-1], lanes, total)

    def _sums(self, panel: int, pixel: im.Index, rows: int) -> list[ir.Value]:
        p, s = self.p, self.s
        terms = p.kernel[-1] * p.channels  # of one row of taps
        step = p.strides[-1] * p.channels
        offset = im.mul(pixel, step)
        number, column = place_in_panel(panel, s.line, s.width)

        def tap_row(tap: im.Index, *acc: ir.Value) -> list[ir.Value]:
            start = im.add(im.mul(tap, self.row_length), offset)
            weights = im.add(im.add(im.mul(tap, terms * s.line), im.mul(number, self.w.strides[1])), column)

            def load(k: im.Index):
                at = im.add(start, k)
                row = im.add(weights, im.mul(k, s.line))
                pixels = [memref.load(self.patch, [im.value(im.add(at, r * step))]) for r in range(rows)]
                return pixels, [
                    self.sums.widen(self.w.load_vector(im.add(row, v * s.lanes), s.lanes)) for v in range(s.vectors)
                ]

            together = terms_a_step(terms, rows, s.vectors, self.b.target)
            return contraction.sum_products(self.b, self.sums, rows, s.vectors, 0, terms, load, acc, together)

        zeros = [self.sums.zero()] * (rows * s.vectors)
        return self.b.reduce(0, self.lead, 1, zeros, tap_row)
