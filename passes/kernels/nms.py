"""Kernel kind `nms`: NonMaxSuppression; rows (batch, class, box) in order of batch, class and falling score.

For each class the boxes above the score threshold are listed: their numbers in the third result, and corners, area and
score, 16 boxes to a vector, in the fourth. A round takes the best of the list (of equal ones the first), and in one
sweep strikes out what overlaps it too much and finds the next best: the same boxes as visiting all in order of score,
as onnxruntime does, without sorting. A struck score is NaN, which no comparison prefers. A box without a positive area
overlaps nothing: it is listed as one that ends before it begins. One unit of work: the rows are counted in order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from mlir import ir
from mlir.dialects import arith, vector

from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels import scalars
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.kernel_function import KernelFunction, Launch
from onnxc.passes.kernels.reduce import lane_mask

WIDTH = 16  # boxes in a vector; the fourth result is padded to it
X0, X1, Y0, Y1, AREA, SCORE = range(6)  # rows of the fourth result
ORDERED, GREATER_OR_NAN = 7, 9  # cmpf predicates: neither is NaN; greater, or one is NaN


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
    """Corners and area, each a number or a vector of WIDTH."""

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
        self.rows, _, self.listed, self.room = b.outputs
        self.scalar = scalars.element_type(self.scores.elem)
        self.vector = ir.VectorType.get([WIDTH], self.scalar)
        self.numbers = ir.VectorType.get([WIDTH], ir.IntegerType.get_signless(32))

    def one_class(self, batch: ir.Value, which: ir.Value, row: ir.Value) -> ir.Value:
        """Writes the class's rows from `row` on; returns the row behind them."""
        b = self.b
        count = self._list(batch, which)
        limit = b.index_cast(self.limit.load_flat(0)) if self.limit is not None else 0
        rounds = im.minimum(im.minimum(im.maximum(limit, 0), count), im.sub(self.rows.shape[0], row))

        def one_round(_: ir.Value, best: ir.Value, row: ir.Value) -> list[ir.Value]:
            some = im.compare(best, ">=", 0)
            place = im.maximum(best, 0)
            with b.when(some):
                box = b.index_cast(self.listed.load_flat(place))
                for column, v in enumerate((batch, which, box)):
                    self.rows.store(_as_i64(v), [row, column])
            following = self._sweep(im.select(some, count, 0), place)
            return [following, arith.addi(row, arith.select(some, im.value(1), im.value(0)))]

        return b.reduce(0, rounds, 1, [im.value(self._sweep(count, None)), row], one_round)[1]

    def _list(self, batch: ir.Value, which: ir.Value) -> im.Index:
        """Lists the boxes above the threshold; returns their number. Vectors without any are passed over at once."""
        b, boxes = self.b, self.scores.shape[2]
        base = self.scores.offset([batch, which, 0])

        def one(i: ir.Value, n: ir.Value) -> list[ir.Value]:
            above = self._above(self.scores.load_flat(im.add(base, i)))
            with b.when(above):
                self._keep(batch, base, i, n)
            return [im.value(im.add(n, im.select(above, 1, 0)))]

        def some(i: ir.Value, n: ir.Value) -> list[ir.Value]:
            rest = im.sub(boxes, i)
            mask = lane_mask(rest, WIDTH)
            hits = self._above(self.scores.load_vector(im.add(base, i), WIDTH, mask))
            hits = mask if isinstance(hits, bool) else arith.andi(hits, mask)
            found = vector.reduction(ir.IntegerType.get_signless(1), vector.CombiningKind.OR, hits)
            stop = im.select(found, im.minimum(im.add(i, WIDTH), boxes), i)
            return b.reduce(i, stop, 1, [n], one)

        count = b.reduce(0, boxes, WIDTH, [im.value(0)], some)[0]
        with b.loop(count, im.mul(im.ceildiv(count, WIDTH), WIDTH)) as n:
            for row in range(6):
                filler = scalars.constant(float("nan") if row == SCORE else 0.0, self.scalar)
                self.room.store(filler, [row, n])
        return count

    def _above(self, score: ir.Value) -> bool | ir.Value:
        if self.threshold is None:
            return True
        width = WIDTH if isinstance(score.type, ir.VectorType) else 1
        return scalars.compare(score, ">", scalars.splat(self.threshold.load_flat(0), width))

    def _keep(self, batch: ir.Value, base: im.Index, i: ir.Value, n: ir.Value) -> None:
        box = self._read(batch, i)
        self.listed.store_flat(_as_i64(i), n)
        solid = scalars.compare(box.area, ">", scalars.constant_like(0, box.area))
        ends = [scalars.constant_like(end, box.area) for end in (np.inf, -np.inf)]
        x = [arith.select(solid, v, end) for v, end in zip(box.x, ends, strict=True)]
        for row, v in enumerate((*x, *box.y, box.area, self.scores.load_flat(im.add(base, i)))):
            self.room.store(v, [row, n])

    def _sweep(self, count: im.Index, chosen: im.Index | None) -> im.Index:
        """Strikes out the box at `chosen` and what overlaps it; returns the place of the best one left, -1 if none."""
        picked = None
        if chosen is not None:
            picked = self._box(lambda row: self._splat(self.room.load([row, chosen])))
            self.room.store(scalars.constant(float("nan"), self.scalar), [SCORE, chosen])
        lanes = arith.constant(self.numbers, ir.Attribute.parse(f"dense<{list(range(WIDTH))}> : {self.numbers}"))
        nowhere = scalars.constant(-1, self.numbers)

        def step(i: ir.Value, best: ir.Value, where: ir.Value) -> list[ir.Value]:
            places = arith.addi(self._number(i), lanes)
            score = self._row(SCORE, i)
            if picked is not None:
                stays = self.apart(picked, self._box(lambda row: self._row(row, i)))
                score = arith.select(stays, score, scalars.constant(float("nan"), self.vector))
                self.room.store_vector(score, self.room.offset([SCORE, i]))
            wins = arith.andi(arith.cmpf(ORDERED, score, score), arith.cmpf(GREATER_OR_NAN, score, best))
            return [arith.select(wins, score, best), arith.select(wins, places, where)]

        nothing = scalars.constant(float("nan"), self.vector)
        best, where = self.b.reduce(0, count, WIDTH, [nothing, nowhere], step)
        return arith.index_cast(ir.IndexType.get(), _best_lane(best, where))

    def _number(self, i: ir.Value) -> ir.Value:
        return self._splat(arith.index_cast(ir.IntegerType.get_signless(32), i))

    def _splat(self, v: ir.Value) -> ir.Value:
        return scalars.splat(v, WIDTH)

    def _row(self, row: int, i: im.Index) -> ir.Value:
        return self.room.load_vector(self.room.offset([row, i]), WIDTH)

    def _box(self, row) -> Box:
        return Box((row(X0), row(X1)), (row(Y0), row(Y1)), row(AREA))

    def _read(self, batch: im.Index, i: im.Index) -> Box:
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
        """Whether the intersection over the union is not above the threshold, of listed boxes.

        Where the width and the product with the height are positive, so are both areas and, since differences and
        products round monotonously, the union, which is no smaller than the larger area: no other test is needed. No
        corner of a listed box that meets another is NaN, so that the smaller and the larger are one instruction.
        """
        zero = scalars.constant_like(0, p.area)
        width = arith.subf(_smaller(p.x[1], q.x[1]), _larger(p.x[0], q.x[0]))
        height = arith.subf(_smaller(p.y[1], q.y[1]), _larger(p.y[0], q.y[0]))
        shared = arith.mulf(width, height)
        union = arith.subf(arith.addf(p.area, q.area), shared)
        meets = arith.andi(scalars.compare(width, ">", zero), scalars.compare(shared, ">", zero))
        most = self._splat(self.overlap.load_flat(0)) if self.overlap is not None else zero
        return scalars.logical_not(arith.andi(meets, scalars.compare(arith.divf(shared, union), ">", most)))


def _smaller(a: ir.Value, b: ir.Value) -> ir.Value:
    return arith.select(scalars.compare(a, "<", b), a, b)


def _larger(a: ir.Value, b: ir.Value) -> ir.Value:
    return arith.select(scalars.compare(a, ">", b), a, b)


def _best_lane(scores: ir.Value, places: ir.Value) -> ir.Value:
    """The place of the highest score of a vector; of equal ones the first, -1 where all are NaN."""
    nowhere = scalars.constant_like(-1, places)  # as an unsigned number the last place
    best = vector.reduction(scalars.scalar_type(scores), vector.CombiningKind.MAXNUMF, scores)
    wins = arith.cmpf(1, scores, scalars.splat(best, WIDTH))
    kept = arith.select(wins, places, nowhere)
    return vector.reduction(scalars.scalar_type(places), vector.CombiningKind.MINUI, kept)


def _ordered(a: ir.Value, b: ir.Value) -> tuple[ir.Value, ir.Value]:
    return scalars.minimum(a, b), scalars.maximum(a, b)
