"""Asking for packed weights before a contraction's tiles need them, and how far ahead that pays."""

from __future__ import annotations

from collections.abc import Sequence

from mlir.dialects import memref

from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels import scalars
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.kernel_function import KernelFunction
from onnxc.passes.kernels.matmul_problem import Matmul

MEMORY_BYTES = 32 << 20  # of weights in a model: more are taken to come from memory in each run
STREAM_BYTES = 4 << 10  # ahead in a stream from memory
EARLY = 128  # rows ahead
BUSY = 0.8  # of the time that memory takes for a row: so long multiply-adds leave hardware behind


def prefetch_distance(tiles: int, rows: int, row_bytes: int, kernel: KernelFunction, target) -> int:
    """How far ahead weights are prefetched (see `prefetch_panels`) in units of so many row tiles of `rows` rows."""
    return 1 if tiles > 1 else stream_distance(rows, row_bytes, kernel, target)


def stream_distance(rows: int, row_bytes: int, kernel: KernelFunction, target) -> int:
    """How many rows of a panel, of `row_bytes` each, ahead one tile of `rows` rows asks for weights that it reads once.

    The hardware sees streams. With one row what comes from memory gains 10 to 20 % by being asked for 4 KB earlier;
    from L2 and L3 that costs as much. A core that `reads_ahead` loses 10 to 40 % with 2 to 6 rows, from L3 and from
    memory; but where multiply-adds take nearly as long as reading from memory it is late by itself (Zen 4, 4096²: 8
    rows at 69 % of reading, 88 to 94 % asked for early; 13 rows 1.5 times as fast).
    """
    if rows == 1:
        return STREAM_BYTES // row_bytes if kernel.streams_weights else 0
    if target.core.reads_ahead:
        return EARLY if rows * target.core.memory >= BUSY * 2 * target.core.gigaflops else 0
    return 32 if rows > 4 else 16


def distances(
    ahead: int, rows: int, height: int, alone: im.Index | bool, row_bytes: int, kernel: KernelFunction, target
) -> list[tuple[int, im.Index | bool]]:
    """How far ahead a tile of `rows` rows asks, and when, where a run tells how many tiles of `height` rows there are.

    Rows left over, and a tile that is the only one (`alone`), ask in their own panel, as code for just them does (2
    rows, weights from L3: 1.28 → 1.06 of the time of that code); `ahead` is for the others.
    """
    own = stream_distance(rows, row_bytes, kernel, target) if ahead else 0
    if rows < height:
        return [(own, True)]
    return [(own, alone), (1, im.negate(alone))] if ahead == 1 else [(ahead, True)]


def prefetch_panels(
    buffer,
    panel: im.Index,
    stride: im.Index,
    width: int,
    ahead: int,
    tiles: im.Index,
    tile: im.Index,
    terms: im.Index,
    k: im.Index,
    target,
    near: bool = False,
) -> None:
    """Asks for weights before they are needed, at row `k` (of `terms`) of the panel that starts at `panel`.

    `ahead` = 1: each of the unit's row tiles (`tile` of `tiles`) asks for a share of the next panel, spread over k: the
    largest single gain on cold weights. Where a run tells how many tiles there are, each asks for a whole row from
    where its share begins (16 rows of MiniLM take 1.09 times as long where it asks for a third).
    Into L2, or `near`, into L1: on a core that `reads_ahead` products take 0.97 to 0.99 of the time so (MiniLM, 128
    tokens), convolutions 1.01 (resnet50, mobilenetv2).
    `ahead` > 1: the row that many rows ahead in the stream, where few tiles share a panel. Into L1, but into L2 on a
    core that `reads_ahead`, where 8 rows from memory take 0.85 of the time so.
    """
    line = 64 // scalars.byte_width(buffer.elem)
    if ahead == 1:
        share = im.floordiv(im.add(im.sub(tiles, 1), width), tiles)
        start = im.add(im.add(panel, stride), im.mul(im.mul(tile, terms), share))
        start = im.add(start, im.mul(k, share))
        lines = -(-(share if isinstance(share, int) else width) // line)
    else:
        start = im.add(panel, im.mul(im.add(k, ahead), width))
        lines = -(-width // line)
    near = near if ahead == 1 else not target.core.reads_ahead
    for i in range(lines):
        memref.prefetch(buffer.memory, [im.value(im.add(start, i * line))], False, 3 if near else 2, True)


def prefetch_next_columns(
    b: KernelBuilder, p: Matmul, batch: Sequence[im.Index], k: im.Index, column: im.Index, width: int, number: im.Index
) -> None:
    """Asks for a line of row k of the panel of a B in place that begins with `column`: row tile `number` for another
    one than the tile before it. To the hardware, a panel's rows lie far apart."""
    line = 64 // scalars.byte_width(p.elem)
    place = p.right_offset(b, batch, k, im.add(column, im.mul(im.mod(number, -(-width // line) + 1), line)))
    if place is not None:
        memref.prefetch(b.inputs[p.op.operands[1]].memory, [im.value(place)], False, 2, True)
