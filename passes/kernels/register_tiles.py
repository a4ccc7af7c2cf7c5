"""Chooses the register tile of a contraction: how many rows and vectors of accumulators fit shapes and registers best.

rows·vectors accumulators, a row of B and one broadcast must fit: rows·vectors + vectors + 1 ≤ registers (a tile that
spills is 2× slower); on aarch64 as many elements as there are rows.
"""

from __future__ import annotations

from dataclasses import replace

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
LOAD = 0.6  # cycles of a load of a vector or broadcast: 13×1 of 8 lanes, one a multiply-add, took 8.6 a term
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


def ranked_tiles(rows: dims.Dim, columns: dims.Dim, lanes: int, target, *more, **others) -> list[tuple[int, int]]:
    """Every (rows, vectors) that fits, the lowest of `tile_costs`, which takes all else, first."""
    return [tile for _, tile in tile_costs(rows, columns, lanes, target, *more, **others)]


def tile_costs(
    rows: dims.Dim,
    columns: dims.Dim,
    lanes: int,
    target,
    terms: dims.Dim = 512,
    unknown: int = 1 << 16,
    most: int = MOST_VECTORS,
    row_bytes: dims.Dim = 0,
    tallest: int = TALLEST,
    costly: bool = False,
    panel: int = 0,
    again: bool = False,
    bits: int = 0,
    period: dims.Dim = 0,
    halves: bool = False,
    placed: int = 0,
) -> list[tuple[float, tuple[int, int]]]:
    """An estimate for a sum of `terms` by each (rows, vectors) that fits, the best first; unknown rows count as
    `unknown`. At most `most` vectors and `tallest` rows; rows of A lie `row_bytes` apart; `costly`: the epilogue is
    long, and runs faster (4 % of a matmul with Gelu, 28 % of a convolution with SiLU) where accumulators leave
    registers to it. Of rows and columns of which only a divisor is known, no part of a tile is left over where that
    costs next to nothing; `panel` columns (0: any) are whole tiles. `again`: every tile of rows reads all `terms` of a
    panel of B, which come from behind L2 where it has no room for the panel and the next one, asked for ahead. `bits`
    of a vector (0: as many as there are); rows of an image have `period` rows of A (0: there is no image). `halves`:
    estimated as where wide vectors are halved. `placed`: B is read in place, its rows so
    many bytes apart (0: it is not, or who knows)."""
    bits = bits or target.vector_bits
    m = rows if isinstance(rows, int) else unknown
    n = columns if isinstance(columns, int) else 1 << 16
    if isinstance(row_bytes, int) and row_bytes and row_bytes % SET_BYTES == 0:
        tallest = min(tallest, WAYS)
    exact = isinstance(rows, int) or unknown > 512
    heights = [r for r in range(1, tallest + 1) if exact or r in (1, 2, 4, 8)]  # tails are cut into powers of two
    weights = n * terms * bits // (8 * max(1, lanes)) if isinstance(terms, int) else target.l2_bytes + 1
    if rows == 1 and weights > target.l2_bytes and not placed:
        most = min(most, max(1, ROW_BYTES * 8 // bits))
    candidates = [
        (r, v) for v in range(1, most + 1) for r in heights if tile_registers(r, v, target) <= target.vector_registers
    ]
    if costly and target.vector_registers >= 32:
        candidates = [(r, v) for r, v in candidates if r * v <= 16]
    if panel and panel % lanes == 0:
        candidates = [(r, v) for r, v in candidates if panel % (v * lanes) == 0]
    wide = m >= 512 and isinstance(terms, int) and terms <= 1200

    row = bits // 8  # bytes of a vector of B
    begin = 0 if placed < CLOSE else BEGIN_IN_SET if placed % SET_BYTES == 0 else BEGIN
    far = max(NEAR, row * target.core.gigahertz / target.core.far) if again and isinstance(terms, int) else NEAR

    def cost(tile: tuple[int, int]) -> float:
        near = far == NEAR or 2 * tile[1] * row * terms <= target.l2_bytes * 3 // 4
        size, reading = (max(1, m), max(1, n)), NEAR if near else far
        if halves:
            uneven = UNEVEN if isinstance(period, int) and period % tile[0] else 1.0
            return uneven * _cycles_in_halves(
                *size, terms if isinstance(terms, int) else 512, lanes, *tile, reading, begin, bits
            )
        # wide panels are read faster than tall ones (3 to 5 %), as long as they stay in cache for many rows
        return _cycles(*size, lanes, *tile, reading, begin) * (0.95 if wide and tile == (6, 4) else 1.0)

    def is_whole(tile: tuple[int, int]) -> bool:
        whole = isinstance(rows, int) or dims.mod(rows, tile[0]) == 0
        return whole and (isinstance(columns, int) or dims.mod(columns, tile[1] * lanes) == 0)

    good = WHOLE_TILES * min(map(cost, candidates))
    ranked = sorted(candidates, key=lambda t: (cost(t) > good or not is_whole(t), cost(t), t[0] * t[1], t))
    return [(cost(tile), tile) for tile in ranked]


def best_tile(
    rows: dims.Dim, columns: dims.Dim, lanes: int, target, *more, pointers: bool = False, few: bool = False, **others
) -> tuple[int, int, int]:
    """(rows, vectors, lanes) of the first of `tile_costs`, which takes all else.

    Vectors have half of `lanes` where the target halves wide ones anyway and narrow ones are filled better: 24 columns
    are two vectors of 16, a quarter of which is padding, or three of 8; not where few of them make a tile, which then
    loads more than it computes. `pointers`: rows of A are found anew for each
    tap or tile, which wide tiles make up for: they are as good then. `few`: rows may be fewer than STREAMED, to which
    hardware brings wide panels faster (4 × 4096²: 4×1 takes 3.1 to 3.7 ms, 4×6 2.3). Where B lies in a `panel` already,
    vectors are as narrow as it asks for."""
    halves, half = halves_vectors(target), lanes // 2
    streamed = few and (rows < STREAMED if isinstance(rows, int) else True)
    others["halves"] = halves and not pointers and not streamed
    panel = others.get("panel", 0)
    if halves and half and isinstance(columns, int) and panel % half == 0:
        narrow, wide = (-(-columns // width) * width for width in (half, lanes))
        if panel % lanes or (not panel and rows != 1 and narrow <= WORTH_NARROWING * wide):
            less = tile_costs(rows, columns, half, target, *more, **others, bits=target.vector_bits // 2)[0]
            if panel % lanes or less < tile_costs(rows, columns, lanes, target, *more, **others)[0]:
                return *less[1], half
    return *ranked_tiles(rows, columns, lanes, target, *more, **others)[0], lanes


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


def _cycles(m: int, n: int, lanes: int, rows: int, vectors: int, reading: float, begin: float) -> float:
    """Cycles for one k over all tiles: the largest of arithmetic, loads, latency, and `reading` a vector of B, and to
    `begin` a row of it."""
    tiles = -(-m // rows)
    panels = -(-n // (lanes * vectors))
    height = m / tiles
    arithmetic = height * vectors / 2
    loads = (height + vectors) / 2
    one = max(arithmetic, loads, LATENCY, vectors * reading)
    return tiles * panels * (one + begin + 0.15 * arithmetic / height + 0.3)


def _cycles_in_halves(
    m: int, n: int, terms: int, lanes: int, rows: int, vectors: int, reading: float, begin: float, bits: int
) -> float:
    """The same where 512 bits take both of two pipes, and a row's other instructions have twice the time: what large
    tiles cost is their end, the shorter the sums the more. Small tiles have it beside the next one's products."""
    tiles, panels, parts = -(-m // rows), -(-n // (lanes * vectors)), max(1, bits // 256)
    height = m / tiles
    arithmetic = height * vectors * parts / 2
    loads = LOAD * (height + vectors * parts)
    one = max(arithmetic, loads, LATENCY, vectors * reading)
    end = END * max(0.0, arithmetic - FILLING) / max(1, terms)
    return tiles * panels * (one + begin + 0.075 * vectors + end)
