"""Kernel kind `conv_planes`: convolution of planes as they are, vectors along the last axis, a tile over filters.

    kernel.conv_planes(x [N, C, S], w [M, K, C/group], bias? [M]) {strides, dilations, pads, group} -> [N, M, S']
For graphs that are channels first on both sides. A unit is a run of pixels in some rows of the result. For each row
it copies the rows of x that its taps meet, and that are not there yet, into a patch on the stack, zeros around them,
elements that the stride sets apart in lines of their own; where no tap reads beside a pixel, a run goes over the ends
of rows. So each term (tap, channel) reads whole vectors at a place that a table knows. Summed in conv.py's order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from mlir import ir
from mlir.dialects import memref

from onnxc.dialects import dims
from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import contraction, prefetching, scalars
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.conv_problem import Conv
from onnxc.passes.kernels.evaluate import Evaluator, Lanes
from onnxc.passes.kernels.kernel_function import MULTIPLY_ADD, KernelFunction, Launch
from onnxc.passes.kernels.planes_problem import (
    PATCH_BYTES,
    RUN,
    PlanesPatch,
    is_flat,
    of_kernel,
    patch_bytes,
    problem,
    reach,
    shares_rows,
    turns,
)
from onnxc.passes.kernels.register_tiles import END, FILLING, LATENCY, halves_vectors, terms_a_step, tile_registers
from onnxc.passes.kernels.schedule_space import distinct, interleaved

MOST_VECTORS = 8
MOST_DEEP = 16  # rows of the result a unit: the first one's copying is spread over them
USUAL_DEEP = 8
UNITS = 8  # at least, where there are so many rows: shared copying gains more (3×3/2 of 3 channels: 5 %)
MOST_STEP = 8  # terms of a sum between lines of the result that are asked for
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
    p = of_kernel(kernel)
    sums = contraction.arithmetic(p.elem, target)
    width = p.out[-1] if isinstance(p.out[-1], int) else int(max(1, min(USUAL, dims.bounds(p.out[-1])[1])))
    run = _run(p, width, sums.lanes)
    rows, vectors = _tiles(p, -(-run // sums.lanes), target)[0]
    return asdict(PlanesSchedule(rows, vectors, sums.lanes, run, _deep(p)))


def _run(p: Conv, width: int, lanes: int) -> int:
    """Pixels a unit of a row of `width`, as many as a patch has room for; no more than are usual of a flat image."""
    runs = 1
    if is_flat(p):
        most = max([lanes, *(n for n in range(lanes, USUAL + 1, lanes) if patch_bytes(p, n) <= PATCH_BYTES)])
        runs = max(1, -(-width // most))
    while not is_flat(p) and patch_bytes(p, -(-width // runs)) > PATCH_BYTES and width // runs > RUN:
        runs += 1
    run = max(1, -(-width // runs))
    return run if runs == 1 else -(-run // lanes) * lanes


def candidates(kernel: KernelFunction, target) -> list[dict[str, int | str]]:
    """Other register tiles, rows a unit and lengths of runs, the heuristic's first."""
    p, first = of_kernel(kernel), choose(kernel, target)
    ranked = _tiles(p, -(-first["run"] // first["lanes"]), target)[1:7]
    tiles = [first | {"rows": r, "vectors": v} for r, v in ranked]
    deep = [first | {"deep": n} for n in (1, 2, 4, 8, 16)] if shares_rows(p) else []
    step = first["vectors"] * first["lanes"]
    runs = [first | {"run": -(-first["run"] // n // step) * step} for n in (2, 3)] if first["run"] > 2 * step else []
    return distinct(first, interleaved(tiles, deep, runs))


def _deep(p: Conv) -> int:
    """Rows of the result a unit: those that share rows of x, as far as the number of units allows."""
    if not shares_rows(p):
        return 1
    units = p.images * p.group * dims.product(p.out[:-1])
    return max(1, min(USUAL_DEEP, units // UNITS)) if isinstance(units, int) else USUAL_DEEP


def _tiles(p: Conv, vectors: int, target) -> list[tuple[int, int]]:
    """Register tiles, the one with the fewest cycles a term first: arithmetic or latency, a part of each broadcast and
    load (most loads cross a line), and the tile's end, as register_tiles.py has it where vectors are halved."""
    halves, terms = halves_vectors(target), p.taps * p.channels

    def cycles(tile: tuple[int, int]) -> float:
        down, along = -(-p.filters // tile[0]), -(-vectors // tile[1])
        rows, wide = p.filters / down, vectors / along
        arithmetic = rows * wide if halves else rows * wide / 2
        end = END * max(0.0, arithmetic - FILLING) / terms if halves else 0
        return down * along * (max(arithmetic, LATENCY) + 0.1 * rows + 0.2 * wide + 0.5 + end)

    candidates = [
        (r, v)
        for v in range(1, MOST_VECTORS + 1)
        for r in range(1, 15)
        if tile_registers(r, v, target) <= target.vector_registers and r <= p.filters and v <= max(1, vectors)
    ]
    return sorted(candidates, key=lambda tile: (cycles(tile), tile))


def launch(kernel: KernelFunction) -> Launch:
    p, s = of_kernel(kernel), PlanesSchedule(**kernel.schedule)
    runs = (p.out[-1] + (s.run - 1)) // s.run
    blocks = (p.out[-2] + (s.deep - 1)) // s.deep
    products = s.run * s.deep * p.taps * p.channels * p.filters
    return Launch(p.images * p.group * dims.product(p.out[:-2]) * blocks * runs, MULTIPLY_ADD * products)


def emit(b: KernelBuilder) -> None:
    _Emitter(b, of_kernel(b.kernel), PlanesSchedule(**b.kernel.schedule)).run()


class _Emitter:
    def __init__(self, b: KernelBuilder, p: Conv, s: PlanesSchedule):
        self.b, self.p, self.s = b, p, s
        self.sums = contraction.Arithmetic(
            p.elem, contraction.arithmetic(p.elem, b.target).compute, s.lanes, b.target.has_fma
        )
        self.ev = Evaluator(b)
        self.x, self.w = b.inputs[p.op.operands[0]], b.inputs[p.op.operands[1]]
        self.out = [b.dim(d) for d in p.out]
        self.runs = b.dim((p.out[-1] + (s.run - 1)) // s.run)
        self.blocks = b.dim((p.out[-2] + (s.deep - 1)) // s.deep)
        self.terms = p.taps * p.channels
        self.patch = PlanesPatch(b, p, self.sums, s.run)
        self.table = _table(b, self.patch.places())

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
            tiles = im.ceildiv(vectors, s.vectors)
            self.rows = im.minimum(im.sub(self.out[-2], self.top), s.deep)
            with b.loop(0, self.rows) as self.row:
                self._fill(vectors, whole)
                contraction.row_tiles(b, vectors, s.vectors, 0, tiles, self._column_tile)

    def _fill(self, vectors: im.Index, whole: bool) -> None:
        p, s, patch = self.p, self.s, self.patch
        channel = im.add(im.mul(self.image, p.group * p.channels), im.mul(self.group, p.channels))
        if p.out != problem(p.op).out:
            patch.fill_flat(channel, self.first, vectors)
            return
        length = patch.length if whole else im.add(im.mul(vectors, s.lanes), reach(p))
        patch.fill(channel, [*self.before, im.add(self.top, self.row)], (self.row, self.rows), self.first, length)

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

            def point(r: im.Index, column: im.Index) -> list[im.Index]:
                return [self.image, im.add(filter_, r), *outer, im.add(im.add(self.first, start), column)]

            with self.ev.scope():
                acc = self._sums(filter_, rows, start, vectors, point)
                more = (lambda r, v: point(r, v * s.lanes), rows, vectors, self._element, acc)
                contraction.store_tile(b, self.ev, p.op.results[0], lanes.__getitem__, *more)

        contraction.row_tiles(b, p.filters, s.rows, 0, contraction.tile_count(p.filters, s.rows), tile)

    def _element(self, point: Sequence[im.Index], lanes: Lanes, total: ir.Value) -> ir.Value:
        bias = self.p.op.operands[2] if len(self.p.op.operands) > 2 else None
        if bias is not None:
            total = scalars.add(total, scalars.splat(self.sums.widen(self.ev.at(bias, (point[1],))), lanes.width))
        return self.sums.narrow(total)

    def _sums(self, filter_: im.Index, rows: int, start: im.Index, vectors: int, point: Callable) -> list[ir.Value]:
        """The tile's sums, whose results will lie at `point(r, column)`."""
        weights = im.mul(filter_, self.terms)
        turn = im.mul(im.mod(self.row, turns(self.p)), self.terms)

        def load(k: im.Index):
            at = im.add(memref.load(self.table, [im.value(im.add(turn, k))]), start)
            weight = im.add(weights, k)
            return (
                [self.sums.widen(self.w.load_flat(im.add(weight, r * self.terms))) for r in range(rows)],
                [self.patch.room.load_vector(im.add(at, v * self.s.lanes), self.s.lanes) for v in range(vectors)],
            )

        zeros = [self.sums.zero()] * (rows * vectors)
        step, ask = self._asking(rows, vectors, point)
        return contraction.sum_products(self.b, self.sums, rows, vectors, 0, self.terms, load, zeros, step, ask)

    def _asking(self, rows: int, vectors: int, point: Callable) -> tuple[int, contraction.Ask | None]:
        """Terms a step of a tile's sums, and how a line of its results is asked for before each.

        That is at an even pace, and where sums are long enough for more than one term a line. 7×7/2 of 3 channels over
        640² takes 0.91 to 0.93 of the time on Granite Rapids, over 224² up to 0.96 (1.00 where others leave it all of
        L3); 3×3/2, where every term would ask, 1.05."""
        b = self.b
        step = terms_a_step(self.terms, rows, vectors, b.target)
        results = prefetching.ResultLines(b, point, rows, vectors * self.s.lanes)
        each = min(MOST_STEP, self.terms // results.count)
        wait = prefetching.stores_wait(b.target, *(Tensor.of(v.type) for v in b.kernel.results))
        if not wait or step == 1 or each < step:
            return step, None
        return each, lambda k, terms: results.ask(im.floordiv(k, each)) if terms == each else None


def _table(b: KernelBuilder, places: list[int]) -> ir.Value:
    """A constant array of indices."""
    index = ir.IndexType.get()
    type_ = ir.MemRefType.get([len(places)], index)
    value = ir.DenseElementsAttr.get(np.array(places, np.int64), type=index)
    name = f"{b.name}_places"
    with ir.InsertionPoint(b.module.body):
        memref.GlobalOp(name, type_, initial_value=value, constant=True, sym_visibility="private")
    return memref.get_global(type_, name)
