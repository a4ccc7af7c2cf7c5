"""Kernel kind `recurrent`: the steps of LSTM, GRU and RNN (see passes/expand_recurrent.py for its operands).

For a few blocks of hidden units and a few items of the batch at once the products of all gates are accumulated in
registers, then the gates are applied and the new state stored (recurrent_cells.py): nothing of a step leaves the
registers twice. Such a piece of one step is a unit of parallel work; how they are numbered, recurrent_rounds.py tells.
h of the step before is read from y, for the first step from `last`.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith

from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels import pointers, scalars
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.gates import ROUNDS, Gates
from onnxc.passes.kernels.kernel_function import KernelFunction, Launch
from onnxc.passes.kernels.recurrent_cells import Cells, Row, Rows, fits
from onnxc.passes.kernels.recurrent_rounds import Rounds
from onnxc.passes.kernels.reduce import lane_mask

MOST_ROWS = 8  # 16 sums of two gates, which hide latency, and a vector of each gate's weights and of h
FREE_ROWS = 4  # where only a run tells the batch: there is code for each number of them
STREAMS = 4  # blocks of hidden units a piece: their weights often lie a multiple of 4 KB apart, in one set of L1
READ = 40  # ps to read a weight from L2, where it stays from step to step
MULTIPLY = 12  # ps that a row takes to multiply by it


def choose(kernel: KernelFunction, target) -> dict[str, int | str]:
    """`rows`: items of the batch that share a pass over the weights; `group`: blocks of hidden units a piece, so that
    half of the registers are sums, which hides latency, in each of a step's rounds (an RNN of 256 units and one item
    takes 1.8 times as long with 16 sums in as many streams of weights as with 4), but rather one pass over the weights
    with a block less than two."""
    rounds, registers = ROUNDS[Gates(kernel.root).cell], target.vector_registers
    batch = Tensor.of(kernel.root.operands[0].type).dims[1]
    most = min(MOST_ROWS, (registers - 1) // 2 - 1)
    rows = -(-batch // -(-batch // most)) if isinstance(batch, int) and batch else min(FREE_ROWS, most)
    group = min(STREAMS, -(-(registers // 2) // (rows * min(rounds))))
    if group > 2 and not fits(rows, group * max(rounds), registers):
        group -= 1
    return {"group": group, "rows": rows}


def launch(kernel: KernelFunction) -> Launch:
    r, attributes = Rounds.of(kernel), kernel.root.op.attributes
    hidden, lanes = (ir.IntegerAttr(attributes[name]).value for name in ("hidden", "block"))
    directions = ir.IntegerAttr(attributes["directions"]).value
    products = r.group * lanes * hidden * Gates(kernel.root).count // r.phases
    units = r.pieces * r.groups
    return Launch(directions * r.count * units, max(READ, MULTIPLY * r.rows) * products, units)


@dataclass
class Piece:
    """Hidden units [low, high); `number` of the direction's pieces."""

    number: im.Index
    low: im.Index
    high: im.Index


def emit(b: KernelBuilder) -> None:
    recurrence = Recurrence(b)
    with b.loop(b.begin, b.end) as unit:
        recurrence.unit(unit)


class Recurrence:
    """Emits the units of one kernel."""

    def __init__(self, b: KernelBuilder):
        self.b, self.rounds = b, Rounds.of(b.kernel)
        self.cells = Cells(b, self.rounds.rows * self.rounds.group)
        self.reverse = bool(ir.IntegerAttr(b.kernel.root.op.attributes["reverse"]).value)
        self.batch = b.dim(self.rounds.batch)

    def unit(self, number: im.Index) -> None:
        b, r, c = self.b, self.rounds, self.cells
        sizes = [c.directions, b.dim(r.count), r.pieces, b.dim(r.groups)]
        direction, turn, piece, group = im.unflattened(number, sizes)
        direction = 0 if c.directions == 1 else direction
        piece = im.select(self._turned(number, turn, im.mul(sizes[2], sizes[3])), im.sub(r.pieces - 1, piece), piece)
        blocks = im.select(im.compare(piece, "<", r.whole), r.group, 1)
        first = im.add(piece, im.mul(im.minimum(piece, r.whole), r.group - 1))
        low = im.mul(first, c.lanes)
        mine = Piece(piece, low, im.minimum(im.add(low, im.mul(blocks, c.lanes)), c.hidden))
        item, count = self._share(group)
        stop = im.add(item, count)
        with b.when(im.compare(turn, "==", 0)), b.loop(item, stop) as i:
            self._start(direction, i, mine)
        with b.when(im.compare(turn, "==", im.sub(sizes[1], 1))), b.loop(item, stop) as i:
            self._finish(direction, i, mine)
        inside = im.both(im.compare(turn, ">", 0), im.compare(turn, "<", im.sub(sizes[1], 1)))
        with b.when(inside):
            self._items(direction, item, count, mine, im.sub(turn, 1))

    def _share(self, group: im.Index) -> tuple[im.Index, im.Index]:
        """The first item of a group of the batch, and how many it has: where only a run tells the batch they differ by
        one at most (5 are 3 and 2, since a pass for one takes nearly as long as one for 2)."""
        rows, batch = self.rounds.rows, self.batch
        if isinstance(batch, int) or rows == 1:
            first = im.mul(group, rows)
            return first, rows if rows == 1 else im.minimum(rows, im.sub(batch, first))
        groups = self.b.dim(self.rounds.groups)
        small, more = im.floordiv(batch, groups), im.mod(batch, groups)
        return im.add(im.mul(group, small), im.minimum(group, more)), im.add(
            small, im.select(im.compare(group, "<", more), 1, 0)
        )

    def _turned(self, number: im.Index, turn: im.Index, units: im.Index) -> bool | ir.Value:
        """Whether the pieces come last to first: in every other round, if this call does all of it. Weights that just
        fill a cache are then found there, where going round would have pushed out each before its turn."""
        b = self.b
        if self.rounds.pieces == 1:
            return False
        start = im.sub(number, im.mod(number, units))
        inside = im.both(im.compare(start, ">=", b.begin), im.compare(im.add(start, units), "<=", b.end))
        return im.both(inside, im.compare(im.mod(im.floordiv(turn, self.rounds.phases), 2), "==", 1))

    def _length(self, item: im.Index) -> im.Index:
        steps, lengths = self.cells.projection.shape[0], self.cells.lengths
        if lengths is None:
            return steps
        given = self.b.index_cast(lengths.load([item]), lengths.elem)
        return im.minimum(im.maximum(given, 0), steps)

    def _items(self, direction, first: im.Index, count: im.Index, piece: Piece, turn: im.Index) -> None:
        """A round of a step for the `count` items of a group, of which `first` is the first."""
        rows, batch = self.rounds.rows, self.batch
        if rows == 1 or self.b.divides(rows, batch):
            sizes = [rows]
        else:
            sizes = [rows, batch % rows] if isinstance(batch, int) else list(range(1, rows + 1))
        for size in sizes:
            with self.b.when(len(sizes) == 1 or im.compare(count, "==", size)):
                self._turn(direction, first, size, piece, turn)

    def _turn(self, direction, first: im.Index, count: int, piece: Piece, turn: im.Index) -> None:
        """A round of a step of `count` items; beyond a row's length y is zero."""
        b, c, phases = self.b, self.cells, self.rounds.phases
        step, phase = im.floordiv(turn, phases), im.mod(turn, phases)
        rows, some = [], False
        for i in range(count):
            rows.append(row := self._row(direction, im.add(first, i), step))
            some = row.active if some is False or row.active is True else arith.ori(some, row.active)
            if c.lengths is not None:
                with b.when(im.negate(row.active)), b.loop(piece.low, piece.high) as unit:
                    zero = scalars.constant(0, c.scalar)
                    c.y.store_flat(zero, c.y.offset([step, direction, row.batch, unit]))
        together = Rows(rows, lambda i: self._row(direction, im.add(first, i), step))
        with b.when(some):
            if c.cell != "GRU":
                self._blocks(together, piece, c.lstm if c.cell == "LSTM" else c.rnn)
                return
            with b.when(im.compare(phase, "==", 0)):
                self._blocks(together, piece, c.gru_gates)
            with b.when(im.compare(phase, "==", 1)):
                self._blocks(together, piece, c.gru_output)

    def _row(self, direction: im.Index, item: im.Index, step: im.Index) -> Row:
        """An item at its step; one that is not active has the first state for its h, which always can be read."""
        c, length = self.cells, self._length(item)
        time, before = self._time(direction, length, step), self._time(direction, length, im.sub(step, 1))
        y, last, _ = c.pointers
        first = pointers.advance(last, c.last.offset([direction, item, 0]), c.elem)
        later = pointers.advance(y, c.y.offset([before, direction, item, 0]), c.elem)
        active = True if c.lengths is None else im.compare(step, "<", length)
        h = arith.select(self._value(im.both(active, im.compare(step, ">", 0))), later, first)
        return Row(direction, item, time, h, active)

    def _value(self, condition: bool | ir.Value) -> ir.Value:
        return arith.constant(ir.IntegerType.get_signless(1), condition) if isinstance(condition, bool) else condition

    def _time(self, direction: im.Index, length: im.Index, step: im.Index) -> im.Index:
        return im.select(self._backward(direction), im.sub(im.sub(length, 1), step), step)

    def _backward(self, direction: im.Index) -> bool | ir.Value:
        if self.reverse:
            return True
        return False if self.cells.directions == 1 else im.compare(direction, "==", 1)

    def _start(self, direction: im.Index, item: im.Index, piece: Piece) -> None:
        """The states before the first step."""
        c = self.cells
        states = [(c.last, c.h0), *([(c.state, c.c0)] if c.cell == "LSTM" else [])]
        with self.b.loop(piece.low, piece.high) as i:
            for target, initial in states:
                point = [direction, item, i]
                v = scalars.constant(0, c.scalar) if initial is None else initial.load(point)
                target.store(v, point)

    def _finish(self, direction: im.Index, item: im.Index, piece: Piece) -> None:
        """The last step's h; without any step it is the first."""
        c, length = self.cells, self._length(item)
        with self.b.when(im.compare(length, ">", 0)):
            time = self._time(direction, length, im.sub(length, 1))
            with self.b.loop(piece.low, piece.high) as i:
                c.last.store(c.y.load([time, direction, item, i]), [direction, item, i])

    def _blocks(self, rows: Rows, piece: Piece, compute) -> None:
        """Calls `compute(rows, block, count, mask)` for the piece: a group of whole blocks, or one block."""
        r, number = self.rounds, piece.number
        if r.whole:
            with self.b.when(im.compare(number, "<", r.whole)):
                compute(rows, im.mul(number, r.group), r.group, None)
        for i, block in enumerate(range(r.whole * r.group, r.blocks)):
            rest = self.cells.hidden - block * self.cells.lanes
            with self.b.when(im.compare(number, "==", r.whole + i)):
                mask = lane_mask(rest, self.cells.lanes) if rest < self.cells.lanes else None
                compute(rows, block, 1, mask)
