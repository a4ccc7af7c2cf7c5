"""Asking for packed weights before a contraction's tiles need them, and how far ahead that pays."""

from __future__ import annotations

from collections.abc import Sequence

from mlir.dialects import memref

from onnxc.dialects import dims
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels import scalars
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.matmul_problem import Matmul

STREAM_BYTES = 4 << 10  # ahead in a stream from memory
FAR = 4  # times L2: what is larger is taken to come from memory


def prefetch_distance(tiles: int, rows: int) -> int:
    """How far ahead weights are prefetched (see `prefetch_panels`) in units of so many row tiles of `rows` rows."""
    if tiles > 1:
        return 1
    return 32 if rows > 4 else 16


def stream_distance(size: dims.Dim, row: int, target) -> int:
    """How many rows of `row` bytes ahead weights of `size` bytes are prefetched that are read once, in a stream.

    The hardware sees streams: only what comes from memory gains by being asked for 4 KB earlier; from L2 and L3 that
    costs 5 to 20 %."""
    return STREAM_BYTES // row if isinstance(size, int) and size > FAR * target.l2_bytes else 0


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
    fewest: int = 3,
    alone: int = 0,
) -> None:
    """Asks for weights before they are needed, at row `k` (of `terms`) of the panel that starts at `panel`.

    `ahead` = 1: each of the unit's row tiles (`tile` of `tiles`) asks for a share of the next panel, spread over k: the
    largest single gain on cold weights; where their number is known at run time only, there are at least `fewest`.
    `ahead` > 1: the row that many rows ahead in the stream, where few tiles share a panel. `alone`: a run may find that
    there is but one tile, of that many rows, which then does so, too (2 rows, weights from L3: 1.28 → 1.06 of the time
    that code for 2 rows takes).
    """
    line = 64 // scalars.byte_width(buffer.elem)
    if ahead == 1:
        share = im.floordiv(im.add(im.sub(tiles, 1), width), tiles)
        start = im.add(im.add(panel, stride), im.mul(im.mul(tile, terms), share))
        if alone:
            one = im.compare(tiles, "==", 1)
            start = im.select(one, im.add(panel, prefetch_distance(1, alone) * width), start)
            share = im.select(one, width, share)
        start = im.add(start, im.mul(k, share))
        lines = -(-(share if isinstance(share, int) else -(-width // (1 if alone else fewest))) // line)
    else:
        start = im.add(panel, im.mul(im.add(k, ahead), width))
        lines = -(-width // line)
    for i in range(lines):
        memref.prefetch(buffer.memory, [im.value(im.add(start, i * line))], False, 3 if ahead > 1 or alone else 2, True)


def prefetch_next_columns(
    b: KernelBuilder, p: Matmul, batch: Sequence[im.Index], k: im.Index, column: im.Index, width: int, number: im.Index
) -> None:
    """Asks for a line of row k of the panel of a B in place that begins with `column`: row tile `number` for another
    one than the tile before it. To the hardware, a panel's rows lie far apart."""
    line = 64 // scalars.byte_width(p.elem)
    place = p.right_offset(b, batch, k, im.add(column, im.mul(im.mod(number, -(-width // line) + 1), line)))
    if place is not None:
        memref.prefetch(b.inputs[p.op.operands[1]].memory, [im.value(place)], False, 2, True)
