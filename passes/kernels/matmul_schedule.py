"""The schedule of a matmul kernel, and which one the heuristic chooses."""

from __future__ import annotations

from dataclasses import dataclass

from onnxc.dialects import dims
from onnxc.passes.kernels import contraction, prefetching, scalars
from onnxc.passes.kernels.kernel_function import KernelFunction
from onnxc.passes.kernels.matmul_problem import Matmul
from onnxc.passes.kernels.packing import entries
from onnxc.passes.kernels.register_tiles import MOST_VECTORS, Product, TileColumns, best_tile, terms_a_step

CHUNK = 1024  # terms: a tile's rows of A then fit into L1, a panel's chunk is read from L2
CHUNK_BYTES = 32 << 10  # of sums on the stack
COPY_BYTES = 64 << 10  # of a panel that is copied to the stack; half of it, which stays in L1, where it is turned
UNKNOWN = 128  # rows that a number which only a run tells counts as
WORTH_COPYING = 24  # rows that make a copy of B pay


@dataclass(frozen=True)
class MatmulSchedule(TileColumns):
    """Register tile `rows` × `vectors` of `lanes`; `group` row tiles a unit; `packed`: B lies in panels; `prefetch`:
    how far ahead they are asked for (prefetching.Panels.ask; of a copied B, a panel); `chunk`: terms that all
    row tiles of a unit go through before the next ones, their sums kept on the stack (0: all at once); `copied`: a
    unit first copies its panel of B (or a chunk) to the stack; `panel`: the columns of a panel, 0: the tile's;
    `unroll`: terms a step of the inner loop; `order`: "rows" has a group of rows go through all panels before the next,
    "columns" a panel through all groups; `apart`: the epilogue is a loop of its own over a tile's sums, which leave
    registers to it."""

    rows: int
    vectors: int
    lanes: int
    group: int
    packed: int = 0
    prefetch: int = 0
    chunk: int = 0
    copied: int = 0
    panel: int = 0
    unroll: int = 1
    order: str = "rows"
    apart: int = 0


def choose(kernel: KernelFunction, target, panel: int = 0) -> dict[str, int | str]:
    """The heuristic schedule for the kernel's shapes; a constant B is packed, of another each unit copies its panel.

    `panel`: B lies in panels of so many columns already."""
    p = Matmul.of(kernel)
    sums = contraction.arithmetic(p.elem, target, p.n)
    packed = int(p.b_position in kernel.constants and p.has_n and not p.transposed_batch_b)
    most_rows = dims.bounds(p.rows)[1]
    copied = int(not packed and p.n != 1 and (most_rows >= WORTH_COPYING or p.turns_b))
    terms = min(p.k, contraction.BLOCK) if isinstance(p.k, int) else contraction.BLOCK
    room = COPY_BYTES // (2 if p.turns_b else 1)
    most = room // max(1, terms * sums.lanes * scalars.byte_width(sums.compute)) if copied else MOST_VECTORS
    most, costly = max(1, min(most, MOST_VECTORS)), contraction.has_costly_epilogue(kernel)
    about, apart = int(max(1, min(UNKNOWN, most_rows))), 0 if p.trans_a else p.k * scalars.byte_width(p.elem)
    placed = 0 if packed or copied or not (p.reads_b_in_rows and isinstance(p.n, int)) else p.n
    product = Product(
        p.rows, p.n, sums.lanes, p.k, unknown=about, most=most, row_bytes=apart, panel=panel, costly=costly,
        placed=placed * scalars.byte_width(p.elem), few=bool(packed),
    )  # fmt: skip
    rows, vectors, lanes = best_tile(product, target)
    k, width = p.k if isinstance(p.k, int) else 512, vectors * lanes
    tiles = contraction.tile_count(p.rows, rows)
    panels = (p.n + (width - 1)) // width * dims.product(p.batch)
    tile_bytes = max(1, k * scalars.byte_width(p.elem)) * rows
    group = contraction.tiles_a_unit(tiles, panels, tile_bytes, target, copied=bool(copied))
    chunk = 0
    most_tiles = CHUNK_BYTES // (rows * width * scalars.byte_width(sums.compute))
    if copied and not (isinstance(p.k, int) and p.k <= contraction.BLOCK):
        chunk, group = contraction.BLOCK, max(1, min(group, most_tiles))
    elif packed and k > 2 * CHUNK and 1 < group <= most_tiles:
        chunk = CHUNK
    ahead, wider = copied, panel if panel != width else 0
    if packed:
        line = width * scalars.byte_width(p.elem)
        ahead = 0 if wider else prefetching.prefetch_distance(group, rows, line, kernel, target)
    step = terms_a_step(p.k, rows, vectors, target)
    return entries(MatmulSchedule(rows, vectors, lanes, group, packed, ahead, chunk, copied, wider, step))
