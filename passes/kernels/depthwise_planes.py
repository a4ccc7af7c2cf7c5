"""Kernel kind `depthwise_planes`: depthwise convolution of planes [N, C, H, W] as they are, vectors along W.

    kernel.depthwise_planes(x, w [C, 1, kh, kw], bias? [C]) {strides, dilations, pads}, stride 1 along W
For models that are channels first on both sides: turning them costs more than the sums. A unit is a few rows of the
result, so that a vector of x is loaded once for all rows whose windows it lies in: loads are the limit, most cross a
line. Taps outside x read zeros: by masks along a row, known at compile time where the tile is, and from a row of zeros
above and below (adding 0·w changes no bit). Where sizes are not known, a unit is one row. Summed in the order of the
taps.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

from mlir import ir
from mlir.dialects import arith, memref

from onnxc.dialects import dims
from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import contraction, pointers, scalars
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.evaluate import Evaluator, Lanes
from onnxc.passes.kernels.kernel_function import ELEMENT, MULTIPLY_ADD, KernelFunction, Launch
from onnxc.passes.kernels.plane_rows import inside as inside_of

MOST_VECTORS = 8  # accumulators of a tile of one row that spans it
FEW_VECTORS = 4  # of one that does not
MOST_ROWS = 4
MOST_LINE = 2048  # elements of a row that may be read as zeros


@dataclass(frozen=True)
class PlanesSchedule:
    """A tile: `rows` of the result × `vectors`; a unit is that many rows."""

    rows: int
    vectors: int


def choose(kernel: KernelFunction, target) -> dict[str, int | str]:
    op = kernel.root
    x, result = Tensor.of(op.operands[0].type), Tensor.of(op.results[0].type).shape
    lanes = contraction.arithmetic(x.elem, target).lanes
    whole = max(1, -(-result[3] // lanes)) if isinstance(result[3], int) else MOST_VECTORS + 1
    known = all(isinstance(d, int) for d in (*x.shape[2:], *result[2:])) and x.shape[3] <= MOST_LINE
    if not known or result[2] < 2 or op.attr("dilations")[0] != 1 or op.attr("strides")[0] > 2:
        return asdict(PlanesSchedule(1, whole if whole <= MOST_VECTORS else FEW_VECTORS))
    most = MOST_ROWS if target.vector_registers >= 32 else MOST_ROWS // 2
    rows = -(-result[2] // -(-result[2] // most))
    tiles = -(-whole // (target.vector_registers // 2 // rows))
    return asdict(PlanesSchedule(rows, -(-whole // tiles)))


def launch(kernel: KernelFunction) -> Launch:
    op, s = kernel.root, PlanesSchedule(**kernel.schedule)
    result, window = (Tensor.of(v.type).shape for v in (op.results[0], op.operands[1]))
    blocks = (result[2] + (s.rows - 1)) // s.rows
    element = MULTIPLY_ADD * window[2] * window[3] + ELEMENT
    return Launch(dims.product(result[:2]) * blocks, s.rows * element * result[3])


def emit(b: KernelBuilder) -> None:
    _Emitter(b, PlanesSchedule(**b.kernel.schedule)).run()


class _Emitter:
    def __init__(self, b: KernelBuilder, s: PlanesSchedule):
        self.b, self.s, self.op, self.ev = b, s, b.kernel.root, Evaluator(b)
        self.x, self.w = b.inputs[self.op.operands[0]], b.inputs[self.op.operands[1]]
        self.sums = contraction.arithmetic(self.x.elem, b.target)
        self.shape = b.shape(self.op.results[0])
        self.window = Tensor.of(self.op.operands[1].type).shape[2:]
        self.strides, self.dilations, self.pads = (self.op.attr(n) for n in ("strides", "dilations", "pads"))
        self.blocks = im.ceildiv(self.shape[2], s.rows)
        if s.rows > 1:
            self.base = pointers.pointer(self.x.memory)
            self.zeros = pointers.zeros(b, self.x, self.x.shape[3])

    def run(self) -> None:
        b, s, step = self.b, self.s, self.s.vectors * self.sums.lanes
        tile = self._tile if s.rows == 1 else self._rows
        with b.loop(b.begin, b.end) as unit:
            block, plane = im.mod(unit, self.blocks), im.floordiv(unit, self.blocks)
            image, channel = im.floordiv(plane, self.shape[1]), im.mod(plane, self.shape[1])
            row = im.mul(block, s.rows)
            if isinstance(self.shape[3], int) and self.shape[3] <= MOST_VECTORS * self.sums.lanes:
                for start in range(0, max(1, self.shape[3]), step):
                    with self.ev.scope():
                        tile(image, channel, row, start)
                return
            with b.loop(0, self.shape[3], step) as start, self.ev.scope():
                tile(image, channel, row, start)

    def _rows(self, image: im.Index, channel: im.Index, row: im.Index, start: im.Index) -> None:
        """A tile of several rows: every vector of x is added to all of them that it belongs to."""
        rows, vectors, lanes = self.s.rows, self.s.vectors, self.sums.lanes
        weights = im.mul(channel, self.window[0] * self.window[1])
        splats = {}
        plane = im.add(im.mul(image, self.x.strides[0]), im.mul(channel, self.x.strides[1]))
        corner = im.sub(im.mul(row, self.strides[0]), self.pads[0])
        acc = [[self.sums.zero() for _ in range(vectors)] for _ in range(rows)]
        for line in range((rows - 1) * self.strides[0] + self.window[0]):
            inside = im.within(im.add(corner, line), self.x.shape[2])
            place = im.add(plane, im.mul(im.add(corner, line), self.x.strides[2]))
            source = arith.select(inside, pointers.advance(self.base, place, self.x.elem), self.zeros)
            if line >= self.window[0] - self.strides[0]:
                for v in range(vectors):  # the next unit's
                    ahead = im.add(im.add(place, rows * self.strides[0] * self.x.shape[3]), im.add(start, v * lanes))
                    memref.prefetch(self.x.memory, [im.value(ahead)], False, 3, True)
            met = [(r, line - r * self.strides[0]) for r in range(rows)]
            met = [(r, tap) for r, tap in met if 0 <= tap < self.window[0]]
            for column in range(self.window[1]):
                for v in range(vectors):
                    first = im.add(start, v * lanes + column * self.dilations[1] - self.pads[1])
                    mask = inside_of(lanes, first, self.x.shape[3])
                    at = pointers.advance(source, first, self.x.elem)
                    x = self.sums.widen(pointers.load_vector(at, lanes, self.x.elem, mask))
                    for r, tap in met:
                        number = tap * self.window[1] + column
                        if number not in splats:
                            weight = self.sums.widen(self.w.load_flat(im.add(weights, number)))
                            splats[number] = scalars.splat(weight, lanes)
                        acc[r][v] = self.sums.multiply_add(x, splats[number], acc[r][v])
        for r in range(rows):
            whole = self.shape[2] % rows == 0 or r == 0
            with self.b.when(True if whole else im.compare(im.add(row, r), "<", self.shape[2])), self.ev.scope():
                self._store(image, channel, im.add(row, r), start, acc[r])

    def _tile(self, image: im.Index, channel: im.Index, row: im.Index, start: im.Index) -> None:
        b = self.b
        corner = im.sub(im.mul(row, self.strides[0]), self.pads[0])
        low = im.ceildiv(im.maximum(im.sub(0, corner), 0), self.dilations[0])
        room = im.maximum(im.sub(self.x.shape[2], corner), 0)
        high = im.minimum(self.window[0], im.ceildiv(room, self.dilations[0]))
        plane = im.add(im.mul(image, self.x.strides[0]), im.mul(channel, self.x.strides[1]))

        def taps(i: ir.Value, *carried: ir.Value) -> list[ir.Value]:
            line = im.add(plane, im.mul(im.add(corner, im.mul(i, self.dilations[0])), self.x.strides[2]))
            weights = im.mul(im.add(im.mul(channel, self.window[0]), i), self.window[1])
            return self._row_of_taps(line, weights, start, list(carried))

        acc = b.reduce(low, high, 1, [self.sums.zero()] * self.s.vectors, taps)
        self._store(image, channel, row, start, acc)

    def _store(self, image: im.Index, channel: im.Index, row: im.Index, start: im.Index, acc: list[ir.Value]) -> None:
        lanes = self.sums.lanes
        columns = [im.add(start, v * lanes) for v in range(self.s.vectors)]
        where = [Lanes(lanes, 3, inside_of(lanes, c, self.shape[3])) for c in columns]
        bias = self.op.operands[2] if len(self.op.operands) > 2 else None

        def element(_point, _lanes: Lanes, total: ir.Value) -> ir.Value:
            if bias is not None:
                total = scalars.add(total, scalars.splat(self.sums.widen(self.ev.at(bias, (channel,))), lanes))
            return self.sums.narrow(total)

        contraction.store_tile(
            self.b,
            self.ev,
            self.op.results[0],
            where.__getitem__,
            lambda _, v: [image, channel, row, columns[v]],
            1,
            self.s.vectors,
            element,
            acc,
        )

    def _row_of_taps(self, line: im.Index, weights: im.Index, start: im.Index, acc: list[ir.Value]) -> list[ir.Value]:
        for tap in range(self.window[1]):
            weight = scalars.splat(self.sums.widen(self.w.load_flat(im.add(weights, tap))), self.sums.lanes)
            for v in range(self.s.vectors):
                first = im.add(start, v * self.sums.lanes + tap * self.dilations[1] - self.pads[1])
                mask = inside_of(self.sums.lanes, first, self.x.shape[3])
                x = self.x.load_vector(im.add(line, first), self.sums.lanes, mask)
                acc[v] = self.sums.multiply_add(self.sums.widen(x), weight, acc[v])
        return acc
