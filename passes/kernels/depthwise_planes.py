"""Kernel kind `depthwise_planes`: depthwise convolution of planes [N, C, H, W] as they are, vectors along W.

    kernel.depthwise_planes(x, w [C, 1, kh, kw], bias? [C]) {strides, dilations, pads}, stride 1 along W
For models that are channels first on both sides: turning them costs more than the sums. A unit is a row of the result.
Taps outside x read zeros by masks, known at compile time where one tile spans the row. Summed in the order of the taps.
"""

from __future__ import annotations

from mlir import ir

from onnxc.dialects import dims
from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import contraction, scalars
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.evaluate import Evaluator, Lanes
from onnxc.passes.kernels.kernel_function import KernelFunction, Launch
from onnxc.passes.kernels.plane_rows import inside

GRAIN_NANOSECONDS = 20_000
MOST_VECTORS = 8  # accumulators of a tile that spans the row
FEW_VECTORS = 4  # of one that does not


def launch(kernel: KernelFunction) -> Launch:
    op = kernel.root
    result, window = (Tensor.of(v.type).shape for v in (op.results[0], op.operands[1]))
    width = result[3] if isinstance(result[3], int) else 64
    nanoseconds = max(1, width * window[2] * window[3] // 60)
    return Launch(dims.product(result[:3]), max(1, GRAIN_NANOSECONDS // nanoseconds))


def emit(b: KernelBuilder) -> None:
    _Emitter(b).run()


class _Emitter:
    def __init__(self, b: KernelBuilder):
        self.b, self.op, self.ev = b, b.kernel.root, Evaluator(b)
        self.x, self.w = b.inputs[self.op.operands[0]], b.inputs[self.op.operands[1]]
        self.sums = contraction.arithmetic(self.x.elem, b.target)
        self.shape = b.shape(self.op.results[0])
        self.window = Tensor.of(self.op.operands[1].type).shape[2:]
        self.strides, self.dilations, self.pads = (self.op.attr(n) for n in ("strides", "dilations", "pads"))
        width = self.shape[3]
        whole = -(-width // self.sums.lanes) if isinstance(width, int) else MOST_VECTORS + 1
        self.vectors = max(1, whole) if whole <= MOST_VECTORS else FEW_VECTORS

    def run(self) -> None:
        b, step = self.b, self.vectors * self.sums.lanes
        with b.loop(b.begin, b.end) as unit:
            row, plane = im.mod(unit, self.shape[2]), im.floordiv(unit, self.shape[2])
            image, channel = im.floordiv(plane, self.shape[1]), im.mod(plane, self.shape[1])
            if isinstance(self.shape[3], int) and self.shape[3] <= step:
                with self.ev.scope():
                    self._tile(image, channel, row, 0)
                return
            with b.loop(0, self.shape[3], step) as start, self.ev.scope():
                self._tile(image, channel, row, start)

    def _tile(self, image: im.Index, channel: im.Index, row: im.Index, start: im.Index) -> None:
        b, lanes = self.b, self.sums.lanes
        corner = im.sub(im.mul(row, self.strides[0]), self.pads[0])
        low = im.ceildiv(im.maximum(im.sub(0, corner), 0), self.dilations[0])
        room = im.maximum(im.sub(self.x.shape[2], corner), 0)
        high = im.minimum(self.window[0], im.ceildiv(room, self.dilations[0]))
        plane = im.add(im.mul(image, self.x.strides[0]), im.mul(channel, self.x.strides[1]))

        def taps(i: ir.Value, *carried: ir.Value) -> list[ir.Value]:
            line = im.add(plane, im.mul(im.add(corner, im.mul(i, self.dilations[0])), self.x.strides[2]))
            weights = im.mul(im.add(im.mul(channel, self.window[0]), i), self.window[1])
            return self._row_of_taps(line, weights, start, list(carried))

        acc = b.reduce(low, high, 1, [self.sums.zero()] * self.vectors, taps)
        columns = [im.add(start, v * lanes) for v in range(self.vectors)]
        where = [Lanes(lanes, 3, inside(lanes, c, self.shape[3])) for c in columns]
        bias = self.op.operands[2] if len(self.op.operands) > 2 else None

        def element(_point, _lanes: Lanes, total: ir.Value) -> ir.Value:
            if bias is not None:
                total = scalars.add(total, scalars.splat(self.sums.widen(self.ev.at(bias, (channel,))), lanes))
            return self.sums.narrow(total)

        contraction.store_tile(
            b,
            self.ev,
            self.op.results[0],
            where.__getitem__,
            lambda _, v: [image, channel, row, columns[v]],
            1,
            self.vectors,
            element,
            acc,
        )

    def _row_of_taps(self, line: im.Index, weights: im.Index, start: im.Index, acc: list[ir.Value]) -> list[ir.Value]:
        for tap in range(self.window[1]):
            weight = scalars.splat(self.sums.widen(self.w.load_flat(im.add(weights, tap))), self.sums.lanes)
            for v in range(self.vectors):
                first = im.add(start, v * self.sums.lanes + tap * self.dilations[1] - self.pads[1])
                mask = inside(self.sums.lanes, first, self.x.shape[3])
                x = self.x.load_vector(im.add(line, first), self.sums.lanes, mask)
                acc[v] = self.sums.multiply_add(self.sums.widen(x), weight, acc[v])
        return acc
