"""Chooses the register tile of a contraction: how many rows and vectors of accumulators fit shapes and registers best.

rows·vectors accumulators, a row of B and one broadcast must fit: rows·vectors + vectors + 1 ≤ registers (a tile that
spills is 2× slower); on aarch64 as many elements as there are rows.
"""

from __future__ import annotations

from onnxc.dialects import dims

LATENCY = 4  # cycles of a multiply-add
MOST_VECTORS = 8
TALLEST = 14
SET_BYTES = 4096  # rows that far apart, or a multiple, lie in one set of L1
WAYS = 8  # rows that such a set holds: 14 of them ran at 72 % of what 8 or 6 reach
ROW_BYTES = 256  # of B a step where there is one row and B comes from beyond L2: more is read 10 to 20 % slower
WHOLE_TILES = 1.03  # what it may cost that no rows are left over
NEAR = 1.6  # cycles for which a vector of B comes from L2


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


def ranked_tiles(
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
) -> list[tuple[int, int]]:
    """Every (rows, vectors) that fits, the lowest estimate for a sum of `terms` first; unknown rows count as
    `unknown`. At most `most` vectors and `tallest` rows; rows of A lie `row_bytes` apart; `costly`: the epilogue is
    long, and runs faster (4 % of a matmul with Gelu, 28 % of a convolution with SiLU) where accumulators leave
    registers to it. Of rows and columns of which only a divisor is known, no part of a tile is left over where that
    costs next to nothing; `panel` columns (0: any) are whole tiles. `again`: every tile of rows reads all `terms` of a
    panel of B, which come from behind L2 where it has no room for the panel and the next one, asked for ahead."""
    m = rows if isinstance(rows, int) else unknown
    n = columns if isinstance(columns, int) else 1 << 16
    if isinstance(row_bytes, int) and row_bytes and row_bytes % SET_BYTES == 0:
        tallest = min(tallest, WAYS)
    exact = isinstance(rows, int) or unknown > 512
    heights = [r for r in range(1, tallest + 1) if exact or r in (1, 2, 4, 8)]  # tails are cut into powers of two
    weights = n * terms * target.vector_bits // (8 * max(1, lanes)) if isinstance(terms, int) else target.l2_bytes + 1
    if rows == 1 and weights > target.l2_bytes:
        most = min(most, max(1, ROW_BYTES * 8 // target.vector_bits))
    candidates = [
        (r, v) for v in range(1, most + 1) for r in heights if tile_registers(r, v, target) <= target.vector_registers
    ]
    if costly and target.vector_registers >= 32:
        candidates = [(r, v) for r, v in candidates if r * v <= 16]
    if panel and panel % lanes == 0:
        candidates = [(r, v) for r, v in candidates if panel % (v * lanes) == 0]
    wide = m >= 512 and isinstance(terms, int) and terms <= 1200

    row = target.vector_bits // 8  # bytes of a vector of B
    far = max(NEAR, row * target.core.gigahertz / target.core.far) if again and isinstance(terms, int) else NEAR

    def cost(tile: tuple[int, int]) -> float:
        near = far == NEAR or 2 * tile[1] * row * terms <= target.l2_bytes * 3 // 4
        # wide panels are read faster than tall ones (3 to 5 %), as long as they stay in cache for many rows
        wider = 0.95 if wide and tile == (6, 4) else 1.0
        return _cycles(max(1, m), max(1, n), lanes, *tile, NEAR if near else far) * wider

    def is_whole(tile: tuple[int, int]) -> bool:
        whole = isinstance(rows, int) or dims.mod(rows, tile[0]) == 0
        return whole and (isinstance(columns, int) or dims.mod(columns, tile[1] * lanes) == 0)

    good = WHOLE_TILES * min(map(cost, candidates))
    return sorted(candidates, key=lambda t: (cost(t) > good or not is_whole(t), cost(t), t[0] * t[1], t))


def tile_registers(rows: int, vectors: int, target) -> int:
    """Vector registers that a tile takes: accumulators, a row of B, and what it is multiplied with.

    NEON multiplies by an element of a register: LLVM loads all rows' before the first use, and 14×2 had 15 spills."""
    return rows * vectors + vectors + (rows + 1 if target.arch == "aarch64" else 1)


def _cycles(m: int, n: int, lanes: int, rows: int, vectors: int, reading: float) -> float:
    """Cycles for one k over all tiles: the largest of arithmetic, loads, latency, and `reading` a vector of B."""
    tiles = -(-m // rows)
    panels = -(-n // (lanes * vectors))
    height = m / tiles
    arithmetic = height * vectors / 2
    loads = (height + vectors) / 2
    one = max(arithmetic, loads, LATENCY, vectors * reading)
    return tiles * panels * (one + 0.15 * arithmetic / height + 0.3)
