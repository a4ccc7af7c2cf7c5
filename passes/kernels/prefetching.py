"""Asking for packed weights before a contraction's tiles need them, and how far ahead that pays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

from mlir.dialects import memref

from onnxc.dialects import dims
from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels import scalars
from onnxc.passes.kernels.builder import Buffer, KernelBuilder
from onnxc.passes.kernels.kernel_function import KernelFunction
from onnxc.passes.kernels.matmul_problem import Matmul

MEMORY_BYTES = 32 << 20  # of weights in a model: more are taken to come from memory in each run
STREAM_BYTES = 4 << 10  # ahead in a stream from memory
EARLY = 128  # rows ahead
LINE_BYTES = 64
SHORT = 512  # terms of sums whose stores may wait because of their weights
BUSY = 0.8  # of the time that memory takes for a row: so long multiply-adds leave hardware behind


def prefetch_distance(tiles: int, rows: int, row_bytes: int, kernel: KernelFunction, target) -> int:
    """How far ahead weights are prefetched (see `Panels.ask`) in units of so many row tiles of `rows` rows.

    Two tiles are half of the time in a panel that is near already, and on a core that `reads_ahead` the other half's
    stream is better asked for far ahead than by shares of the next panel (Zen 4, 2 tiles of 8 rows: 36 products of 256²
    0.80 of the time, 768×3072 0.87, 4096² 0.83, in L2 1.00; 2 tiles of 14 rows 1.00; 3 and 4 tiles 0.87 to 1.02). On
    Zen 3 that takes 1.3 of the time, 2 tiles of 4 rows of 4096² and 768×3072.
    """
    if tiles == 2 and target.core.reads_ahead:
        return 2 * EARLY
    return 1 if tiles > 1 else stream_distance(rows, row_bytes, kernel, target)


def stream_distance(rows: int, row_bytes: int, kernel: KernelFunction, target) -> int:
    """How many rows of a panel, of `row_bytes` each, ahead one tile of `rows` rows asks for weights that it reads once.

    The hardware sees streams. With one row what comes from memory gains 10 to 20 % by being asked for 4 KB earlier;
    from L2 and L3 that costs as much. A core loses by that with as many rows as it `streams_rows` (Zen 3: 1 × 4096²
    takes 3.5 ms unasked, 4.2 to 4.5 asked for 2, 4 or 8 KB earlier, 24 products of 768×3072 0.85 of the time unasked;
    2 rows 0.87 to 0.92; Granite Rapids: 1 row 0.86 to 0.93 unasked, 2 rows 1.05 to 1.12). One that `reads_ahead` loses
    10 to 40 % with 2 to 6 rows, from L3 and from memory; but where multiply-adds take nearly as long as reading from
    memory it is late by itself (Zen 4, 4096²: 8 rows at 69 % of reading, 88 to 94 % asked for early; 13 rows 1.5 times
    as fast).
    """
    if rows <= target.core.streams_rows:
        return 0
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


@dataclass(frozen=True)
class Panels:
    """Packed weights that tiles ask for before they need them: of panels `stride` elements apart, the one at `panel`,
    which has `terms` rows of `width` elements. `near`: into L1 (see `ask`)."""

    buffer: Buffer
    panel: im.Index
    stride: im.Index
    width: int
    terms: im.Index
    b: KernelBuilder
    near: bool = False

    def ask(self, ahead: int, tiles: im.Index, tile: im.Index, k: im.Index, step: int = 1) -> None:
        """Asks before a step of `step` terms from row `k` on.

        `ahead` = 1: each of the unit's row tiles (`tile` of `tiles`) asks for a share of the next panel, spread over k:
        the largest single gain on cold weights. Where a run tells how many tiles there are, each asks for a whole row
        from where its share begins (16 rows of MiniLM take 1.09 times as long where it asks for a third).
        Into L2, or `near`, into L1: on a core that `reads_ahead` products take 0.97 to 0.99 of the time so (MiniLM, 128
        tokens), convolutions 1.01 (resnet50, mobilenetv2).
        `ahead` > 1: the row that many rows ahead in the stream, where few tiles share a panel. Into L1, since the line
        may be in L2 (2 × 512² would take 1.36 times as long). But into L2 on a core that `reads_ahead`, where 8 rows
        from memory take 0.85 of the time so, and from memory where L3 is far, too: L1 waits for few lines at a time (24
        products of 768×3072 on Granite Rapids with 2, 4, 8 and 12 rows: 0.94, 0.88, 0.89 and 0.95).
        """
        if ahead > 1:
            start = im.add(self.panel, im.mul(im.add(k, ahead), self.width))
            core = self.b.target.core
            late = self.b.kernel.streams_weights and not core.near_l3
            self._ask(start, step * self.width, not (core.reads_ahead or late))
            return
        share = im.floordiv(im.add(im.sub(tiles, 1), self.width), tiles)
        start = im.add(im.add(self.panel, self.stride), im.mul(im.mul(tile, self.terms), share))
        if isinstance(share, int):
            self._ask(im.add(start, im.mul(k, share)), step * share, self.near)
            return
        for i in range(step):
            self._ask(im.add(start, im.mul(im.add(k, i), share)), self.width, self.near)

    def _ask(self, start: im.Index, elements: int, near: bool) -> None:
        line = LINE_BYTES // scalars.byte_width(self.buffer.elem)
        for at in range(0, elements, line):
            memref.prefetch(self.buffer.memory, [im.value(im.add(start, at))], False, 3 if near else 2, True)


@dataclass(frozen=True)
class Columns:
    """Rows of a B in place: the `width` columns from `column` on, which to the hardware lie far apart. The unit's row
    tiles, of which there are `tiles` (0: who knows), ask for them together, in `terms` rows from row `first` on.

    A core waits for few lines at a time (Intel's for 16, which take 70 to 100 ns from L3), so they are asked for at an
    even pace and none twice: by their ends, since the panel before has asked for a line that begins in it. The first
    tile, which copies this panel, has lines of its own to wait for, so many tiles leave it out. 1×1 of 56² 256→64 on
    Granite Rapids: 0.61 ms with a line of each row too many and three of five tiles asking, 0.51 so. An even pace over
    any number of tiles takes divisions that keep units from multiplying: 1×1 of 14² 1024→256 took 1.03 of the time.
    """

    b: KernelBuilder
    p: Matmul
    batch: Sequence[im.Index]
    column: im.Index
    width: int
    first: im.Index
    terms: im.Index
    tiles: int

    def ask(self, tile: im.Index, k: im.Index, step: int, copying: bool) -> None:
        """What tile number `tile` asks for before a step of `step` terms from row `k` on: a line of each row; where
        there are twice or four times as many tiles as lines, of half or a quarter of the rows."""
        line = LINE_BYTES // scalars.byte_width(self.p.elem)
        lines = -(-self.width // line)
        resting = int(self.tiles > 2 * lines)
        if copying and resting:
            return
        tiles = self.tiles - resting  # whose numbers follow each other, whatever the first one's is
        share = max(n for n in (1, 2, 4) if n == 1 or (n * lines <= tiles and step % n == 0))
        part = im.mul(im.mod(tile, share), im.floordiv(self.terms, share))
        row = im.add(im.add(self.first, part), im.floordiv(im.sub(k, self.first), share))
        column = im.add(im.mul(im.mod(im.floordiv(tile, share), lines), line), line - 1)
        for i in range(step // share):
            place = self.p.right_offset(self.b, self.batch, im.add(row, i), im.add(self.column, column))
            if place is not None:
                memref.prefetch(self.b.inputs[self.p.op.operands[1]].memory, [im.value(place)], False, 2, True)


def stores_wait(target, *passing: Tensor) -> bool:
    """Whether a contraction's stores wait for the lines of its results: one of the tensors that pass through L2 has
    more bytes, as far as is known, L3 is far, and sums of whole lines are quick (7×7/2 with AVX2 takes 1.04 of the time
    where it asks for them)."""
    sizes = [prod(max(1, dims.bounds(d)[0]) for d in t.shape) * scalars.byte_width(t.elem) for t in passing]
    return target.vector_bits == 512 and not target.core.near_l3 and max(sizes) > target.l2_bytes


@dataclass(frozen=True)
class ResultLines:
    """The lines of `rows` × `width` elements of each output that lies as the root's result: at `points(r, column)`.

    Where columns lie in place, rows of the result lie as far apart as B's, and stores would each wait for a line. Asked
    for all at once they keep B's lines waiting: 0.514 and 0.498 ms (Columns' 1×1). Short sums by packed
    weights that push results out of L2 gain, too (six of 100 × 384×1536: 0.93, 512×2048: 0.96), long ones do not
    (1024³), and where results stay in L2 it costs 1 to 4 % (MiniLM, 1000 × 512×512)."""

    b: KernelBuilder
    points: Callable[[im.Index, im.Index], Sequence[im.Index]]
    rows: int
    width: int

    @property
    def count(self) -> int:
        """How many are asked for of the output that has the most."""
        return self.rows * max((self._lines(out) for out in self._outputs()), default=1)

    def _outputs(self) -> list[Buffer]:
        kernel = self.b.kernel
        shape = Tensor.of(kernel.root.results[0].type).shape
        return [out for out, v in zip(self.b.outputs, kernel.results, strict=True) if Tensor.of(v.type).shape == shape]

    def _lines(self, out: Buffer) -> int:
        return -(-self.width * scalars.byte_width(out.elem) // LINE_BYTES)

    def ask(self, step: im.Index) -> None:
        """For one line of each output, before step number `step` of a tile's sums."""
        for out in self._outputs():
            line = LINE_BYTES // scalars.byte_width(out.elem)
            lines = self._lines(out)
            with self.b.when(im.compare(step, "<", self.rows * lines)):
                column = im.add(im.mul(im.mod(step, lines), line), line - 1)
                point = self.points(im.floordiv(step, lines), column)
                memref.prefetch(out.memory, [im.value(out.offset(point))], True, 3, True)
