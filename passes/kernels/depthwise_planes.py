"""Kernel kind `depthwise_planes`: depthwise convolution of planes [N, C, H, W] as they are, vectors along W.

    kernel.depthwise_planes(x, w [C, 1, kh, kw], bias? [C]) {strides, dilations, pads}
For models that are channels first on both sides: turning them costs more than the sums. A unit is a few rows of the
result, so that a vector of x is loaded once for all rows whose windows it lies in: loads are the limit, most cross a
line. A stride along W takes every n-th element of as many vectors. Taps outside x read zeros: by masks along a row,
and from a line of zeros above and below (adding 0·w changes no bit). Masks are known at compile time where the tile is;
of long rows, and of those whose length only a run tells, tiles at the ends alone have any, and are single vectors where
more would be empty; units of short rows share them. Summed in the order of the taps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass

from mlir import ir
from mlir.dialects import arith, memref

from onnxc.dialects import dims
from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import contraction, plane_rows, pointers, scalars
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.evaluate import Evaluator, Lanes
from onnxc.passes.kernels.kernel_function import ELEMENT, MULTIPLY_ADD, KernelFunction, Launch

MOST_VECTORS = 8  # accumulators of a tile of one row that spans it
FEW_VECTORS = 4  # of one that does not
INNER_VECTORS = 2  # of several rows that are long, or as long as a run tells: the ends, which have masks, are short
MOST_ROWS = 4
OTHERS = 8  # vector registers beside sums and weights
TOGETHER = 16  # units of short rows that share masks: columns outermost, all their rows in cache


@dataclass(frozen=True)
class PlanesSchedule:
    """A tile: `rows` of the result × `vectors`; a unit is that many rows."""

    rows: int
    vectors: int


def choose(kernel: KernelFunction, target) -> dict[str, int | str]:
    op = kernel.root
    x, result = Tensor.of(op.operands[0].type), Tensor.of(op.results[0].type).shape
    lanes, (height, width) = contraction.arithmetic(x.elem, target).lanes, result[2:]
    whole = max(1, -(-width // lanes)) if isinstance(width, int) else 0  # vectors of a row, if they are known
    if op.attr("dilations")[0] != 1 or op.attr("strides")[0] > 2 or (isinstance(height, int) and height < 2):
        return asdict(PlanesSchedule(1, whole if 0 < whole <= MOST_VECTORS else FEW_VECTORS))
    rows = MOST_ROWS if target.vector_registers >= 32 else MOST_ROWS // 2
    if isinstance(height, int):
        rows = -(-height // -(-height // rows))
    tiles = -(-whole // (target.vector_registers // 2 // rows))
    return asdict(PlanesSchedule(rows, -(-whole // tiles) if 0 < whole <= MOST_VECTORS else INNER_VECTORS))


def launch(kernel: KernelFunction) -> Launch:
    op, s = kernel.root, PlanesSchedule(**kernel.schedule)
    result, window = (Tensor.of(v.type).shape for v in (op.results[0], op.operands[1]))
    blocks = (result[2] + (s.rows - 1)) // s.rows
    element = MULTIPLY_ADD * window[2] * window[3] + ELEMENT
    return Launch(dims.product(result[:2]) * blocks, s.rows * element * result[3])


def emit(b: KernelBuilder) -> None:
    _Emitter(b, PlanesSchedule(**b.kernel.schedule)).run()


@dataclass
class _Columns:
    """A tile's columns of the result, and what it reads of a row of x: for each (vector, shift) the element where each
    of the vectors begins that hold the taps of this shift, and its mask."""

    start: im.Index
    vectors: int
    where: list[Lanes]
    parts: dict[tuple[int, int], list[tuple[im.Index, ir.Value | None]]]


class _Emitter:
    def __init__(self, b: KernelBuilder, s: PlanesSchedule):
        self.b, self.s, self.op, self.ev = b, s, b.kernel.root, Evaluator(b)
        self.x, self.w = b.inputs[self.op.operands[0]], b.inputs[self.op.operands[1]]
        self.sums = contraction.arithmetic(self.x.elem, b.target)
        self.shape = b.shape(self.op.results[0])
        self.window = Tensor.of(self.op.operands[1].type).shape[2:]
        self.strides, self.dilations, self.pads = (self.op.attr(n) for n in ("strides", "dilations", "pads"))
        self.blocks = im.ceildiv(self.shape[2], s.rows)
        # where in a row the taps lie: how many strides behind the first one, and how many elements behind that
        self.taps = [divmod(tap * self.dilations[1], self.strides[1]) for tap in range(self.window[1])]
        width = self.shape[3]
        self.whole = isinstance(width, int) and width <= MOST_VECTORS * self.sums.lanes  # a unit does whole rows
        # Hardware that reads ahead follows whole rows by itself: Zen 4, 112² in L3, 0.96 to 0.98 of the time unasked,
        # with stride 2 0.92; rows in pieces and very short ones it does not (224² 1.12, 28² 1.03).
        self.asks = not (b.target.core.reads_ahead and self.whole and s.vectors > INNER_VECTORS)
        if s.rows > 1:
            self.base = pointers.pointer(self.x.memory)
            self.zeros = pointers.zeros(b, self.x, self._reach(s.vectors))

    def _reach(self, vectors: int) -> int:
        """Elements of a row of x from the first that a tile of so many vectors reads to the last."""
        return (vectors * self.sums.lanes + self.taps[-1][0]) * self.strides[1]

    def run(self) -> None:
        b, s, width, lanes = self.b, self.s, self.shape[3], self.sums.lanes
        step = s.vectors * lanes
        if self.whole:
            with b.loop(b.begin, b.end) as unit:
                for start in range(0, max(1, width), step):
                    self._unit(*self._place(unit), self._columns(start, s.vectors))
            return
        together = im.select(im.compare(width, "<=", MOST_VECTORS * lanes), TOGETHER, 1)
        with b.loop(b.begin, b.end, together) as first:
            last = im.minimum(im.add(first, together), b.end)
            with b.loop(0, width, step) as start:
                self._inner_or_ends(start, lambda columns: self._units(first, last, columns))

    def _units(self, first: im.Index, last: im.Index, columns: _Columns) -> None:
        """Units `first` … `last` - 1 in some columns: plane by plane, if registers have room for all of its weights."""
        b, blocks, room = self.b, self.blocks, self.b.target.vector_registers - OTHERS
        if self.s.rows * columns.vectors + self.window[0] * self.window[1] > room:
            with b.loop(first, last) as unit:
                self._unit(*self._place(unit), columns)
            return
        end = im.floordiv(im.add(last, im.sub(blocks, 1)), blocks)
        with b.loop(im.floordiv(first, blocks), end) as plane:
            before = im.mul(plane, blocks)
            begin, stop = im.maximum(im.sub(first, before), 0), im.minimum(im.sub(last, before), blocks)
            with b.loop(begin, stop) as block:
                self._unit(plane, block, columns)

    def _place(self, unit: im.Index) -> tuple[im.Index, im.Index]:
        """(plane, block of rows) of a unit."""
        return im.floordiv(unit, self.blocks), im.mod(unit, self.blocks)

    def _unit(self, plane: im.Index, block: im.Index, columns: _Columns) -> None:
        """The rows of a plane's block in some columns."""
        image, channel = im.floordiv(plane, self.shape[1]), im.mod(plane, self.shape[1])
        with self.ev.scope():
            (self._tile if self.s.rows == 1 else self._rows)(image, channel, im.mul(block, self.s.rows), columns)

    def _inner_or_ends(self, start: im.Index, tile: Callable[[_Columns], None]) -> None:
        """A tile all of whose taps lie in the row has no masks, one whose columns do none for them; one that the row's
        end leaves half empty is done a vector at a time."""
        b, vectors, lanes = self.b, self.s.vectors, self.sums.lanes
        stop, first = im.add(start, vectors * lanes), im.sub(im.mul(start, self.strides[1]), self.pads[1])
        whole, full = (im.compare(at, "<=", self.shape[3]) for at in (stop, im.add(start, vectors // 2 * lanes + 1)))
        inside = im.both(whole, im.compare(first, ">=", 0))
        inside = im.both(inside, im.compare(im.add(first, self._reach(vectors)), "<=", self.x.shape[3]))
        with b.when(inside), self.ev.scope():
            tile(self._columns(start, vectors, read=False, stored=False))
        with b.when(im.both(whole, im.negate(inside))), self.ev.scope():
            tile(self._columns(start, vectors, stored=False))
        with b.when(im.both(full, im.negate(whole))), self.ev.scope():
            tile(self._columns(start, vectors))
        with b.when(im.negate(full)), b.loop(start, self.shape[3], lanes) as one, self.ev.scope():
            tile(self._columns(one, 1))

    def _columns(self, start: im.Index, vectors: int, read: bool = True, stored: bool = True) -> _Columns:
        """The columns from `start` on, with masks for what is `read` and what is `stored`."""
        lanes, width = self.sums.lanes, self.shape[3]
        begins = [im.add(start, v * lanes) for v in range(vectors)]
        parts: dict[tuple[int, int], list[tuple[im.Index, ir.Value | None]]] = {}
        for v, begin in enumerate(begins):
            for shift in sorted({shift for shift, _ in self.taps}):
                first = im.sub(im.mul(im.add(begin, shift), self.strides[1]), self.pads[1])
                places = [im.add(first, i * lanes) for i in range(self.strides[1])]
                masks = [plane_rows.inside(lanes, at, self.x.shape[3]) if read else None for at in places]
                parts[v, shift] = list(zip(places, masks, strict=True))
        where = [Lanes(lanes, 3, plane_rows.inside(lanes, at, width) if stored else None) for at in begins]
        return _Columns(start, vectors, where, parts)

    def _of_taps(self, columns: _Columns, load) -> Iterator[tuple[int, int, ir.Value]]:
        """(tap, vector, what the tap reads there) of a row, of which `load(first element, mask)` gives a vector."""
        known: dict[tuple[int, int], list[ir.Value]] = {}
        for tap, (shift, phase) in enumerate(self.taps):
            for v in range(columns.vectors):
                if (v, shift) not in known:
                    known[v, shift] = [load(*part) for part in columns.parts[v, shift]]
                yield tap, v, self.sums.widen(plane_rows.every(known[v, shift], self.strides[1], phase))

    def _rows(self, image: im.Index, channel: im.Index, row: im.Index, columns: _Columns) -> None:
        """A tile of several rows: every vector of x is added to all of them that it belongs to."""
        rows, stride, elem = self.s.rows, self.strides[0], self.x.elem
        weights = im.mul(channel, self.window[0] * self.window[1])
        splats = {}
        plane = im.add(im.mul(image, self.x.strides[0]), im.mul(channel, self.x.strides[1]))
        corner = im.sub(im.mul(row, stride), self.pads[0])
        left = im.sub(im.mul(columns.start, self.strides[1]), self.pads[1])
        acc = [[self.sums.zero() for _ in range(columns.vectors)] for _ in range(rows)]
        for line in range((rows - 1) * stride + self.window[0]):
            inside = im.within(im.add(corner, line), self.x.shape[2])
            place = im.add(im.add(plane, im.mul(im.add(corner, line), self.x.strides[2])), left)
            source = arith.select(inside, pointers.advance(self.base, place, elem), self.zeros)
            if self.asks and line >= self.window[0] - stride:
                self._prefetch(im.add(place, im.mul(rows * stride, self.x.strides[2])), columns)
            met = [(r, line - r * stride) for r in range(rows)]
            met = [(r, tap) for r, tap in met if 0 <= tap < self.window[0]]

            def load(first: im.Index, mask: ir.Value | None, source: ir.Value = source) -> ir.Value:
                at = pointers.advance(source, im.sub(first, left), elem)
                return pointers.load_vector(at, self.sums.lanes, elem, mask)

            for column, v, x in self._of_taps(columns, load):
                for r, tap in met:
                    number = tap * self.window[1] + column
                    if number not in splats:
                        weight = self.sums.widen(self.w.load_flat(im.add(weights, number)))
                        splats[number] = scalars.splat(weight, self.sums.lanes)
                    acc[r][v] = self.sums.multiply_add(x, splats[number], acc[r][v])
        self._store_rows(image, channel, row, columns, acc)

    def _store_rows(self, image, channel, row: im.Index, columns: _Columns, acc: list[list[ir.Value]]) -> None:
        """All rows of a unit, or the first ones of the last unit. That each sum is stored in two places keeps LLVM from
        moving its products there, one row's behind the other's, all of x on the stack meanwhile."""
        rows = self.s.rows
        whole = self.b.divides(rows, self.shape[2]) or im.compare(im.add(row, rows), "<=", self.shape[2])
        with self.b.when(whole):
            for r in range(rows):
                with self.ev.scope():
                    self._store(image, channel, im.add(row, r), columns, acc[r])
        if whole is True:
            return
        with self.b.when(im.negate(whole)):
            for r in range(rows - 1):
                with self.b.when(im.compare(im.add(row, r), "<", self.shape[2])), self.ev.scope():
                    self._store(image, channel, im.add(row, r), columns, acc[r])

    def _prefetch(self, place: im.Index, columns: _Columns) -> None:
        """A row that the next unit reads, from element `place` of x."""
        for v in range(columns.vectors * self.strides[1]):
            ahead = im.add(place, v * self.sums.lanes + self.pads[1])
            memref.prefetch(self.x.memory, [im.value(ahead)], False, 3, True)

    def _tile(self, image: im.Index, channel: im.Index, row: im.Index, columns: _Columns) -> None:
        """A tile of one row."""
        b = self.b
        corner = im.sub(im.mul(row, self.strides[0]), self.pads[0])
        low = im.ceildiv(im.maximum(im.sub(0, corner), 0), self.dilations[0])
        room = im.maximum(im.sub(self.x.shape[2], corner), 0)
        high = im.minimum(self.window[0], im.ceildiv(room, self.dilations[0]))
        plane = im.add(im.mul(image, self.x.strides[0]), im.mul(channel, self.x.strides[1]))

        def taps(i: ir.Value, *carried: ir.Value) -> list[ir.Value]:
            line = im.add(plane, im.mul(im.add(corner, im.mul(i, self.dilations[0])), self.x.strides[2]))
            weights = im.mul(im.add(im.mul(channel, self.window[0]), i), self.window[1])
            acc = list(carried)
            read = self._of_taps(
                columns, lambda first, mask: self.x.load_vector(im.add(line, first), self.sums.lanes, mask)
            )
            for tap, v, x in read:
                weight = scalars.splat(self.sums.widen(self.w.load_flat(im.add(weights, tap))), self.sums.lanes)
                acc[v] = self.sums.multiply_add(x, weight, acc[v])
            return acc

        acc = b.reduce(low, high, 1, [self.sums.zero()] * columns.vectors, taps)
        self._store(image, channel, row, columns, acc)

    def _store(self, image: im.Index, channel: im.Index, row: im.Index, columns: _Columns, acc: list[ir.Value]) -> None:
        lanes = self.sums.lanes
        bias = self.op.operands[2] if len(self.op.operands) > 2 else None

        def element(_point, _lanes: Lanes, total: ir.Value) -> ir.Value:
            if bias is not None:
                total = scalars.add(total, scalars.splat(self.sums.widen(self.ev.at(bias, (channel,))), lanes))
            return self.sums.narrow(total)

        contraction.store_tile(
            self.b,
            self.ev,
            self.op.results[0],
            columns.where.__getitem__,
            lambda _, v: [image, channel, row, im.add(columns.start, v * lanes)],
            1,
            columns.vectors,
            element,
            acc,
        )
