"""Kernel kind `recurrent`: the steps of LSTM, GRU and RNN (see passes/expand_recurrent.py for its operands).

For a few blocks of hidden units at once the products of all gates are accumulated in registers, k in order from 0,
then the gates are applied and the new state stored: nothing of a step leaves the registers twice. Such a piece of one
step is a unit of parallel work; how they are numbered, recurrent_rounds.py tells. h of the step before is read from y,
for the first step from `last`.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, math, vector

from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels import pointers, scalars
from onnxc.passes.kernels.builder import Buffer, KernelBuilder
from onnxc.passes.kernels.gates import Gates
from onnxc.passes.kernels.kernel_function import KernelFunction, Launch
from onnxc.passes.kernels.recurrent_rounds import Rounds
from onnxc.passes.kernels.reduce import lane_mask

MOST_ACCUMULATORS = 16
READ = 40  # ps to read a weight from L2, where it stays from step to step
K_BLOCK = 512  # the numeric promise: sums of 512 products, each from 0, added in order


def choose(kernel: KernelFunction, target) -> dict[str, int | str]:
    """`group`: blocks of hidden units a piece, so that all gates' sums stay in registers."""
    gates = Gates(kernel.root).count
    return {"group": max(1, MOST_ACCUMULATORS // gates) if target.vector_registers >= 32 else 2}


def launch(kernel: KernelFunction) -> Launch:
    r, attributes = Rounds.of(kernel), kernel.root.op.attributes
    hidden, lanes = (ir.IntegerAttr(attributes[name]).value for name in ("hidden", "block"))
    directions = ir.IntegerAttr(attributes["directions"]).value
    products = r.group * lanes * hidden * Gates(kernel.root).count // r.phases
    units = r.pieces * r.batch
    return Launch(directions * r.count * units, READ * products, units)


@dataclass
class Row:
    """What a step of one row (a direction of one batch item) works on."""

    direction: im.Index
    batch: im.Index
    step: im.Index  # the time that is computed
    h: ir.Value  # address of the state before it


@dataclass
class Piece:
    """Hidden units [low, high); `number` of the direction's pieces."""

    number: im.Index
    low: im.Index
    high: im.Index


def emit(b: KernelBuilder) -> None:
    cell = Recurrence(b)
    with b.loop(b.begin, b.end) as unit:
        cell.unit(unit)


class Recurrence:
    """Emits the units of one kernel."""

    def __init__(self, b: KernelBuilder):
        self.b, self.root, self.rounds = b, b.kernel.root, Rounds.of(b.kernel)
        attributes = self.root.op.attributes
        self.hidden = ir.IntegerAttr(attributes["hidden"]).value
        self.lanes = ir.IntegerAttr(attributes["block"]).value
        self.cell = ir.StringAttr(attributes["cell"]).value
        self.directions = ir.IntegerAttr(attributes["directions"]).value
        self.gates = Gates(self.root)
        operands = [b.inputs.get(v) if v is not None else None for v in self.root.operands]
        operands += [None] * (7 - len(operands))
        self.projection, self.weights, self.lengths, self.h0, self.c0, self.peepholes, self.inner_bias = operands
        self.y, self.last, self.state = b.outputs
        self.elem = self.y.elem
        self.scalar = scalars.element_type(self.elem)
        self.pointers = [pointers.pointer(v.memory) for v in (self.y, self.last, self.state)]

    def unit(self, number: im.Index) -> None:
        b, r = self.b, self.rounds
        sizes = [self.directions, b.dim(r.count), r.pieces, b.dim(r.batch)]
        direction, turn, piece, batch = im.unflattened(number, sizes)
        direction = 0 if self.directions == 1 else direction
        piece = im.select(self._turned(number, turn, im.mul(sizes[2], sizes[3])), im.sub(r.pieces - 1, piece), piece)
        blocks = im.select(im.compare(piece, "<", r.whole), r.group, 1)
        first = im.add(piece, im.mul(im.minimum(piece, r.whole), r.group - 1))
        low = im.mul(first, self.lanes)
        mine = Piece(piece, low, im.minimum(im.add(low, im.mul(blocks, self.lanes)), self.hidden))
        length = self._length(batch)
        with b.when(im.compare(turn, "==", 0)):
            self._start(direction, batch, mine)
        with b.when(im.compare(turn, "==", im.sub(sizes[1], 1))):
            self._finish(direction, batch, mine, length)
        inside = im.both(im.compare(turn, ">", 0), im.compare(turn, "<", im.sub(sizes[1], 1)))
        with b.when(inside):
            self._turn(direction, batch, mine, length, im.sub(turn, 1))

    def _turned(self, number: im.Index, turn: im.Index, units: im.Index) -> bool | ir.Value:
        """Whether the pieces come last to first: in every other round, if this call does all of it. Weights that just
        fill a cache are then found there, where going round would have pushed out each before its turn."""
        b = self.b
        if self.rounds.pieces == 1:
            return False
        start = im.sub(number, im.mod(number, units))
        inside = im.both(im.compare(start, ">=", b.begin), im.compare(im.add(start, units), "<=", b.end))
        return im.both(inside, im.compare(im.mod(im.floordiv(turn, self.rounds.phases), 2), "==", 1))

    def _length(self, batch: im.Index) -> im.Index:
        steps = self.projection.shape[0]
        if self.lengths is None:
            return steps
        given = self.b.index_cast(self.lengths.load([batch]), self.lengths.elem)
        return im.minimum(im.maximum(given, 0), steps)

    def _turn(self, direction, batch, piece: Piece, length: im.Index, turn: im.Index) -> None:
        """A round of a step; beyond the row's length y is zero."""
        b, phases = self.b, self.rounds.phases
        step, phase = im.floordiv(turn, phases), im.mod(turn, phases)
        with b.when(im.compare(step, ">=", length)), b.loop(piece.low, piece.high) as i:
            self.y.store_flat(scalars.constant(0, self.scalar), self.y.offset([step, direction, batch, i]))
        with b.when(im.compare(step, "<", length)):
            time, before = self._time(direction, length, step), self._time(direction, length, im.sub(step, 1))
            y, last, _ = self.pointers
            first = pointers.advance(last, self.last.offset([direction, batch, 0]), self.elem)
            later = pointers.advance(y, self.y.offset([before, direction, batch, 0]), self.elem)
            h = arith.select(self._value(im.compare(step, "==", 0)), first, later)
            row = Row(direction, batch, time, h)
            if self.cell != "GRU":
                self._blocks(row, piece, self._lstm if self.cell == "LSTM" else self._rnn)
                return
            with b.when(im.compare(phase, "==", 0)):
                self._blocks(row, piece, self._gru_gates)
            with b.when(im.compare(phase, "==", 1)):
                self._blocks(row, piece, self._gru_output)

    def _value(self, condition: bool | ir.Value) -> ir.Value:
        return arith.constant(ir.IntegerType.get_signless(1), condition) if isinstance(condition, bool) else condition

    def _time(self, direction: im.Index, length: im.Index, step: im.Index) -> im.Index:
        return im.select(self._backward(direction), im.sub(im.sub(length, 1), step), step)

    def _backward(self, direction: im.Index) -> bool | ir.Value:
        if ir.IntegerAttr(self.root.op.attributes["reverse"]).value:
            return True
        return False if self.directions == 1 else im.compare(direction, "==", 1)

    def _start(self, direction: im.Index, batch: im.Index, piece: Piece) -> None:
        """The states before the first step."""
        states = [(self.last, self.h0), *([(self.state, self.c0)] if self.cell == "LSTM" else [])]
        with self.b.loop(piece.low, piece.high) as i:
            for target, initial in states:
                point = [direction, batch, i]
                v = scalars.constant(0, self.scalar) if initial is None else initial.load(point)
                target.store(v, point)

    def _finish(self, direction: im.Index, batch: im.Index, piece: Piece, length: im.Index) -> None:
        """The last step's h; without any step it is the first."""
        with self.b.when(im.compare(length, ">", 0)):
            time = self._time(direction, length, im.sub(length, 1))
            with self.b.loop(piece.low, piece.high) as i:
                self.last.store(self.y.load([time, direction, batch, i]), [direction, batch, i])

    def _y(self, row: Row, unit: im.Index) -> im.Index:
        return self.y.offset([row.step, row.direction, row.batch, unit])

    def _blocks(self, row: Row, piece: Piece, compute) -> None:
        """Calls `compute(row, block, count, mask)` for the piece: a group of whole blocks, or one block."""
        r, number = self.rounds, piece.number
        if r.whole:
            with self.b.when(im.compare(number, "<", r.whole)):
                compute(row, im.mul(number, r.group), r.group, None)
        for i, block in enumerate(range(r.whole * r.group, r.blocks)):
            rest = self.hidden - block * self.lanes
            with self.b.when(im.compare(number, "==", r.whole + i)):
                compute(row, block, 1, lane_mask(rest, self.lanes) if rest < self.lanes else None)

    def products(
        self, row: Row, block: im.Index, count: int, gates: list[int], source: ir.Value
    ) -> list[list[ir.Value]]:
        """The state at `source` times the weights, for `count` blocks: a vector per block and gate."""
        zero = scalars.constant(0, scalars.vector_of(self.scalar, self.lanes))
        total = [zero] * (count * len(gates))
        for first in range(0, self.hidden, K_BLOCK):
            stop = min(self.hidden, first + K_BLOCK)
            part = self.b.reduce(
                first,
                stop,
                1,
                [zero] * len(total),
                lambda k, *acc: self._products_at(row, block, count, gates, source, k, acc),
            )
            total = part if first == 0 else [arith.addf(t, p) for t, p in zip(total, part, strict=True)]
        return [total[i * len(gates) : (i + 1) * len(gates)] for i in range(count)]

    def _products_at(self, row: Row, block, count: int, gates: list[int], source: ir.Value, k, acc) -> list[ir.Value]:
        h = vector.broadcast(scalars.vector_of(self.scalar, self.lanes), pointers.load(source, k, self.elem))
        new = []
        for i in range(count):
            for j, gate in enumerate(gates):
                at = self.weights.offset([row.direction, im.add(block, i), k, gate, 0])
                w = self.weights.load_vector(at, self.lanes)
                a = acc[i * len(gates) + j]
                new.append(math.fma(h, w, a) if self.b.target.has_fma else arith.addf(a, arith.mulf(h, w)))
        return new

    def projected(self, row: Row, gate: int, unit: im.Index, mask) -> ir.Value:
        """The input's part of a gate."""
        column = im.add(im.mul(row.direction, self.gates.count * self.hidden), im.add(unit, gate * self.hidden))
        return self.projection.load_vector(self.projection.offset([row.step, row.batch, column]), self.lanes, mask)

    def _vector(self, buffer: Buffer, at: im.Index, mask) -> ir.Value:
        return buffer.load_vector(at, self.lanes, mask)

    def _h(self, row: Row, unit: im.Index, mask) -> ir.Value:
        return pointers.load_vector(pointers.advance(row.h, unit, self.elem), self.lanes, self.elem, mask)

    def _rnn(self, row: Row, block: im.Index, count: int, mask) -> None:
        for i, (product,) in enumerate(self.products(row, block, count, [0], row.h)):
            unit = im.mul(im.add(block, i), self.lanes)
            pre = arith.addf(self.projected(row, 0, unit, mask), product)
            self.y.store_vector(self.gates.apply(row.direction, 0, pre), self._y(row, unit), mask)

    def _lstm(self, row: Row, block: im.Index, count: int, mask) -> None:
        for i, products in enumerate(self.products(row, block, count, [0, 1, 2, 3], row.h)):
            unit = im.mul(im.add(block, i), self.lanes)
            gate_i, gate_o, gate_f, gate_c = [
                arith.addf(self.projected(row, g, unit, mask), p) for g, p in enumerate(products)
            ]
            at = self.state.offset([row.direction, row.batch, unit])
            old = self._vector(self.state, at, mask)
            gate_i, gate_f = (self._peeped(row, n, unit, v, old, mask) for n, v in ((0, gate_i), (2, gate_f)))
            opened = self.gates.apply(row.direction, 0, gate_i)
            forget = self.gates.apply(row.direction, 0, gate_f)
            if ir.IntegerAttr(self.root.op.attributes["input_forget"]).value:
                forget = arith.subf(scalars.constant_like(1, opened), opened)
            new = arith.addf(arith.mulf(forget, old), arith.mulf(opened, self.gates.apply(row.direction, 1, gate_c)))
            gate_o = self.gates.apply(row.direction, 0, self._peeped(row, 1, unit, gate_o, new, mask))
            self.state.store_vector(new, at, mask)
            self.y.store_vector(
                arith.mulf(gate_o, self.gates.apply(row.direction, 2, new, clip=False)), self._y(row, unit), mask
            )

    def _peeped(self, row: Row, which: int, unit: im.Index, pre: ir.Value, state: ir.Value, mask) -> ir.Value:
        """Peephole weights are [dirs, 3·H] for i, o, f."""
        if self.peepholes is None:
            return pre
        weight = self._vector(
            self.peepholes, self.peepholes.offset([row.direction, im.add(unit, which * self.hidden)]), mask
        )
        return arith.addf(pre, arith.mulf(weight, state))

    def _room(self, row: Row, which: int, unit: im.Index) -> im.Index:
        return self.state.offset([which, row.direction, row.batch, unit])

    def _gru_gates(self, row: Row, block: im.Index, count: int, mask) -> None:
        """z into room 0, and r (linear before reset) or r·h into room 1."""
        linear = self._linear()
        for i, products in enumerate(self.products(row, block, count, [0, 1], row.h)):
            unit = im.mul(im.add(block, i), self.lanes)
            z, r = [
                self.gates.apply(row.direction, 0, arith.addf(self.projected(row, g, unit, mask), p))
                for g, p in enumerate(products)
            ]
            self.state.store_vector(z, self._room(row, 0, unit), mask)
            h = self._h(row, unit, mask)
            self.state.store_vector(r if linear else arith.mulf(r, h), self._room(row, 1, unit), mask)

    def _linear(self) -> bool:
        return bool(ir.IntegerAttr(self.root.op.attributes["linear_before_reset"]).value)

    def _gru_output(self, row: Row, block: im.Index, count: int, mask) -> None:
        linear = self._linear()
        room = pointers.advance(self.pointers[2], self._room(row, 1, 0), self.elem)
        source = row.h if linear else room
        for i, (product,) in enumerate(self.products(row, block, count, [2], source)):
            unit = im.mul(im.add(block, i), self.lanes)
            if linear:
                if self.inner_bias is not None:
                    bias = self._vector(self.inner_bias, self.inner_bias.offset([row.direction, unit]), mask)
                    product = arith.addf(product, bias)
                product = arith.mulf(self._vector(self.state, self._room(row, 1, unit), mask), product)
            candidate = self.gates.apply(row.direction, 1, arith.addf(self.projected(row, 2, unit, mask), product))
            z = self._vector(self.state, self._room(row, 0, unit), mask)
            h = self._h(row, unit, mask)
            kept = arith.mulf(arith.subf(scalars.constant_like(1, z), z), candidate)
            self.y.store_vector(arith.addf(kept, arith.mulf(z, h)), self._y(row, unit), mask)
