"""Kernel kind `matmul`: MatMul, Gemm and FusedMatMul, batched with broadcast, any operand transposed.

A unit of the parallel extent is (batch, group of row tiles, panel of columns). A constant B is packed into panels
[batch…][panel][k][column] of the register tile's width, so that the innermost loop reads it in one stream.
"""

from __future__ import annotations

import functools

import numpy as np
from mlir import ir

from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import contraction, prefetching, run_time_tiles, scalars
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.contraction import Arithmetic
from onnxc.passes.kernels.evaluate import Evaluator, Lanes
from onnxc.passes.kernels.kernel_function import MULTIPLY_ADD, READ, KernelFunction, Launch
from onnxc.passes.kernels.matmul_problem import STAGGER, Grid, Matmul
from onnxc.passes.kernels.matmul_schedule import MatmulSchedule, choose, staggers
from onnxc.passes.kernels.matrix_panels import matrix_panels
from onnxc.passes.kernels.packing import Packing, place_in_panel
from onnxc.passes.kernels.panel_copy import PanelCopy
from onnxc.passes.kernels.schedule_space import other_loops, tile_space, with_loops

__all__ = ["candidates", "choose", "emit", "launch", "packings"]

MANY_STEPS = 1 << 16  # more than ask for results


def candidates(kernel: KernelFunction, target) -> list[dict[str, int | str]]:
    """Schedules worth trying, the heuristic's first."""
    p, first = Matmul.of(kernel), choose(kernel, target)
    own = tile_space(first, p.rows, p.n, p.k, target, 128)
    loops = other_loops(kernel, first, Grid.of(p, MatmulSchedule(**first)).groups, p.rows, p.n, p.k, target)
    return with_loops(own, loops)


def packings(kernel: KernelFunction) -> list[Packing]:
    p, s = Matmul.of(kernel), MatmulSchedule(**kernel.schedule)
    if s.packed:
        return [matrix_panels(kernel, p, s.line)]
    return [_staggered(p)] if s.copied and staggers(kernel, p) else []


def _staggered(p: Matmul) -> Packing:
    """A's rows, each with some elements behind it: a tile's rows then do not all need another line at once, nor lie in
    a few sets of L1 (Granite Rapids, 1×1 of 56² 256→64: 0.98 of the time)."""
    rows, terms = Tensor.of(p.op.operands[0].type).shape
    shape, after = (rows, terms + STAGGER), [(0, 0), (0, STAGGER)]
    return Packing(p.a_position, shape, f"staggered{STAGGER}", lambda array: np.pad(array, after))


def launch(kernel: KernelFunction) -> Launch:
    p, s = Matmul.of(kernel), MatmulSchedule(**kernel.schedule)
    grid = Grid.of(p, s)
    rows = min(p.rows, s.group * s.rows) if isinstance(p.rows, int) else s.group * s.rows
    term = s.width * max(MULTIPLY_ADD * rows, READ)  # few rows: reading B is what takes the time
    return Launch(grid.batch * grid.groups * grid.panels, term * p.k)


def emit(b: KernelBuilder) -> None:
    _Emitter(b, Matmul.of(b.kernel), MatmulSchedule(**b.kernel.schedule)).run()


class _Emitter:
    def __init__(self, b: KernelBuilder, p: Matmul, s: MatmulSchedule):
        self.b, self.p, self.s = b, p, s
        self.ev = Evaluator(b)
        grid = Grid.of(p, s)
        self.groups, self.panels, self.tiles = b.dim(grid.groups), b.dim(grid.panels), b.dim(grid.tiles)
        self.batch = [b.dim(d) for d in p.batch]
        self.rows, self.n, self.k = b.dim(p.rows), b.dim(p.n), b.dim(p.k)
        self.row_dims = [b.dim(d) for d in p.row_dims]
        self.one_axis = not self.batch and contraction.rows_are_one_axis(b.kernel)
        self.free = not isinstance(p.rows, int)
        whole = im.maximum(im.floordiv(self.rows, s.rows), 1)  # those left over ask for their own panel
        self.shares = im.minimum(s.group, whole if self.free else contraction.tile_count(p.rows, s.rows))
        self._take(s)
        self.partial = self.sums.room(s.group * s.rows * s.width) if s.chunk else None
        # where there is a tile for each number of rows left over, a copy of a long epilogue for each row is too much
        loop = s.apart or (self.free and contraction.has_costly_epilogue(b.kernel))
        self.few = few = run_time_tiles.tile_of_few(p, s, b.target)
        tiles = [s, few, run_time_tiles.vector_of_few(few)] if few else [s]
        self.room = self.sums.room(max(t.rows * t.width for t in tiles)) if loop else None
        terms = -(-(s.chunk or p.k) // s.lanes) * s.lanes
        self.room_of_copy = self.sums.room(terms * s.width) if s.copied else None
        self.a = p.left(b, self.ev)
        self.right, self.copying = None if s.packed else p.right(b, self.ev), False

    def run(self) -> None:
        b, s = self.b, self.s
        if self.few is None:
            self._units()
            return
        few = run_time_tiles.are_few(self.rows, s)
        with b.when(few):
            for number, tile, column, masks in run_time_tiles.columns_of_few(b, s, self.few, self.panels, self.p.n):
                self._take(tile)
                with self.ev.scope():
                    last = im.ceildiv(self.rows, tile.rows)
                    self._unit(im.unflattened(number, self.batch), 0, last, 0, column, masks)
        self._take(s)
        with b.when(im.negate(few)):
            self._units()

    def _units(self) -> None:
        b, s = self.b, self.s
        with b.loop(b.begin, b.end) as unit:
            if s.order == "columns":
                group, rest = im.mod(unit, self.groups), im.floordiv(unit, self.groups)
                panel, batch_number = im.mod(rest, self.panels), im.floordiv(rest, self.panels)
            else:
                panel, rest = im.mod(unit, self.panels), im.floordiv(unit, self.panels)
                group, batch_number = im.mod(rest, self.groups), im.floordiv(rest, self.groups)
            batch = im.unflattened(batch_number, self.batch)
            first = im.mul(group, s.group)
            last = im.minimum(im.add(first, s.group), self.tiles)
            column = im.mul(panel, s.width)
            for tile, condition, whole in run_time_tiles.widths(s, self.p.n, im.sub(self.n, column), b.target):
                self._take(tile)
                masks = contraction.column_masks(tile.lanes, tile.vectors, self.n, column, whole)
                with b.when(condition), self.ev.scope():
                    self._unit(batch, first, last, panel, column, masks)

    def _take(self, s: MatmulSchedule) -> None:
        """Makes tiles of this width what is emitted."""
        compute = contraction.arithmetic(self.p.elem, self.b.target).compute
        self.s, self.sums = s, Arithmetic(self.p.elem, compute, s.lanes, self.b.target.has_fma)

    def _unit(self, batch, first: im.Index, last: im.Index, panel: im.Index, column: im.Index, masks) -> None:
        b, s = self.b, self.s
        self.columns = [im.add(column, v * s.lanes) for v in range(s.vectors)]
        self.lanes = [Lanes(s.lanes, self.p.result_rank - 1 if self.p.has_n else None, m) for m in masks]
        load_b = self._panel(batch, panel, masks)
        self.copy = PanelCopy(self.sums, self.room_of_copy, s.width) if s.copied else None
        self.start, self.stop = 0, self.k
        if s.chunk:
            with b.loop(0, im.maximum(self.k, 1), s.chunk) as self.start:  # without terms, sums are zeros
                self.stop = im.minimum(im.add(self.start, s.chunk), self.k)
                self._group(batch, first, last, load_b)
        else:
            self._group(batch, first, last, load_b)

    def _group(self, batch, first: im.Index, last: im.Index, load_b) -> None:
        """All row tiles of a unit. Where B's panel is copied, the first one does so while it multiplies."""
        b, s = self.b, self.s

        def tile(row: im.Index, rows: int) -> None:
            distances = [(s.prefetch, True)]
            if self.free and s.packed:
                line, alone = s.width * scalars.byte_width(self.p.elem), im.compare(self.tiles, "==", 1)
                distances = prefetching.distances(s.prefetch, rows, s.rows, alone, line, b.kernel, b.target)
            for self.ahead, condition in distances:
                with b.when(condition), self.ev.scope():
                    self._tile(batch, row, rows, load_b)

        def row_of_b(k: im.Index) -> list[ir.Value]:
            with self.ev.scope():
                return [self.sums.widen(v) for v in load_b(k, 0)]

        if s.copied and self.p.turns_b:
            column = self.p.column(b, batch, self.columns, self.sums)
            self.copy.turn(b, self.start, self.stop, column)
        elif s.copied:
            second = im.add(first, 1)
            known, whole = isinstance(self.rows, int), im.compare(im.mul(second, s.rows), "<=", self.rows)
            self.copying = True
            if known:
                contraction.row_tiles(b, self.rows, s.rows, first, second, tile, few=True)
            else:
                with b.when(whole):
                    tile(im.mul(first, s.rows), s.rows)
            self.copying = False
            if not known:
                with b.when(im.negate(whole)):
                    self.copy.fill(b, self.start, self.stop, row_of_b)
            first = second if known else im.select(whole, second, first)
        contraction.row_tiles(b, self.rows, s.rows, first, last, tile, few=True)

    def _tile(self, batch, row: im.Index, rows: int, load_b) -> None:
        load_a = self.a(batch, row, rows)

        def load(k: im.Index):
            with self.ev.scope():
                term = im.sub(k, self.start)
                if self.copying or not self.s.copied:
                    row_of_b = [self.sums.widen(v) for v in load_b(k, row)]
                else:
                    row_of_b = self.copy.read(term)
                if self.copying:
                    self.copy.keep(term, row_of_b)
                return [self.sums.widen(v) for v in load_a(k)], row_of_b

        ask = self._asking(batch, row, rows)
        if not self.s.chunk:
            more = {"unroll": self.s.unroll, "ask": ask}
            acc = contraction.sum_blocks(self.b, self.sums, rows, self.s.vectors, self.k, load, **more)
            self._store(batch, row, rows, acc)
            return
        # the sums so far lie on the stack, each row of the unit in a line of its own
        lines = [im.mod(im.add(row, r), self.s.group * self.s.rows) for r in range(rows)]
        places = [im.add(im.mul(line, self.s.width), v * self.s.lanes) for line in lines for v in range(self.s.vectors)]
        begins, type_, zero = im.compare(self.start, "==", 0), self.sums.type, self.sums.zero
        reads = [lambda at=at: self.partial.load_vector(at, self.s.lanes) for at in places]
        before = [self.b.choose(begins, type_, zero, read) for read in reads]
        sizes, more = (rows, self.s.vectors, self.stop), (before, self.start, self.s.unroll, ask)
        acc, ends = contraction.sum_blocks(self.b, self.sums, *sizes, load, *more), im.compare(self.stop, "==", self.k)
        with self.b.when(ends), self.ev.scope():
            self._store(batch, row, rows, acc)
        with self.b.when(im.negate(ends)):
            for at, v in zip(places, acc, strict=True):
                self.partial.store_vector(v, at)

    def _asking(self, batch, row: im.Index, rows: int) -> contraction.Ask | None:
        """How a tile asks ahead of a step: for B, and where that lies in place or stores wait, for its results."""
        b, p, s = self.b, self.p, self.s
        if not self.ahead:
            return None
        number = im.mod(im.floordiv(row, s.rows), s.group)
        if s.packed:
            buffer, terms = b.inputs[b.kernel.operands[p.b_position]], s.chunk or self.k
            start, stride = im.add(self.base, im.mul(self.start, s.width)), s.chunk * s.width or buffer.strides[-3]
            stream = prefetching.Panels(buffer, start, stride, s.width, terms, b, b.target.core.reads_ahead)
            share = lambda k, step: stream.ask(self.ahead, self.shares, number, im.sub(k, self.start), step)  # noqa: E731
            return _both(share, self._asking_for_results(batch, row, rows)) if self._stores_wait() else share
        tiles = 0 if self.free else min(s.group, contraction.tile_count(p.rows, s.rows))
        after, terms = im.add(self.columns[0], s.width), im.sub(self.stop, self.start)
        columns = prefetching.Columns(b, p, batch, after, s.width, self.start, terms, tiles)
        copying = self.copying
        results = self._asking_for_results(batch, row, rows)
        return _both(lambda k, step: columns.ask(number, k, step, copying), results)

    def _asking_for_results(self, batch, row: im.Index, rows: int) -> contraction.Ask:
        """A line of a tile's results before each step of its last terms."""
        lines = prefetching.ResultLines(self.b, self._points(batch, row), rows, self.s.width)
        wait = im.select(im.compare(self.stop, "==", self.k), 0, MANY_STEPS)
        return lambda k, step: lines.ask(im.add(im.floordiv(im.sub(k, self.start), step), wait))

    def _stores_wait(self) -> bool:
        """Whether stores of sums by packed weights wait: those of short sums, which are no more work than that. Not of
        a batch, of which each matrix's results stay near (Winograd's points: a U-Net would take 1.015 of the time)."""
        b, p = self.b, self.p
        short = self.ahead == 1 and not p.batch and isinstance(p.k, int) and p.k <= prefetching.SHORT
        weights = Tensor.of(b.kernel.operands[p.b_position].type)
        return short and not contraction.has_costly_epilogue(b.kernel) and prefetching.stores_wait(b.target, weights)

    def _points(self, batch, row: im.Index):
        """(r, c) → where the result's element of row r, column c of a tile lies."""

        @functools.cache
        def row_point(r: im.Index) -> list[im.Index]:
            at, outer = im.add(row, r), len(self.row_dims) - 1
            return [*([0] * outer), at] if self.one_axis else im.unflattened(at, self.row_dims)

        return lambda r, c: self.p.result_point(batch, row_point(r), im.add(self.columns[0], c))

    def _store(self, batch, row: im.Index, rows: int, acc: list[ir.Value]) -> None:
        lanes, point, more = self.lanes.__getitem__, self._points(batch, row), (self._element, acc, self.room)
        points = lambda r, v: point(r, v * self.s.lanes)  # noqa: E731
        contraction.store_tile(self.b, self.ev, self.p.op.results[0], lanes, points, rows, self.s.vectors, *more)

    def _element(self, point, lanes: Lanes, total: ir.Value) -> ir.Value:
        return self.sums.narrow(self.p.scaled(self.b, self.ev, point, lanes, total, self.sums))

    def _panel(self, batch, panel: im.Index, masks):
        """load(k, row) gives the vectors of row k of B in this panel."""
        s = self.s
        if not s.packed:
            return self.right(batch, self.columns, masks, s.lanes)
        buffer = self.b.inputs[self.b.kernel.operands[self.p.b_position]]
        number, column = place_in_panel(panel, s.line, s.width)
        self.base = base = im.add(contraction.panel_start(buffer, batch, number), column)

        def load(k: im.Index, row: im.Index):
            at = im.add(base, im.mul(k, s.line))
            return [buffer.load_vector(im.add(at, v * s.lanes), s.lanes) for v in range(s.vectors)]

        return load


def _both(one: contraction.Ask, other: contraction.Ask) -> contraction.Ask:
    """Asks for what either asks for."""

    def ask(k: im.Index, step: int) -> None:
        one(k, step)
        other(k, step)

    return ask
