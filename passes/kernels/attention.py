"""Kernel kind `attention`: softmax(scale·Q·Kᵀ + mask)·V, head by head, the scores never in memory as a whole.

    kernel.attention(q, k, v, mask?) {scale, heads, kv_heads}
Operands are [B, rows, heads·width] (heads side by side) or [B, heads, rows, width]; mask is added, broadcast to [B,
heads, queries, keys]. A unit is a block of queries of one head. It goes through the keys in blocks: K is turned into
columns, the scores of the block computed, their powers summed beside a running maximum, and V's rows added up with
them; what was summed before is scaled down when the maximum grows. Block sizes depend on the width alone, so the bits
do too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass

from mlir import ir
from mlir.dialects import arith, memref, vector

from onnxc.passes import maths
from onnxc.passes.kernels import contraction, scalars
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels.attention_problem import Attention
from onnxc.passes.kernels.builder import Buffer, KernelBuilder
from onnxc.passes.kernels.kernel_function import ELEMENT, MULTIPLY_ADD, KernelFunction, Launch
from onnxc.passes.kernels.register_tiles import tile_registers
from onnxc.passes.kernels.rows import larger, largest, piece_width, sweep, total
from onnxc.passes.kernels.schedule_space import distinct, interleaved
from onnxc.passes.kernels.transposition import transposed

QUERIES = 64  # a unit's queries: K is turned once for all of them; the stack holds the scores of no more
PAD = 16  # elements between rows on the stack, so that they don't fall into one cache set
VECTORS = 2


@dataclass(frozen=True)
class AttentionSchedule:
    """`queries` a unit; register tile `rows` queries × `vectors` of keys, or of the values' columns."""

    queries: int
    rows: int
    vectors: int


def choose(kernel: KernelFunction, target) -> dict[str, int | str]:
    return asdict(AttentionSchedule(QUERIES, 8 if target.vector_registers >= 32 else 4, VECTORS))


def candidates(kernel: KernelFunction, target) -> list[dict[str, int | str]]:
    """Other register tiles and fewer queries a unit, the heuristic's first."""
    first = choose(kernel, target)
    tiles = [first | {"rows": r, "vectors": v} for v in (2, 4, 1) for r in (12, 6, 4, 14, 8, 3)]
    fits = [s for s in tiles if tile_registers(s["rows"], s["vectors"], target) <= target.vector_registers]
    fewer = [first | {"queries": n} for n in (32, 16)]
    return distinct(first, interleaved(fits, fewer))


def key_block(p: Attention) -> int:
    """The keys that are gone through at once. It depends on the width alone, so that the bits do too."""
    return 128 if p.width <= 64 else 64


def launch(kernel: KernelFunction) -> Launch:
    p, queries = Attention.of(kernel), kernel.schedule["queries"]
    blocks = (p.queries + (queries - 1)) // queries
    rows = min(p.queries, queries) if isinstance(p.queries, int) else queries
    score = MULTIPLY_ADD * (p.width + p.value_width) + 2 * ELEMENT
    return Launch(p.batch * p.heads * blocks, rows * score * p.keys)


def emit(b: KernelBuilder) -> None:
    _Emitter(b, Attention.of(b.kernel), AttentionSchedule(**b.kernel.schedule)).run()


class _Emitter:
    def __init__(self, b: KernelBuilder, p: Attention, s: AttentionSchedule):
        self.b, self.p, self.s = b, p, s
        self.sums = contraction.arithmetic(p.elem, b.target)
        self.lanes = self.sums.lanes
        self.block = key_block(p)
        self.q, self.k, self.v = (b.inputs[v] for v in p.op.operands[:3])
        self.mask = b.inputs[p.op.operands[3]] if len(p.op.operands) > 3 and p.op.operands[3] is not None else None
        self.queries, self.keys = b.dim(p.queries), b.dim(p.keys)
        self.one_block = isinstance(self.queries, int) and self.queries <= s.queries
        self.stride = self.block + PAD
        self.columns = self._scratch(p.width * self.stride)
        self.scores = self._scratch(self.s.queries * self.stride)
        self.value_stride = -(-p.value_width // (self.s.vectors * self.lanes)) * self.s.vectors * self.lanes
        self.sum = self._scratch(self.s.queries * self.value_stride)
        self.top, self.weight, self.factor = (self._scratch(self.s.queries) for _ in range(3))

    def _scratch(self, size: int) -> Buffer:
        type_ = ir.MemRefType.get([size], scalars.element_type(self.sums.compute))
        return Buffer(memref.alloca(type_, [], [], alignment=64), self.sums.compute, [size], [1])

    def run(self) -> None:
        b, p = self.b, self.p
        blocks = im.ceildiv(self.queries, self.s.queries)
        with b.loop(b.begin, b.end) as unit:
            rest, number = im.floordiv(unit, blocks), im.mod(unit, blocks)
            self.image, self.head = im.floordiv(rest, p.heads), im.mod(rest, p.heads)
            self.kv_head = im.floordiv(self.head, p.heads // p.kv_heads)
            self.first = im.mul(number, self.s.queries)
            left = self.queries if self.one_block else im.sub(self.queries, self.first)
            whole = b.divides(self.s.queries, self.queries)
            self.rows = self.s.queries if whole else im.minimum(left, self.s.queries)
            self._start()
            with b.loop(0, self.keys, self.block) as key:
                whole = b.divides(self.block, self.keys)
                self.key, self.count = key, self.block if whole else im.minimum(im.sub(self.keys, key), self.block)
                self._turn_keys()
                self._tiles(self._scores_of)
                with b.loop(0, self.rows) as row:
                    self._soften(row)
                self._tiles(self._add_values)
            self._finish()

    def _tiles(self, tile) -> None:
        contraction.row_tiles(self.b, self.rows, self.s.rows, 0, im.ceildiv(self.rows, self.s.rows), tile)

    def _start(self) -> None:
        scalar = scalars.element_type(self.sums.compute)
        with self.b.loop(0, self.rows) as row:
            self.top.store_flat(scalars.constant(float("-inf"), scalar), row)
            self.weight.store_flat(scalars.constant(0, scalar), row)
        with self.b.loop(0, im.mul(self.rows, self.value_stride), self.lanes) as i:
            self.sum.store_vector(self.sums.zero(), i)

    def _turn_keys(self) -> None:
        """columns[d, t] = k[t, d] of the block, in whole tiles: keys beyond it are copies of the last.

        What a tile reads must have been written: with denormals from an old stack each product costs a hundred cycles.
        """
        start, step = self.p.place(self.k, 1, self.image, self.kv_head, self.key, self.keys)
        tile = self.s.vectors * self.lanes
        exact = self.b.divides(tile, self.keys)
        with self.b.loop(0, im.mul(im.ceildiv(self.count, tile), tile), self.lanes) as t:
            rows = [
                im.add(t, i) if exact else im.minimum(im.add(t, i), im.sub(self.count, 1)) for i in range(self.lanes)
            ]

            def square(d: im.Index, left: int) -> None:
                mask = self._mask(left) if left < self.lanes else None
                vectors = [
                    self.sums.widen(self.k.load_vector(im.add(start, im.add(im.mul(r, step), d)), self.lanes, mask))
                    for r in rows
                ]
                for j, v in enumerate(transposed(vectors)[:left]):
                    self.columns.store_vector(v, im.add(t, im.mul(im.add(d, j), self.stride)))

            self._pieces(self.p.width, self.lanes, square)

    def _pieces(self, extent: int, size: int, piece: Callable[[im.Index, int], None]) -> None:
        """`piece(start, length)` for every `size` of the extent: a loop, and what is left over."""
        whole = extent // size * size
        if whole:
            with self.b.loop(0, whole, size) as start:
                piece(start, size)
        if whole < extent:
            piece(whole, extent - whole)

    def _mask(self, lanes: im.Index) -> ir.Value:
        type_ = ir.VectorType.get([self.lanes], ir.IntegerType.get_signless(1))
        return vector.create_mask(type_, [im.value(im.maximum(lanes, 0))])

    def _scores_of(self, row: im.Index, rows: int) -> None:
        """scores[row, t] = scale · q[row]·k[t] + mask."""
        start, step = self.p.place(self.q, 0, self.image, self.head, im.add(self.first, row), self.queries)
        with self.b.loop(0, self.count, self.s.vectors * self.lanes) as t:

            def load(d: im.Index):
                at = im.add(start, d)
                queries = [self.sums.widen(self.q.load_flat(im.add(at, im.mul(step, r)))) for r in range(rows)]
                column = im.add(im.mul(d, self.stride), t)
                return queries, [
                    self.columns.load_vector(im.add(column, v * self.lanes), self.lanes) for v in range(self.s.vectors)
                ]

            zeros = [self.sums.zero()] * (rows * self.s.vectors)
            acc = contraction.sum_products(self.b, self.sums, rows, self.s.vectors, 0, self.p.width, load, zeros)
            for v in range(self.s.vectors):
                place = im.add(t, v * self.lanes)
                inside = self._mask(im.sub(self.count, place)) if self.mask is not None else None
                for r in range(rows):
                    x = scalars.mul(acc[r * self.s.vectors + v], scalars.constant_like(self.p.scale, acc[0]))
                    if self.mask is not None:
                        x = scalars.add(x, self._mask_at(im.add(row, r), place, inside))
                    self.scores.store_vector(x, im.add(im.mul(im.add(row, r), self.stride), place))

    def _mask_at(self, row: im.Index, place: im.Index, inside: ir.Value) -> ir.Value:
        """The mask's vector at keys from `place` of the block; it may be broadcast along any axis."""
        mask, p = self.mask, self.p
        point = [self.image, self.head, im.add(self.first, row), im.add(self.key, place)][4 - len(mask.shape) :]
        offset: im.Index = 0
        for i, extent, stride in zip(point[:-1], mask.shape[:-1], mask.strides[:-1], strict=True):
            offset = im.add(offset, im.mul(im.select(im.compare(extent, "==", 1), 0, i), stride))
        type_ = scalars.vector_of(scalars.element_type(p.elem), self.lanes)
        one = im.compare(mask.shape[-1], "==", 1)
        value = self.b.choose(
            one,
            type_,
            lambda: scalars.splat(mask.load_flat(offset), self.lanes),
            lambda: mask.load_vector(im.add(offset, point[-1]), self.lanes, inside),
        )
        return self.sums.widen(value)

    def _soften(self, row: im.Index) -> None:
        """scores[row] become powers beside the running maximum; `factor` scales down what was summed."""
        b, scalar = self.b, scalars.element_type(self.sums.compute)
        base, width = im.mul(row, self.stride), piece_width(b, self.sums.compute)

        def best(i: im.Index, mask: ir.Value | None, carried: list[ir.Value]) -> list[ir.Value]:
            return [larger(carried[0], self.scores.load_vector(im.add(base, i), width, mask))]

        low = scalars.constant(float("-inf"), scalar)
        before = self.top.load_flat(row)
        top = scalars.maximum(before, largest(sweep(b, self.count, self.sums.compute, [low], best)[0]))
        # a row masked so far has no maximum yet: its powers are 0, not exp(-inf + inf)
        shift = arith.select(scalars.compare(top, "==", low), scalars.constant_like(0, top), top)

        def powers(i: im.Index, mask: ir.Value | None, carried: list[ir.Value]) -> list[ir.Value]:
            x = self.scores.load_vector(im.add(base, i), width, mask)
            e = maths.exp_of_decay(arith.subf(x, scalars.splat(shift, width)))
            self.scores.store_vector(e, im.add(base, i), mask)
            return [arith.addf(carried[0], e)]

        added = total(sweep(b, self.count, self.sums.compute, [scalars.constant(0, scalar)], powers)[0])
        factor = maths.exp_of_decay(arith.subf(before, shift))
        self.weight.store_flat(arith.addf(arith.mulf(self.weight.load_flat(row), factor), added), row)
        self.top.store_flat(top, row)
        self.factor.store_flat(factor, row)

    def _add_values(self, row: im.Index, rows: int) -> None:
        """sum[row] = factor·sum[row] + Σ over the block's keys of scores[row, t]·v[t]."""
        start, step = self.p.place(self.v, 2, self.image, self.kv_head, self.key, self.keys)
        factors = [scalars.splat(self.factor.load_flat(im.add(row, r)), self.lanes) for r in range(rows)]

        def columns(c: im.Index, left: int) -> None:
            lefts = [min(self.lanes, max(0, left - v * self.lanes)) for v in range(self.s.vectors)]
            masks = [self._mask(n) if n < self.lanes else None for n in lefts]

            def load(t: im.Index):
                weights = [self.scores.load_flat(im.add(im.mul(im.add(row, r), self.stride), t)) for r in range(rows)]
                at = im.add(start, im.add(im.mul(t, step), c))
                return weights, [
                    self.sums.widen(self.v.load_vector(im.add(at, v * self.lanes), self.lanes, masks[v]))
                    for v in range(self.s.vectors)
                ]

            places = [
                im.add(im.add(im.mul(im.add(row, r), self.value_stride), c), v * self.lanes)
                for r in range(rows)
                for v in range(self.s.vectors)
            ]
            before = [
                arith.mulf(self.sum.load_vector(place, self.lanes), factors[i // self.s.vectors])
                for i, place in enumerate(places)
            ]
            after = contraction.sum_products(self.b, self.sums, rows, self.s.vectors, 0, self.count, load, before)
            for place, v in zip(places, after, strict=True):
                self.sum.store_vector(v, place)

        self._pieces(self.p.value_width, self.s.vectors * self.lanes, columns)

    def _finish(self) -> None:
        """The result: sums by weights."""
        out = self.b.outputs[0]
        with self.b.loop(0, self.rows) as row:
            start, _ = self.p.place(out, 3, self.image, self.head, im.add(self.first, row), self.queries)
            weight = self.weight.load_flat(row)
            factor = scalars.splat(arith.divf(scalars.constant_like(1, weight), weight), self.lanes)

            def columns(
                c: im.Index, left: int, row: im.Index = row, start: im.Index = start, factor: ir.Value = factor
            ) -> None:
                mask = self._mask(left) if left < self.lanes else None
                v = arith.mulf(self.sum.load_vector(im.add(im.mul(row, self.value_stride), c), self.lanes), factor)
                out.store_vector(self.sums.narrow(v), im.add(start, c), mask)

            self._pieces(self.p.value_width, self.lanes, columns)
