"""Kernel kind `attention`: softmax(scale·Q·Kᵀ + mask)·V, head by head, the scores never in memory as a whole.

    kernel.attention(q, k, v, mask?) {scale, heads, kv_heads}
Operands are [B, rows, heads·width] (heads side by side) or [B, heads, rows, width]; mask is added, broadcast to [B,
heads, queries, keys]. A unit is a block of queries of one head. K is turned into columns, the scores are computed,
their powers summed, and V's rows added up with them. Keys of a short sequence are one block: whole rows of scores
become softmax, and the sums stay in registers. More keys are gone through in blocks, beside a running maximum: what was
summed before is scaled down when that grows. The number of keys decides, at run time where only that knows it; the size
of blocks depends on the width alone, so the bits do too, unless somebody asks for another one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from mlir import ir
from mlir.dialects import arith

from onnxc.dialects import dims
from onnxc.passes import maths
from onnxc.passes.kernels import contraction, scalars
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels.attention_operands import Operands
from onnxc.passes.kernels.attention_problem import Attention
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.kernel_function import ELEMENT, MULTIPLY_ADD, KernelFunction, Launch
from onnxc.passes.kernels.packing import entries
from onnxc.passes.kernels.register_tiles import halves_vectors, tile_registers
from onnxc.passes.kernels.rows import larger, largest, piece_width, sweep, total
from onnxc.passes.kernels.schedule_space import distinct, interleaved

QUERIES = 96  # a unit's queries: K and V are read once for all of them; the stack holds the scores of no more
MOST_ASKED = 4  # keys that a query asks for: the arithmetic of fewer queries does not hide it (1 on 512 keys: 0.83)
VECTORS = 2
SMALL = 4  # rows of a tile of what is left over: with two vectors a step takes as long as with one row, by latency
KEYS = 64  # a block of keys is so many times a number: whole tiles of any width
MOST_KEYS = 1024
STACK_BYTES = 512 << 10  # what a unit may take of a thread's stack
Rows = Sequence[im.Index]


@dataclass(frozen=True)
class AttentionSchedule:
    """`queries` a unit; register tile `rows` queries × `vectors` of keys, or of the values' columns; `keys` that are
    gone through at once, 0: as many as the width has it (other numbers give other bits)."""

    queries: int
    rows: int
    vectors: int
    keys: int = 0


def choose(kernel: KernelFunction, target) -> dict[str, int | str]:
    rows = next(r for r in (12, 8, 4, 1) if tile_registers(r, VECTORS, target) <= target.vector_registers)
    vectors = 1 if halves_vectors(target) else VECTORS  # 0.98 to 0.99 of the time (register_tiles.py says why)
    return entries(AttentionSchedule(_queries(Attention.of(kernel).queries, rows), rows, vectors))


def _queries(queries: dims.Dim, rows: int) -> int:
    """An even share of the queries, or whole tiles."""
    if not isinstance(queries, int):
        return QUERIES
    count = max(1, -(-queries // QUERIES))
    share = -(-queries // count)
    return max(1, share if share * count == queries else -(-share // rows) * rows)


def candidates(kernel: KernelFunction, target) -> list[dict[str, int | str]]:
    """Other register tiles, fewer queries a unit, and all keys or half of them at once; the heuristic's first."""
    p, first = Attention.of(kernel), choose(kernel, target)
    larger_blocks: list[dict[str, int | str]] = []
    if isinstance(p.keys, int) and p.keys > key_block(p):
        counts = [-(-p.keys // (parts * KEYS)) * KEYS for parts in (1, 2)]
        fitting = [n for n in counts if n != key_block(p) and n in key_blocks(p, int(first["queries"]))]
        larger_blocks = [first | {"keys": n} for n in fitting]
    tiles = [first | {"rows": r, "vectors": v} for v in (2, 4, 1) for r in (12, 6, 4, 14, 8, 3)]
    fits = [s for s in tiles if tile_registers(s["rows"], s["vectors"], target) <= target.vector_registers]
    fewer = [first | {"queries": n} for n in (64, 32, 16)]
    return distinct(first, interleaved(larger_blocks, fits, fewer))


def key_block(p: Attention) -> int:
    """The keys that are gone through at once. It depends on the width alone, so that the bits do too."""
    return 128 if p.width <= 64 else 64


def key_blocks(p: Attention, queries: int) -> range:
    """How many keys may be gone through at once: scores, keys and values of a unit fit on the stack."""
    most = STACK_BYTES // scalars.byte_width("f32") // (queries + p.width + p.value_width)
    return range(KEYS, min(MOST_KEYS, most) + 1, KEYS)


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
        self.block = s.keys or key_block(p)
        self.x = Operands(b, p, self.sums, self.block, s.vectors * self.lanes)
        self.queries, self.keys = self.x.queries, self.x.keys
        self.one_unit, self.whole = dims.at_least(s.queries, p.queries), dims.at_least(self.block, p.keys)
        rows = int(max(1, min(s.queries, dims.bounds(p.queries)[1])))
        self.scores = self.sums.room(rows * self.x.stride)
        self.top, self.weight, self.factor = (self.sums.room(rows) for _ in range(3))
        if not self.whole:
            self.sum = self.sums.room(rows * self.x.value_stride)

    def run(self) -> None:
        b = self.b
        units = im.ceildiv(self.queries, self.s.queries)
        with b.loop(b.begin, b.end) as unit:
            self.x.select(im.floordiv(unit, units))
            self.first = im.mul(im.mod(unit, units), self.s.queries)
            left = self.queries if self.one_unit else im.sub(self.queries, self.first)
            even = b.divides(self.s.queries, self.queries)
            self.rows = self.s.queries if even else im.minimum(left, self.s.queries)
            if self.whole:
                self.key, self.count, self.begins, self.ends = 0, self.keys, True, True
                self._keys()
            else:
                with b.loop(0, im.maximum(self.keys, 1), self.block) as self.key:  # without keys, results are 0
                    even = b.divides(self.block, self.keys)
                    self.count = self.block if even else im.minimum(im.sub(self.keys, self.key), self.block)
                    self.begins = im.compare(self.key, "==", 0)
                    self.ends = im.compare(im.add(self.key, self.block), ">=", self.keys)
                    self._keys()

    def _keys(self) -> None:
        """Goes through a block of keys: turned into columns; values are copied where more than one tile reads them."""
        x = self.x
        x.turn_keys(self.key, self.count)
        copied = im.compare(self.rows, ">", self.s.rows) if self.p.elem == self.sums.compute else True
        if copied is not False:
            with self.b.when(copied):
                x.copy_values(self.key, self.count)
        self._tiles(self._scores_of)
        each = -(-self.block // self.s.queries)  # of the next block's keys, by each query
        with self.b.loop(0, self.rows) as row:
            for i in [] if self.whole or each > MOST_ASKED else range(0, self.block, self.s.queries):
                x.ask(im.add(im.add(self.key, self.block), im.add(row, i)))
            self._soften(row)
        read = x.values_at(self.key, copied)
        self._tiles(lambda rows: self._add_values(rows, read))

    def _tiles(self, tile: Callable[[Rows], None]) -> None:
        """`tile(rows)` for all of the unit's rows.

        Of a number that only a run tells, those left over are one row, the query of a decoder, or small tiles, filled
        up with the last row again: all that is computed of it is the same, and code for every number is not needed."""
        height, rows = self.s.rows, self.rows
        if isinstance(rows, int):
            tiles = im.ceildiv(rows, height)
            contraction.row_tiles(
                self.b, rows, height, 0, tiles, lambda row, n: tile([im.add(row, r) for r in range(n)])
            )
            return
        whole = im.mul(im.floordiv(rows, height), height)
        with self.b.loop(0, whole, height) as row:
            tile([im.add(row, r) for r in range(height)])
        small, last = min(SMALL, height), im.sub(rows, 1)
        alone = im.compare(whole, "==", last)
        with self.b.when(alone):
            tile([whole])
        with self.b.loop(im.select(alone, rows, whole), rows, small) as row:
            tile([im.minimum(im.add(row, r), last) for r in range(small)])

    def _scores_of(self, rows: Rows) -> None:
        """scores[row, t] = scale · q[row]·k[t] + mask."""
        vectors = im.ceildiv(self.count, self.lanes)
        whole = im.mul(im.floordiv(vectors, self.s.vectors), self.s.vectors)
        for wide, first, last in ((self.s.vectors, 0, whole), (1, whole, vectors)):
            if not (isinstance(last, int) and first == last):
                self._score_tiles(rows, wide, im.mul(first, self.lanes), im.mul(last, self.lanes))

    def _score_tiles(self, rows: Rows, vectors: int, first: im.Index, last: im.Index) -> None:
        """Of keys from `first` to `last`, in tiles of `vectors`."""
        x = self.x
        starts = [self.p.place(x.q, 0, x.image, x.head, im.add(self.first, row), self.queries)[0] for row in rows]
        with self.b.loop(first, last, vectors * self.lanes) as t:

            def load(d: im.Index):
                queries = [self.sums.widen(x.q.load_flat(im.add(start, d))) for start in starts]
                column = im.add(im.mul(d, x.stride), t)
                return queries, [
                    x.columns.load_vector(im.add(column, v * self.lanes), self.lanes) for v in range(vectors)
                ]

            zeros = [self.sums.zero()] * (len(rows) * vectors)
            acc = contraction.sum_products(self.b, self.sums, len(rows), vectors, 0, self.p.width, load, zeros)
            for v in range(vectors):
                self._store_scores(rows, acc[v::vectors], im.add(t, v * self.lanes))

    def _store_scores(self, rows: Rows, products: Sequence[ir.Value], t: im.Index) -> None:
        add_mask = self.x.mask_at(im.add(self.key, t), im.sub(self.count, t))
        for row, product in zip(rows, products, strict=True):
            score = scalars.mul(product, scalars.constant_like(self.p.scale, product))
            score = add_mask(score, im.add(self.first, row))
            self.scores.store_vector(score, im.add(im.mul(row, self.x.stride), t))

    def _soften(self, row: im.Index) -> None:
        """scores[row] become powers beside the running maximum; `factor` scales down what was summed before.

        `weight` is the sum of all powers so far, after the last block its reciprocal.
        """
        b, scalar = self.b, scalars.element_type(self.sums.compute)
        base, width = im.mul(row, self.x.stride), piece_width(b, self.sums.compute)

        def best(i: im.Index, mask: ir.Value | None, carried: list[ir.Value]) -> list[ir.Value]:
            return [larger(carried[0], self.scores.load_vector(im.add(base, i), width, mask))]

        low, zero = scalars.constant(float("-inf"), scalar), scalars.constant(0, scalar)
        before = b.choose(self.begins, scalar, lambda: low, lambda: self.top.load_flat(row))
        top = scalars.maximum(before, largest(sweep(b, self.count, self.sums.compute, [low], best)[0]))
        # a row masked so far has no maximum yet: its powers are 0, not exp(-inf + inf)
        shift = arith.select(scalars.compare(top, "==", low), zero, top)

        def powers(i: im.Index, mask: ir.Value | None, carried: list[ir.Value]) -> list[ir.Value]:
            x = self.scores.load_vector(im.add(base, i), width, mask)
            e = maths.exp_of_decay(arith.subf(x, scalars.splat(shift, width)))
            self.scores.store_vector(e, im.add(base, i), mask)
            return [arith.addf(carried[0], e)]

        added = total(sweep(b, self.count, self.sums.compute, [zero], powers)[0])

        def joined() -> ir.Value:
            factor = maths.exp_of_decay(arith.subf(before, shift))
            self.factor.store_flat(factor, row)
            return arith.addf(arith.mulf(self.weight.load_flat(row), factor), added)

        weight = b.choose(self.begins, scalar, lambda: added, joined)
        one = scalars.constant_like(1, weight)
        if dims.bounds(self.p.keys)[0] < 1:  # a sum over no keys is 0, whatever its weights
            weight = self.b.choose(im.compare(self.keys, "==", 0), scalar, lambda: one, lambda: weight)
        weight = b.choose(self.ends, scalar, lambda: arith.divf(one, weight), lambda: weight)
        self.weight.store_flat(weight, row)
        if not self.whole:
            self.top.store_flat(top, row)

    def _add_values(self, rows: Rows, read: Callable[[im.Index, im.Index, int], ir.Value]) -> None:
        """sum[row] = factor·sum[row] + Σ over the block's keys of scores[row, t]·v[t]; in the end it is the result.

        `read(t, column, left)` gives a vector of v[t], of which `left` columns are there."""
        x, vectors = self.x, self.s.vectors

        def columns(c: im.Index, left: int) -> None:
            def load(t: im.Index):
                starts = [(im.add(c, v), left - v) for v in range(0, vectors * self.lanes, self.lanes)]
                values = [read(t, at, inside) if inside > 0 else self.sums.zero() for at, inside in starts]
                return [self.scores.load_flat(im.add(im.mul(row, x.stride), t)) for row in rows], values

            places = [
                im.add(im.add(im.mul(row, x.value_stride), c), v * self.lanes) for row in rows for v in range(vectors)
            ]
            zeros = [self.sums.zero()] * len(places)
            so_far = partial(self._so_far, rows, places)
            before = self.b.choose_all(self.begins, [v.type for v in zeros], lambda: zeros, so_far)
            after = contraction.sum_products(self.b, self.sums, len(rows), vectors, 0, self.count, load, before)
            with self.b.when(self.ends):
                self._store(rows, c, left, after)
            if self.ends is not True:
                with self.b.when(im.negate(self.ends)):
                    for place, v in zip(places, after, strict=True):
                        self.sum.store_vector(v, place)

        x.pieces(self.p.value_width, vectors * self.lanes, columns)

    def _so_far(self, rows: Rows, places: list[im.Index]) -> list[ir.Value]:
        factors = [scalars.splat(self.factor.load_flat(row), self.lanes) for row in rows]
        vectors = len(places) // len(rows)
        return [arith.mulf(self.sum.load_vector(at, self.lanes), factors[i // vectors]) for i, at in enumerate(places)]

    def _store(self, rows: Rows, column: im.Index, left: int, sums: list[ir.Value]) -> None:
        """The result: sums by weights."""
        out, x, vectors = self.b.outputs[0], self.x, len(sums) // len(rows)
        for r, row in enumerate(rows):
            start, _ = self.p.place(out, 3, x.image, x.head, im.add(self.first, row), self.queries)
            factor = scalars.splat(self.weight.load_flat(row), self.lanes)
            for v in range(vectors):
                inside = left - v * self.lanes
                if inside <= 0:
                    continue
                mask = x.lanes_before(inside) if inside < self.lanes else None
                value = self.sums.narrow(arith.mulf(sums[r * vectors + v], factor))
                out.store_vector(value, im.add(start, im.add(column, v * self.lanes)), mask)
