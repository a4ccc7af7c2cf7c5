"""Row kernels' common ground: sweeps over one row in 64 virtual lanes, whatever the machine's vectors are.

A row is a run of `length` consecutive elements. A sweep goes through it in chunks of LANES, each in pieces of the
machine's width; accumulators have LANES lanes, which `reduce.joined_lanes` joins, so the bits are the same everywhere.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mlir import ir
from mlir.dialects import arith, vector

from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels import scalars
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.reduce import LANES, joined_lanes, lane_mask

# What a sweep does with one piece: (position in the row, mask or None, this piece's accumulators) → next accumulators.
Piece = Callable[[im.Index, ir.Value | None, list[ir.Value]], list[ir.Value]]


def piece_width(b: KernelBuilder, elem: str) -> int:
    """Lanes of one machine vector."""
    return max(4, min(LANES, b.target.vector_bits // scalars.bit_width(elem)))


def rows_at_once(b: KernelBuilder, elem: str, most: int) -> int:
    """How many rows may go through a sweep together: half the registers hold accumulators."""
    return max(1, min(most, b.target.vector_registers * piece_width(b, elem) // (2 * LANES)))


def in_blocks(b: KernelBuilder, count: int, body: Callable[[list[im.Index]], None]) -> None:
    """`body(rows)` for `count` rows of the call's range at a time, then for the rest one by one.

    What a row waits for (the joining of lanes, a division, a root) is hidden behind the others."""
    done: im.Index = b.begin
    if count > 1:
        done = im.add(b.begin, im.mul(im.floordiv(im.sub(b.end, b.begin), count), count))
        with b.loop(b.begin, done, count) as row:
            body([im.add(row, i) for i in range(count)])
    with b.loop(done, b.end) as row:
        body([row])


def sweep(b: KernelBuilder, length: im.Index, elem: str, starts: list[ir.Value], piece: Piece) -> list[ir.Value]:
    """Runs `piece` over a row and returns the accumulators, each a vector of LANES lanes (from `starts`, scalars)."""
    width = piece_width(b, elem)
    count = LANES // width
    initial = [scalars.splat(s, width) for s in starts for _ in range(count)]

    def partly(i: im.Index, left: im.Index, mine: list[ir.Value]) -> list[ir.Value]:
        if isinstance(left, int) and left >= width:
            return piece(i, None, mine)
        mask = lane_mask(left, width)
        return [arith.select(mask, v, old) for v, old in zip(piece(i, mask, mine), mine, strict=True)]

    def chunk(i: ir.Value, carried: list[ir.Value], rest: im.Index | None) -> list[ir.Value]:
        columns = [carried[k * count : (k + 1) * count] for k in range(len(starts))]
        results: list[list[ir.Value]] = [[] for _ in starts]
        for j in range(count):
            at, mine = im.add(i, j * width), [column[j] for column in columns]
            left = LANES if rest is None else im.sub(rest, j * width)
            # most rows are short of a chunk by some whole vectors
            some = j == 0 or im.compare(left, ">", 0)
            new = b.choose_all(some, [v.type for v in mine], partial(partly, at, left, mine), lambda mine=mine: mine)
            for k, v in enumerate(new):
                results[k].append(v)
        return [v for column in results for v in column]

    whole = im.mul(im.floordiv(length, LANES), LANES)
    carried = b.reduce(0, whole, LANES, initial, lambda i, *c: chunk(i, list(c), None))
    if not b.divides(LANES, length):
        rest = im.sub(length, whole)
        carried = b.reduce(whole, length, LANES, carried, lambda i, *c: chunk(i, list(c), rest))
    return [_concatenated(carried[k * count : (k + 1) * count]) for k in range(len(starts))]


def _concatenated(pieces: list[ir.Value]) -> ir.Value:
    """The pieces' lanes one after another."""
    while len(pieces) > 1:
        pieces = [_pair(a, c) for a, c in zip(pieces[::2], pieces[1::2], strict=True)]
    return pieces[0]


def _pair(a: ir.Value, c: ir.Value) -> ir.Value:
    width = ir.VectorType(a.type).shape[0]
    return vector.shuffle(a, c, ir.DenseI64ArrayAttr.get(list(range(2 * width))))


def total(v: ir.Value) -> ir.Value:
    """The sum of all lanes."""
    return joined_lanes(v, scalars.add)


def larger(a: ir.Value, b: ir.Value) -> ir.Value:
    """The larger, in one instruction; beside NaN any of the two: for maxima that are subtracted from what has NaN."""
    return scalars.select(scalars.compare(a, ">", b), a, b)


def largest(v: ir.Value) -> ir.Value:
    """The maximum of all lanes; if one is NaN, of any."""
    return joined_lanes(v, larger)
