"""Tiles of a product that a run chooses among: for few rows, for which copies of B's panels do not pay, and for a last
panel of few columns.

A copied panel is as narrow as many rows like it: of few rows its copy is most of the time, and B is read in short
pieces, each of which begins on another page where rows of B lie far apart. So few rows go through tiles of FEW rows and
many columns, B being read where it is. What a unit computes stays the same, a panel of columns of one batch: a call
takes the columns of all of its units together. One thread of Zen 4, 256 × 1024, µs, copied and since: 1 row 124 and 34,
4 rows 130 and 31, 8 rows 153 and 57, 16 rows 185 and 107.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from mlir import ir

from onnxc.dialects import dims
from onnxc.passes.kernels import contraction
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.matmul_problem import Matmul
from onnxc.passes.kernels.matmul_schedule import WORTH_COPYING, MatmulSchedule
from onnxc.passes.kernels.register_tiles import MOST_VECTORS, narrower, tile_registers

FEW = 4  # rows of a wide tile: with a tile for each number of rows left over they are little code
FEW_OF_VECTOR = 8  # rows of a tile of one vector
UNKNOWN_VECTORS = 4  # where a run tells how many columns there are: what does not fill a tile goes a vector at a time
BEGINNING = 2  # vectors that it takes as long to read as a tile of FEW rows takes to begin a row of B


def tile_of_few(p: Matmul, s: MatmulSchedule, target) -> MatmulSchedule | None:
    """The schedule for few rows where `s` is for others; None where there never are few, or B has to be gathered and is
    better copied."""
    free = not isinstance(p.rows, int) and dims.bounds(p.rows)[0] < WORTH_COPYING
    if not (s.copied and free and p.reads_b_in_rows):
        return None
    fits = [v for v in range(1, MOST_VECTORS + 1) if tile_registers(FEW, v, target) <= target.vector_registers]
    if isinstance(p.n, int):
        vectors = max(1, p.n // s.lanes)
        best = min(fits, key=lambda v: (vectors // v * (v + BEGINNING) + vectors % v * (1 + BEGINNING), v))
    else:
        best = min(UNKNOWN_VECTORS, fits[-1])
    return replace(s, rows=FEW, vectors=best, group=1, prefetch=0, chunk=0, copied=0, unroll=1)


def vector_of_few(wide: MatmulSchedule) -> MatmulSchedule:
    """The tile for columns that are too few for a `wide` one."""
    return replace(wide, rows=FEW_OF_VECTOR, vectors=1)


def are_few(rows: im.Index, s: MatmulSchedule) -> bool | ir.Value:
    """Whether rows are too few for copies; one unit by `s` does all of them."""
    return im.compare(rows, "<=", min(WORTH_COPYING - 1, s.group * s.rows))


Width = tuple[MatmulSchedule, bool | ir.Value, bool]


def widths(s: MatmulSchedule, n: dims.Dim, left: im.Index, target) -> list[Width]:
    """The tiles that serve a panel of which `left` columns of `n` are there: (tile, when, whether all its columns are).

    The last panel may be much narrower where it lies in place: 33 columns are two vectors and one. Where masks take
    vector registers, as with AVX2, those of tiles would not be enough, so whole panels have code without: 16 × 512² by
    4×3 took 1.55 times as long with."""
    if dims.mod(n, s.width) == 0:
        return [(s, True, True)]
    if s.packed:
        return [(s, True, False)]
    less = narrower(s, target)
    if less is None or (isinstance(n, int) and not 0 < n % s.width <= less.width < n):
        return _with_whole(s, True, n, left, target)
    few = im.compare(left, "<=", less.width)
    wide = [(s, im.negate(few), True)] if isinstance(n, int) else _with_whole(s, im.negate(few), n, left, target)
    return [*wide, (less, few, False)]


def _with_whole(s: MatmulSchedule, when: bool | ir.Value, n: dims.Dim, left: im.Index, target) -> list[Width]:
    if target.vector_bits == 512 or dims.bounds(n)[1] < s.width:
        return [(s, when, False)]
    whole = im.compare(left, ">=", s.width)
    return [(s, whole, True), (s, im.both(when, im.negate(whole)), False)]


Columns = tuple[im.Index, MatmulSchedule, im.Index, list[ir.Value | None]]


def columns_of_few(
    b: KernelBuilder, s: MatmulSchedule, wide: MatmulSchedule, panels: im.Index, of: dims.Dim
) -> Iterator[Columns]:
    """(number of the batch, tile, first column, its masks) of all that a call does with `wide` tiles of few rows, where
    its units by `s` are `panels` a batch, `of` so many columns."""
    panels = im.maximum(panels, 1)
    with b.loop(im.floordiv(b.begin, panels), im.floordiv(im.add(b.end, im.sub(panels, 1)), panels)) as batch:
        before = im.mul(batch, panels)
        first, last = im.maximum(im.sub(b.begin, before), 0), im.minimum(im.sub(b.end, before), panels)
        start, stop = im.mul(first, s.width), im.minimum(im.mul(last, s.width), b.dim(of))
        whole = im.sub(stop, im.mod(im.sub(stop, start), wide.width))
        with b.loop(start, whole, wide.width) as column:
            yield batch, wide, column, [None] * wide.vectors
        one = vector_of_few(wide)
        with b.loop(whole, stop, one.width) as column:
            left = im.sub(stop, column)
            for tile, condition, whole in widths(one, of, left, b.target):
                with b.when(condition):
                    yield batch, tile, column, contraction.column_masks(tile.lanes, 1, left, 0, whole)
