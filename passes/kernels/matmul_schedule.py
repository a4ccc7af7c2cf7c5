"""The schedule of a matmul kernel, and which one the heuristic chooses."""

from __future__ import annotations

from dataclasses import dataclass

from onnxc.dialects import dims
from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import contraction, prefetching, scalars
from onnxc.passes.kernels.kernel_function import KernelFunction
from onnxc.passes.kernels.matmul_problem import Matmul
from onnxc.passes.kernels.packing import entries
from onnxc.passes.kernels.register_tiles import MOST_VECTORS, Product, TileColumns, best_tile, terms_a_step

CHUNK = 1024  # terms: a tile's rows of A then fit into L1, a panel's chunk is read from L2
CHUNK_BYTES = 32 << 10  # of sums on the stack
COPY_BYTES = 64 << 10  # of a panel that is copied to the stack; half of it, which stays in L1, where it is turned
UNKNOWN = 128  # rows that a number which only a run tells counts as
WORTH_COPYING = 24  # rows that make a copy of B pay, or
FEWEST_NEAR = 4  # row tiles
FEWEST_FAR = 3  # the same where each row of B begins on another page
PAGE_BYTES = 4096


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


def staggers(kernel: KernelFunction, p: Matmul) -> bool:
    """Whether only A is constant, a matrix whose rows would all begin with a cache line: then they do not, where B is
    copied (matmul.packings)."""
    constant = p.a_position in kernel.constants and p.b_position not in kernel.constants
    plain = constant and len(Tensor.of(p.op.operands[0].type).shape) == 2 and not p.trans_a
    return plain and p.k * scalars.byte_width(p.elem) % prefetching.LINE_BYTES == 0


def _is_worth_copying(p: Matmul, in_place: Product, target) -> bool:
    """Whether so many row tiles would read a panel of B in place that a copy pays, fewer where each of its rows lies on
    another page. Granite Rapids, ÷ in place: 20 × 1024² in four tiles 0.86, 20 × 768×3072 0.72, 16 × 512² in two 1.07;
    AVX2 there, 20 × 1024² in five 0.64, 16 × 256² in four 0.90, 16 × 300×200 in three 1.07."""
    if not isinstance(p.rows, int):
        return dims.bounds(p.rows)[1] >= WORTH_COPYING
    far = isinstance(p.n, int) and p.n * scalars.byte_width(p.elem) >= PAGE_BYTES
    tiles = contraction.tile_count(p.rows, best_tile(in_place, target)[0])
    return p.rows >= WORTH_COPYING or tiles >= (FEWEST_FAR if far else FEWEST_NEAR)


def _product(kernel: KernelFunction, p: Matmul, target, packed: int, copied: int, panel: int) -> Product:
    """What decides the tile, where B is packed, copied, or read in place."""
    sums = contraction.arithmetic(p.elem, target, p.n)
    terms = min(p.k, contraction.BLOCK) if isinstance(p.k, int) else contraction.BLOCK
    room = COPY_BYTES // (2 if p.turns_b else 1)
    most = room // max(1, terms * sums.lanes * scalars.byte_width(sums.compute)) if copied else MOST_VECTORS
    about = int(max(1, min(UNKNOWN, dims.bounds(p.rows)[1])))
    apart = 0 if p.trans_a or (copied and staggers(kernel, p)) else p.k * scalars.byte_width(p.elem)
    placed = 0 if packed or copied or not (p.reads_b_in_rows and isinstance(p.n, int)) else p.n
    return Product(
        p.rows, p.n, sums.lanes, p.k, unknown=about, most=max(1, min(most, MOST_VECTORS)), row_bytes=apart, panel=panel,
        costly=contraction.has_costly_epilogue(kernel), placed=placed * scalars.byte_width(p.elem), few=bool(packed),
    )  # fmt: skip


def choose(kernel: KernelFunction, target, panel: int = 0) -> dict[str, int | str]:
    """The heuristic schedule for the kernel's shapes; a constant B is packed, of another each unit copies its panel.

    `panel`: B lies in panels of so many columns already."""
    p = Matmul.of(kernel)
    packed = int(p.b_position in kernel.constants and p.has_n and not p.transposed_batch_b)
    in_place = _product(kernel, p, target, packed, 0, panel)
    copied = int(not packed and p.n != 1 and (p.turns_b or _is_worth_copying(p, in_place, target)))
    product = _product(kernel, p, target, packed, copied, panel) if copied else in_place
    rows, vectors, lanes = best_tile(product, target)
    width_bytes = vectors * lanes * scalars.byte_width(contraction.arithmetic(p.elem, target).compute)
    k, width = p.k if isinstance(p.k, int) else 512, vectors * lanes
    tiles = contraction.tile_count(p.rows, rows)
    panels = (p.n + (width - 1)) // width * dims.product(p.batch)
    tile_bytes = max(1, k * scalars.byte_width(p.elem)) * rows
    group = contraction.tiles_a_unit(tiles, panels, tile_bytes, target, copied=bool(copied))
    chunk = 0
    most_tiles = CHUNK_BYTES // (rows * width_bytes)
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
