"""Kernel kind `nms`: NonMaxSuppression; rows (batch, class, box) in order of batch, class and falling score.

For each class the boxes above the score threshold are listed in the third result, which is room to work. Each round
takes the best of the list (of equal ones the first) and drops what overlaps it too much: the same boxes as visiting
all in order of score, as onnxruntime does, but without sorting them. One unit of work: the rows are counted in order.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith

from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels import scalars
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.kernel_function import KernelFunction, Launch


def launch(kernel: KernelFunction) -> Launch:
    return Launch(1)


def emit(b: KernelBuilder) -> None:
    nms = _Suppression(b)
    batches, classes, _ = nms.scores.shape
    with b.loop(b.begin, b.end):
        total = b.reduce(
            0,
            batches,
            1,
            [im.value(0)],
            lambda batch, n: b.reduce(0, classes, 1, [n], lambda c, m: [nms.one_class(batch, c, m)]),
        )[0]
        b.outputs[1].store_flat(_as_i64(total), 0)


def _as_i64(i: im.Index) -> ir.Value:
    return arith.index_cast(ir.IntegerType.get_signless(64), im.value(i))


@dataclass
class Box:
    """Corners and area."""

    x: tuple[ir.Value, ir.Value]
    y: tuple[ir.Value, ir.Value]
    area: ir.Value


class _Suppression:
    def __init__(self, b: KernelBuilder):
        self.b, root = b, b.kernel.root
        operands = [None if v is None else b.inputs[v] for v in root.operands]
        self.boxes, self.scores, self.limit, self.overlap, self.threshold = operands + [None] * (5 - len(operands))
        attributes = root.op.attributes
        self.centred = "center_point_box" in attributes and ir.IntegerAttr(attributes["center_point_box"]).value == 1
        self.rows, _, self.alive = b.outputs

    def one_class(self, batch: ir.Value, which: ir.Value, row: ir.Value) -> ir.Value:
        """Writes the class's rows from `row` on; returns the row behind them."""
        b, boxes = self.b, self.scores.shape[2]
        base = self.scores.offset([batch, which, 0])
        alive = b.reduce(0, boxes, 1, [im.value(0)], lambda i, n: [self._listed(base, i, n)])[0]
        limit = b.index_cast(self.limit.load_flat(0)) if self.limit is not None else 0
        rounds = im.minimum(im.minimum(im.maximum(limit, 0), alive), im.sub(self.rows.shape[0], row))

        def one_round(_: ir.Value, alive: ir.Value, row: ir.Value) -> list[ir.Value]:
            some = im.compare(alive, ">", 0)
            with b.when(some):
                best = self._best(base, alive)
                for column, v in enumerate((batch, which, best)):
                    self.rows.store(_as_i64(v), [row, column])
            # the row just written tells the best box to what follows; without any the loop below is empty
            left = self._without_overlaps(batch, row, alive)
            return [left, arith.addi(row, arith.select(some, im.value(1), im.value(0)))]

        return b.reduce(0, rounds, 1, [alive, row], one_round)[1]

    def _listed(self, base: im.Index, i: ir.Value, n: ir.Value) -> ir.Value:
        above: bool | ir.Value = True
        if self.threshold is not None:
            above = scalars.compare(self.scores.load_flat(im.add(base, i)), ">", self.threshold.load_flat(0))
        with self.b.when(above):
            self.alive.store_flat(_as_i64(i), n)
        return im.value(im.add(n, im.select(above, 1, 0)))

    def _candidate(self, at: im.Index) -> ir.Value:
        return self.b.index_cast(self.alive.load_flat(at))

    def _best(self, base: im.Index, alive: ir.Value) -> ir.Value:
        first = self._candidate(0)

        def step(i: ir.Value, best: ir.Value, score: ir.Value) -> list[ir.Value]:
            box = self._candidate(i)
            s = self.scores.load_flat(im.add(base, box))
            wins = scalars.compare(s, ">", score)
            return [arith.select(wins, box, best), arith.select(wins, s, score)]

        return self.b.reduce(1, alive, 1, [first, self.scores.load_flat(im.add(base, first))], step)[0]

    def _without_overlaps(self, batch: ir.Value, row: ir.Value, alive: ir.Value) -> ir.Value:
        """Keeps of the list, in order, what does not overlap the box in `row` too much; returns how many those are."""
        b = self.b
        # without candidates nothing was written in the row: any box of the batch will do, it is not compared
        best = im.select(im.compare(alive, ">", 0), b.index_cast(self.rows.load([row, 2])), 0)
        chosen = self.box(batch, best)

        def step(i: ir.Value, kept: ir.Value) -> list[ir.Value]:
            box = self._candidate(i)
            stays = im.both(im.compare(box, "!=", best), self.apart(chosen, self.box(batch, box)))
            with b.when(stays):
                self.alive.store_flat(_as_i64(box), kept)
            return [im.add(kept, im.select(stays, 1, 0))]

        return b.reduce(0, alive, 1, [im.value(0)], step)[0]

    def box(self, batch: im.Index, i: im.Index) -> Box:
        first = self.boxes.offset([batch, i, 0])
        a, c, d, e = (self.boxes.load_flat(im.add(first, k)) for k in range(4))
        if self.centred:  # x, y, width, height
            half = scalars.constant_like(0.5, a)
            w, h = arith.mulf(d, half), arith.mulf(e, half)
            x, y = (arith.subf(a, w), arith.addf(a, w)), (arith.subf(c, h), arith.addf(c, h))
        else:  # y1, x1, y2, x2, the corners in any order
            x, y = _ordered(c, e), _ordered(a, d)
        return Box(x, y, arith.mulf(arith.subf(x[1], x[0]), arith.subf(y[1], y[0])))

    def apart(self, p: Box, q: Box) -> ir.Value:
        """Whether the intersection over the union is not above the threshold."""
        zero = scalars.constant_like(0, p.area)
        width = arith.subf(scalars.minimum(p.x[1], q.x[1]), scalars.maximum(p.x[0], q.x[0]))
        height = arith.subf(scalars.minimum(p.y[1], q.y[1]), scalars.maximum(p.y[0], q.y[0]))
        shared = arith.mulf(width, height)
        union = arith.subf(arith.addf(p.area, q.area), shared)
        meets = None
        for extent in (width, height, shared, p.area, q.area, union):
            positive = scalars.compare(extent, ">", zero)
            meets = positive if meets is None else arith.andi(meets, positive)
        most = self.overlap.load_flat(0) if self.overlap is not None else zero
        return scalars.logical_not(arith.andi(meets, scalars.compare(arith.divf(shared, union), ">", most)))


def _ordered(a: ir.Value, b: ir.Value) -> tuple[ir.Value, ir.Value]:
    return scalars.minimum(a, b), scalars.maximum(a, b)
