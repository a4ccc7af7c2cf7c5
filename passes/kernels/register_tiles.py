"""Chooses the register tile of a contraction: how many rows and vectors of accumulators fit shapes and registers best.

rows·vectors accumulators, a row of B and one broadcast must fit: rows·vectors + vectors + 1 ≤ registers (a tile that
spills is 2× slower); on aarch64 as many elements as there are rows.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from onnxc.dialects import dims

LATENCY = 4  # cycles of a multiply-add
STREAMED = 7  # rows whose multiply-adds take as long as reading B from memory
MOST_VECTORS = 8
TALLEST = 14
SET_BYTES = 4096  # rows that far apart, or a multiple, lie in one set of L1
WAYS = 8  # rows that such a set holds: 14 of them ran at 72 % of what 8 or 6 reach
ROW_BYTES = 256  # of B a step where there is one row and B comes from beyond L2: more is read 10 to 20 % slower
STEP = 2  # terms of a step of the inner loop
LOADED = 6  # vector registers for what such a step loads
MANY = 32  # terms of a sum that make a last step of fewer count for little
WHOLE_TILES = 1.03  # what it may cost that no rows are left over
NEAR = 1.6  # cycles for which a vector of B comes from L2
BEGIN = 3  # cycles that a row of a panel in place takes beside, since it is a stream that begins anew
CLOSE = 512  # bytes from one such row to the next, under which all are one stream
BEGIN_IN_SET = 7  # the same where all rows lie in one set of L1: narrow panels of 256 × 1024 took 2 to 6 times as long
# Where wide vectors are halved, fitted to 25 products and 1×1 convolutions with 17 to 55 tiles each on Zen 4:
FILLING = 8  # cycles of a term's products that hide a tile's end: it then runs beside the next tile's products
END = 4  # cycles at a tile's end for each further one
LOAD = 0.6  # cycles of a load of a vector or broadcast: 13×1 of 8 lanes, one a multiply-add, took 8.6 a term; so on
# Zen 3 with AVX2, where 1×1 of 128 channels over 7² takes 57 µs in tiles of 13×1 and 34 in those of 6×2
UNEVEN = 1.03  # what it may cost that tiles do not go over the ends of an image's rows
WORTH_NARROWING = 0.95  # of the columns that wide vectors compute: narrow ones take more instructions


class TileColumns:
    """What a schedule with the fields `vectors` and `lanes` says of columns, and `panel` where it has one."""

    vectors: int
    lanes: int
    panel: int = 0

    @property
    def width(self) -> int:
        """The columns of a tile."""
        return self.vectors * self.lanes

    @property
    def line(self) -> int:
        """The columns of a panel of packed weights."""
        return self.panel or self.width


@dataclass(frozen=True)
class Product:
    """What of a product decides its tile: c[rows, columns] = sums over a[rows, terms] · b[terms, columns].

    lanes      of a vector; `bits`: all of them (0: as many as the target's have)
    unknown    what rows count as where only a run tells their number
    most       vectors of a tile, and `tallest` its rows
    row_bytes  from one row of A to the next
    period     rows of A that a row of an image has (0: there is no image)
    panel      columns in which B lies already, so that tiles divide them (0: they may choose)
    placed     bytes from one row of B to the next, where it is read in place (0: it is not, or who knows)
    costly     the epilogue is long, and runs faster (4 % of a matmul with Gelu, 28 % of a convolution with SiLU) where
               accumulators leave registers to it
    again      every tile of rows reads all of a panel of B, which comes from behind L2 where it has no room for the
               panel and the next one, asked for ahead
    pointers   rows of A are found anew for each tap or tile, which wide tiles make up for
    few        rows may be fewer than STREAMED, to which hardware brings wide panels faster (4 × 4096²: 4×1 takes 3.1 to
               3.7 ms, 4×6 2.3)
    """

    rows: dims.Dim
    columns: dims.Dim
    lanes: int
    terms: dims.Dim = 512
    bits: int = 0
    unknown: int = 1 << 16
    most: int = MOST_VECTORS
    tallest: int = TALLEST
    row_bytes: dims.Dim = 0
    period: dims.Dim = 0
    panel: int = 0
    placed: int = 0
    costly: bool = False
    again: bool = False
    pointers: bool = False
    few: bool = False


def ranked_tiles(product: Product, target: Any) -> list[tuple[int, int]]:
    """Every (rows, vectors) that fits, the best by estimate first."""
    return [tile for _, tile in _Estimates(product, target).ranked()]


def best_tile(product: Product, target: Any) -> tuple[int, int, int]:
    """(rows, vectors, lanes) of the tile with the lowest estimate.

    Vectors have half of `lanes` where the target halves wide ones anyway and narrow ones are filled better: 24 columns
    are two vectors of 16, a quarter of which is padding, or three of 8; not where few of them make a tile, which then
    loads more than it computes. Where B lies in a `panel` already, vectors are as narrow as it asks for.
    """
    streamed = product.few and (product.rows < STREAMED if isinstance(product.rows, int) else True)
    halves = halves_vectors(target) and not product.pointers and not streamed
    narrow = _with_narrow_vectors(product, target)
    if narrow is not None:
        less = _Estimates(narrow, target, halves).ranked()[0]
        if product.panel % product.lanes or less < _Estimates(product, target, halves).ranked()[0]:
            return *less[1], narrow.lanes
    return *_Estimates(product, target, halves).ranked()[0][1], product.lanes


def _with_narrow_vectors(product: Product, target: Any) -> Product | None:
    """The product by vectors of half the lanes, where that may be better."""
    columns, lanes, half, panel = product.columns, product.lanes, product.lanes // 2, product.panel
    if not (halves_vectors(target) and half and isinstance(columns, int) and panel % half == 0):
        return None
    narrow, wide = (-(-columns // width) * width for width in (half, lanes))
    filled = not panel and product.rows != 1 and narrow <= WORTH_NARROWING * wide
    return replace(product, lanes=half, bits=target.vector_bits // 2) if panel % lanes or filled else None


class _Estimates:
    """Which tiles fit a product, and what each takes; `halves`: as where wide vectors are halved."""

    def __init__(self, product: Product, target: Any, halves: bool = False) -> None:
        p = self.p = product
        self.target, self.halves = target, halves
        self.bits = p.bits or target.vector_bits
        self.rows = p.rows if isinstance(p.rows, int) else p.unknown
        self.columns = p.columns if isinstance(p.columns, int) else 1 << 16
        self.terms = p.terms if isinstance(p.terms, int) else 512
        self.begin = 0 if p.placed < CLOSE else BEGIN_IN_SET if p.placed % SET_BYTES == 0 else BEGIN
        self.far = NEAR  # cycles for which a vector of B comes from behind L2
        if p.again and isinstance(p.terms, int):
            self.far = max(NEAR, self.bits // 8 * target.core.gigahertz / target.core.far)

    def ranked(self) -> list[tuple[float, tuple[int, int]]]:
        """An estimate for each (rows, vectors), the best first.

        Of rows and columns of which only a divisor is known, no part of a tile is left over where that costs next to
        nothing."""
        costs = {tile: self.cost(tile) for tile in self.candidates()}
        good = WHOLE_TILES * min(costs.values())
        order = sorted(costs, key=lambda t: (costs[t] > good or not self._is_whole(t), costs[t], t[0] * t[1], t))
        return [(costs[tile], tile) for tile in order]

    def candidates(self) -> list[tuple[int, int]]:
        """The tiles that registers have room for, and that reading A and B allows."""
        p, registers = self.p, self.target.vector_registers
        fitting = [
            (r, v)
            for v in range(1, self._most_vectors() + 1)
            for r in self._heights()
            if tile_registers(r, v, self.target) <= registers
        ]
        if p.costly and registers >= 32:
            fitting = [(r, v) for r, v in fitting if r * v <= 16]
        if p.panel and p.panel % p.lanes == 0:
            fitting = [(r, v) for r, v in fitting if p.panel % (v * p.lanes) == 0]
        return fitting

    def _heights(self) -> list[int]:
        p, tallest = self.p, self.p.tallest
        if isinstance(p.row_bytes, int) and p.row_bytes and p.row_bytes % SET_BYTES == 0:
            tallest = min(tallest, WAYS)
        exact = isinstance(p.rows, int) or p.unknown > 512
        return [r for r in range(1, tallest + 1) if exact or r in (1, 2, 4, 8)]  # tails are cut into powers of two

    def _most_vectors(self) -> int:
        p, l2 = self.p, self.target.l2_bytes
        far = not isinstance(p.terms, int) or self.columns * p.terms * self.bits // (8 * max(1, p.lanes)) > l2
        return min(p.most, max(1, ROW_BYTES * 8 // self.bits)) if p.rows == 1 and far and not p.placed else p.most

    def cost(self, tile: tuple[int, int]) -> float:
        """Cycles for one term over all tiles."""
        p, (rows, vectors) = self.p, tile
        near = self.far == NEAR or 2 * vectors * (self.bits // 8) * p.terms <= self.target.l2_bytes * 3 // 4
        reading = vectors * (NEAR if near else self.far)
        tiles, panels = -(-max(1, self.rows) // rows), -(-max(1, self.columns) // (p.lanes * vectors))
        height = max(1, self.rows) / tiles
        if self.halves:
            uneven = UNEVEN if isinstance(p.period, int) and p.period % rows else 1.0
            return uneven * (tiles * panels * self._cycles_in_halves(height, vectors, reading))
        # wide panels are read faster than tall ones (3 to 5 %), as long as they stay in cache for many rows; on Granite
        # Rapids 8×3 and 9×3 take 0.95 to 0.98 of 6×4's time by themselves, but 1.00 to 1.02 in models of 512 tokens
        wide = self.rows >= 512 and isinstance(p.terms, int) and p.terms <= 1200
        return tiles * panels * self._cycles(height, vectors, reading) * (0.95 if wide and tile == (6, 4) else 1.0)

    def _cycles(self, height: float, vectors: int, reading: float) -> float:
        """Cycles for a term of one tile: the largest of arithmetic, loads, latency, and reading B, and beginning its
        row."""
        arithmetic = height * vectors / 2
        load = LOAD if self.target.vector_bits == 256 else 0.5
        loads = load * (height + vectors)
        return max(arithmetic, loads, LATENCY, reading) + self.begin + 0.15 * arithmetic / height + 0.3

    def _cycles_in_halves(self, height: float, vectors: int, reading: float) -> float:
        """As `_cycles` where 512 bits take both of two pipes, and a row's other instructions have twice the time: what
        large tiles cost is their end, the shorter the sums the more. Small tiles have it beside the next one's
        products."""
        parts = max(1, self.bits // 256)
        arithmetic = height * vectors * parts / 2
        loads = LOAD * (height + vectors * parts)
        end = END * max(0.0, arithmetic - FILLING) / max(1, self.terms)
        return max(arithmetic, loads, LATENCY, reading) + self.begin + 0.075 * vectors + end

    def _is_whole(self, tile: tuple[int, int]) -> bool:
        """Whether no part of a tile is left over, as far as that is not known anyway."""
        p = self.p
        whole = isinstance(p.rows, int) or dims.mod(p.rows, tile[0]) == 0
        return whole and (isinstance(p.columns, int) or dims.mod(p.columns, tile[1] * p.lanes) == 0)


def narrower(tile, target):
    """A schedule whose columns are a vector, or half a one where that takes less time; None: there is none."""
    if tile.vectors > 1:
        return replace(tile, vectors=1)
    return replace(tile, lanes=tile.lanes // 2) if halves_vectors(target) and tile.lanes > 8 else None


def halves_vectors(target) -> bool:
    """Whether the widest vectors of the target's code go through its pipes in two halves."""
    return target.core.halves and target.vector_bits == 512


def terms_a_step(terms: object, rows: int, vectors: int, target) -> int:
    """How many terms of a sum the inner loop of such a tile takes at a time: they share its counting and asking ahead.

    3×3/2 of 128 channels takes 0.96 of the time so on Emerald Rapids, where neighbours on the cores' other threads
    leave an inner loop little time for more than its products. Where wide vectors are halved there is time enough; a
    single vector waits for its broadcasts; where nearly all registers hold sums, LLVM spills some, since it loads ahead
    (14×2).
    """
    shared = target.arch == "x86_64" and not halves_vectors(target)
    if not shared or vectors == 1 or rows * vectors > target.vector_registers - LOADED:
        return 1
    return 1 if isinstance(terms, int) and terms % STEP and terms < MANY else STEP


def tile_registers(rows: int, vectors: int, target) -> int:
    """Vector registers that a tile takes: accumulators, a row of B, and what it is multiplied with.

    NEON multiplies by an element of a register: LLVM loads all rows' before the first use, and 14×2 had 15 spills."""
    return rows * vectors + vectors + (rows + 1 if target.arch == "aarch64" else 1)
