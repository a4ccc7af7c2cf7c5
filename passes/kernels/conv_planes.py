"""Kernel kind `conv_planes`: convolution of planes as they are, vectors along the last axis, a tile over filters.

    kernel.conv_planes(x [N, C, S], w [M, K, C/group], bias? [M]) {strides, dilations, pads, group} -> [N, M, S']
For graphs that are channels first on both sides. A unit is a run of pixels in a few rows of the result: it copies the
rows of x that its taps meet into a patch on the stack, zeros around them, elements that the stride sets apart in lines
of their own. So each term (tap, channel) reads whole vectors at a place that a table knows. Summed in conv.py's order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np
from mlir import ir
from mlir.dialects import memref

from onnxc.dialects import dims
from onnxc.passes.kernels import contraction, plane_rows, pointers, scalars
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.conv_problem import Conv
from onnxc.passes.kernels.evaluate import Evaluator, Lanes
from onnxc.passes.kernels.kernel_function import MULTIPLY_ADD, KernelFunction, Launch
from onnxc.passes.kernels.planes_problem import (
    PATCH_BYTES,
    RUN,
    depth,
    line_length,
    lines,
    patch_bytes,
    phases,
    problem,
    reach,
)
from onnxc.passes.kernels.register_tiles import LATENCY, terms_a_step, tile_registers
from onnxc.passes.kernels.schedule_space import distinct, interleaved

MOST_VECTORS = 8
MOST_DEEP = 4  # rows of the result a unit: the copying is spread over them
UNITS = 32  # at least, where there are so many rows
USUAL = 112  # pixels of a run where a run tells how many there are: more are several runs, of fewer it takes a part


@dataclass(frozen=True)
class PlanesSchedule:
    """Register tile `rows` filters × `vectors` of `lanes` pixels; a unit: `run` pixels in each of `deep` rows."""

    rows: int
    vectors: int
    lanes: int
    run: int
    deep: int = 1


def choose(kernel: KernelFunction, target) -> dict[str, int | str]:
    p = problem(kernel.root)
    sums = contraction.arithmetic(p.elem, target)
    width = p.out[-1] if isinstance(p.out[-1], int) else int(max(1, min(USUAL, dims.bounds(p.out[-1])[1])))
    runs = 1
    while patch_bytes(p, -(-width // runs)) > PATCH_BYTES and width // runs > RUN:
        runs += 1
    run = -(-width // runs)
    if runs > 1:
        run = -(-run // sums.lanes) * sums.lanes
    rows, vectors = _tiles(p.filters, -(-run // sums.lanes), target)[0]
    return asdict(PlanesSchedule(rows, vectors, sums.lanes, run, _deep(p, run)))


def candidates(kernel: KernelFunction, target) -> list[dict[str, int | str]]:
    """Other register tiles, rows a unit and lengths of runs, the heuristic's first."""
    p, first = problem(kernel.root), choose(kernel, target)
    ranked = _tiles(p.filters, -(-first["run"] // first["lanes"]), target)[1:7]
    tiles = [first | {"rows": r, "vectors": v} for r, v in ranked]
    deep = [first | {"deep": n} for n in range(1, MOST_DEEP + 1) if patch_bytes(p, first["run"], n) <= PATCH_BYTES]
    if p.dilations[-2] != 1:
        deep = []
    step = first["vectors"] * first["lanes"]
    runs = [first | {"run": -(-first["run"] // n // step) * step} for n in (2, 3)] if first["run"] > 2 * step else []
    return distinct(first, interleaved(tiles, deep, runs))


def _deep(p: Conv, run: int) -> int:
    """Rows of the result a unit: those that share rows of x, as far as the patch and the number of units allow."""
    if p.dilations[-2] != 1 or p.strides[-2] >= p.kernel[-2]:
        return 1
    units = p.images * p.group * dims.product(p.out[:-1])
    most = units // UNITS if isinstance(units, int) else MOST_DEEP
    return max([1, *(n for n in range(2, min(most, MOST_DEEP) + 1) if patch_bytes(p, run, n) <= PATCH_BYTES)])


def _tiles(filters: int, vectors: int, target) -> list[tuple[int, int]]:
    """Register tiles, the one with the fewest cycles a term first: arithmetic or latency, and a part of each broadcast
    and load (most loads cross a line)."""

    def cycles(tile: tuple[int, int]) -> float:
        down, along = -(-filters // tile[0]), -(-vectors // tile[1])
        rows, wide = filters / down, vectors / along
        return down * along * (max(rows * wide / 2, LATENCY) + 0.1 * rows + 0.2 * wide + 0.5)

    candidates = [
        (r, v)
        for v in range(1, MOST_VECTORS + 1)
        for r in range(1, 15)
        if tile_registers(r, v, target) <= target.vector_registers and r <= filters and v <= max(1, vectors)
    ]
    return sorted(candidates, key=lambda tile: (cycles(tile), tile))


def launch(kernel: KernelFunction) -> Launch:
    p, s = problem(kernel.root), PlanesSchedule(**kernel.schedule)
    runs = (p.out[-1] + (s.run - 1)) // s.run
    blocks = (p.out[-2] + (s.deep - 1)) // s.deep
    products = s.run * s.deep * p.taps * p.channels * p.filters
    return Launch(p.images * p.group * dims.product(p.out[:-2]) * blocks * runs, MULTIPLY_ADD * products)


def emit(b: KernelBuilder) -> None:
    _Emitter(b, problem(b.kernel.root), PlanesSchedule(**b.kernel.schedule)).run()


class _Emitter:
    def __init__(self, b: KernelBuilder, p: Conv, s: PlanesSchedule):
        self.b, self.p, self.s = b, p, s
        self.sums = contraction.Arithmetic(
            p.elem, contraction.arithmetic(p.elem, b.target).compute, s.lanes, b.target.has_fma
        )
        self.ev = Evaluator(b)
        self.x, self.w = b.inputs[p.op.operands[0]], b.inputs[p.op.operands[1]]
        self.base = pointers.pointer(self.x.memory)
        self.size, self.out = [b.dim(d) for d in p.size], [b.dim(d) for d in p.out]
        self.runs = b.dim((p.out[-1] + (s.run - 1)) // s.run)
        self.blocks = b.dim((p.out[-2] + (s.deep - 1)) // s.deep)
        self.depth = depth(p, s.deep)
        self.phases = phases(p)
        self.length = line_length(p, s.run)
        self.terms = p.taps * p.channels
        self.patch = self.sums.room(lines(p, s.deep) * self.length)
        self.table = _table(b, self._places())

    def _places(self) -> list[int]:
        """Where in the patch each term's first pixel lies."""
        p, places = self.p, []
        for tap in range(p.taps):
            lead, column = divmod(tap, p.kernel[-1])
            lead, row = divmod(lead, p.kernel[-2])
            shift, phase = divmod(column * p.dilations[-1], p.strides[-1])
            for channel in range(p.channels):
                line = (channel * dims.product(p.kernel[:-2]) + lead) * self.depth + row
                line = line * len(self.phases) + self.phases.index(phase)
                places.append(line * self.length + shift)
        return places

    def run(self) -> None:
        b, p, s = self.b, self.p, self.s
        with b.loop(b.begin, b.end) as unit:
            number, rest = im.mod(unit, self.runs), im.floordiv(unit, self.runs)
            block, rest = im.mod(rest, self.blocks), im.floordiv(rest, self.blocks)
            self.before: list[im.Index] = []
            for extent in reversed(self.out[:-2]):
                self.before.insert(0, im.mod(rest, extent))
                rest = im.floordiv(rest, extent)
            self.group, self.image = im.mod(rest, p.group), im.floordiv(rest, p.group)
            self.first, self.top = im.mul(number, s.run), im.mul(block, s.deep)
            whole = b.divides(s.run, self.out[-1])
            self.count = s.run if whole else im.minimum(im.sub(self.out[-1], self.first), s.run)
            vectors = im.ceildiv(self.count, s.lanes)
            self._fill(self.length if whole else im.add(im.mul(vectors, s.lanes), reach(p)))
            with b.loop(0, im.minimum(im.sub(self.out[-2], self.top), s.deep)) as self.row:
                tiles = im.ceildiv(vectors, s.vectors)
                contraction.row_tiles(b, vectors, s.vectors, 0, tiles, self._column_tile)

    def _column_tile(self, first: im.Index, vectors: int) -> None:
        """All filters of the unit's group over `vectors` vectors from number `first`."""
        b, p, s = self.b, self.p, self.s
        start = im.mul(first, s.lanes)
        exact = isinstance(self.count, int) and self.count % s.lanes == 0
        masks = contraction.column_masks(s.lanes, vectors, self.count, start, exact)
        rank = len(self.x.shape)
        lanes = [Lanes(s.lanes, rank - 1, m) for m in masks]
        outer = [*self.before, im.add(self.top, self.row)][-(rank - 3) :] if rank > 3 else []

        def tile(row: im.Index, rows: int) -> None:
            filter_ = im.add(im.mul(self.group, p.filters), row)
            with self.ev.scope():
                acc = self._sums(filter_, rows, start, vectors)

                def point(r: int, v: int) -> list[im.Index]:
                    column = im.add(im.add(self.first, start), v * s.lanes)
                    return [self.image, im.add(filter_, r), *outer, column]

                contraction.store_tile(
                    b, self.ev, p.op.results[0], lanes.__getitem__, point, rows, vectors, self._element, acc
                )

        contraction.row_tiles(b, p.filters, s.rows, 0, contraction.tile_count(p.filters, s.rows), tile)

    def _element(self, point: Sequence[im.Index], lanes: Lanes, total: ir.Value) -> ir.Value:
        bias = self.p.op.operands[2] if len(self.p.op.operands) > 2 else None
        if bias is not None:
            total = scalars.add(total, scalars.splat(self.sums.widen(self.ev.at(bias, (point[1],))), lanes.width))
        return self.sums.narrow(total)

    def _sums(self, filter_: im.Index, rows: int, start: im.Index, vectors: int) -> list[ir.Value]:
        weights = im.mul(filter_, self.terms)
        shift = im.mul(self.row, self.p.strides[-2] * len(self.phases) * self.length)

        def load(k: im.Index):
            at = im.add(memref.load(self.table, [im.value(k)]), im.add(shift, start))
            weight = im.add(weights, k)
            return (
                [self.sums.widen(self.w.load_flat(im.add(weight, r * self.terms))) for r in range(rows)],
                [self.patch.load_vector(im.add(at, v * self.s.lanes), self.s.lanes) for v in range(vectors)],
            )

        zeros = [self.sums.zero()] * (rows * vectors)
        step = terms_a_step(self.terms, rows, vectors, self.b.target)
        return contraction.sum_products(self.b, self.sums, rows, vectors, 0, self.terms, load, zeros, step)

    def _fill(self, length: im.Index) -> None:
        """Copies the lines that the taps meet, `length` elements of each; zeros where they lie outside x."""
        b, p = self.b, self.p
        first_channel = im.add(im.mul(self.image, p.group * p.channels), im.mul(self.group, p.channels))
        left = im.sub(im.mul(self.first, p.strides[-1]), p.pads[-1])
        outer = [*self.before, self.top]
        window = [*p.kernel[:-2], self.depth]
        lead = dims.product(window)
        with b.loop(0, p.channels) as channel, b.loop(0, lead) as tap:
            row = im.add(first_channel, channel)
            inside: bool | ir.Value = True
            for axis, (o, t) in enumerate(zip(outer, im.unflattened(tap, window), strict=True)):
                i = im.sub(im.add(im.mul(o, p.strides[axis]), im.mul(t, p.dilations[axis])), p.pads[axis])
                if p.padded or self.s.deep > 1:
                    inside = im.both(inside, im.both(im.compare(i, ">=", 0), im.compare(i, "<", self.size[axis])))
                row = im.add(im.mul(row, self.size[axis]), i)
            width = im.select(inside, self.size[-1], 0)
            source = im.mul(row, self.size[-1])
            line = im.mul(im.add(im.mul(channel, lead), tap), len(self.phases) * self.length)
            with b.loop(0, length, self.s.lanes) as place:
                self._copy(source, width, im.add(left, im.mul(place, p.strides[-1])), im.add(line, place))

    def _copy(self, source: im.Index, width: im.Index, column: im.Index, place: im.Index) -> None:
        """A vector of each phase from x's `column` on, at `place` of the first phase's line."""
        b, lanes, stride = self.b, self.s.lanes, self.p.strides[-1]
        full = im.both(im.compare(column, ">=", 0), im.compare(im.add(column, lanes * stride), "<=", width))
        for condition, masked in ((full, False), (im.negate(full), True)):
            with b.when(condition):
                vectors = []
                for i in range(stride):
                    first = im.add(column, i * lanes)
                    start = pointers.advance(self.base, im.add(source, first), self.x.elem)
                    mask = plane_rows.inside(lanes, first, width) if masked else None
                    vectors.append(self.sums.widen(pointers.load_vector(start, lanes, self.x.elem, mask)))
                for i, phase in enumerate(self.phases):
                    self.patch.store_vector(plane_rows.every(vectors, stride, phase), im.add(place, i * self.length))


def _table(b: KernelBuilder, places: list[int]) -> ir.Value:
    """A constant array of indices."""
    index = ir.IndexType.get()
    type_ = ir.MemRefType.get([len(places)], index)
    value = ir.DenseElementsAttr.get(np.array(places, np.int64), type=index)
    name = f"{b.name}_places"
    with ir.InsertionPoint(b.module.body):
        memref.GlobalOp(name, type_, initial_value=value, constant=True, sym_visibility="private")
    return memref.get_global(type_, name)
