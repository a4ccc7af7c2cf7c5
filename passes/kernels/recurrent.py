"""Kernel kind `recurrent`: the steps of LSTM, GRU and RNN (see passes/expand_recurrent.py for its operands).

A row (one direction of one batch item) is one unit of parallel work; its steps follow one another. For a few blocks of
hidden units at once the products of all gates are accumulated in registers, k in order from 0, then the gates are
applied and the new state stored: nothing of a step leaves the registers twice. h of the last step is read from the row
of `last`, and the new h, which other blocks must not see yet, goes to `y` first.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, math, vector

from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels import scalars
from onnxc.passes.kernels.builder import Buffer, KernelBuilder
from onnxc.passes.kernels.gates import Gates
from onnxc.passes.kernels.kernel_function import KernelFunction, Launch
from onnxc.passes.kernels.reduce import lane_mask

MOST_ACCUMULATORS = 16
K_BLOCK = 512  # the numeric promise: sums of 512 products, each from 0, added in order


def launch(kernel: KernelFunction) -> Launch:
    rows = Tensor.of(kernel.root.results[1].type).dims
    return Launch(rows[0] * rows[1])


@dataclass
class Row:
    """What the steps of one row work on."""

    direction: im.Index
    batch: im.Index
    step: im.Index  # the time that is computed
    odd: bool | ir.Value = False  # whether blocks go from the last to the first


def emit(b: KernelBuilder) -> None:
    cell = Recurrence(b)
    with b.loop(b.begin, b.end) as item:
        cell.row(item)


class Recurrence:
    """Emits the rows of one kernel."""

    def __init__(self, b: KernelBuilder):
        self.b, self.root = b, b.kernel.root
        attributes = self.root.op.attributes
        self.hidden = ir.IntegerAttr(attributes["hidden"]).value
        self.lanes = ir.IntegerAttr(attributes["block"]).value
        self.cell = ir.StringAttr(attributes["cell"]).value
        self.gates = Gates(self.root)
        operands = [b.inputs.get(v) if v is not None else None for v in self.root.operands]
        operands += [None] * (7 - len(operands))
        self.projection, self.weights, self.lengths, self.h0, self.c0, self.peepholes, self.inner_bias = operands
        self.y, self.last, self.state = b.outputs
        self.elem = self.y.elem
        self.scalar = scalars.element_type(self.elem)

    def row(self, item: im.Index) -> None:
        b, steps = self.b, self.projection.shape[0]
        batch_size = self.projection.shape[1]
        direction, batch = im.floordiv(item, batch_size), im.mod(item, batch_size)
        self._start(self.last, self.h0, direction, batch)
        if self.cell == "LSTM":
            self._start(self.state, self.c0, direction, batch)
        length: im.Index = steps
        if self.lengths is not None:
            length = im.minimum(im.maximum(b.index_cast(self.lengths.load([batch]), self.lengths.elem), 0), steps)
        backward = self._backward(direction)
        with b.loop(0, length) as i:
            behind = im.sub(im.sub(length, 1), i)
            self.step(Row(direction, batch, im.select(backward, behind, i), im.compare(im.mod(i, 2), "==", 1)))
        with b.loop(length, steps) as i:
            self._fill(self.y, self.y.offset([i, direction, batch, 0]))

    def _backward(self, direction: im.Index) -> bool | ir.Value:
        if ir.IntegerAttr(self.root.op.attributes["reverse"]).value:
            return True
        directions = ir.IntegerAttr(self.root.op.attributes["directions"]).value
        return False if directions == 1 else im.compare(direction, "==", 1)

    def _start(self, target: Buffer, initial: Buffer | None, direction: im.Index, batch: im.Index) -> None:
        at = target.offset([direction, batch, 0])
        if initial is None:
            self._fill(target, at)
        else:
            self._copy(target, at, initial, initial.offset([direction, batch, 0]))

    def _fill(self, target: Buffer, at: im.Index) -> None:
        zero = scalars.constant(0, self.scalar)
        with self.b.loop(0, self.hidden) as i:
            target.store_flat(zero, im.add(at, i))

    def _copy(self, target: Buffer, at: im.Index, source: Buffer, start: im.Index) -> None:
        with self.b.loop(0, self.hidden) as i:
            target.store_flat(source.load_flat(im.add(start, i)), im.add(at, i))

    def step(self, row: Row) -> None:
        """One step of one row; GRU without linear_before_reset needs r of all units before its last product."""
        self._blocks(row, self._lstm if self.cell == "LSTM" else self._rnn if self.cell == "RNN" else self._gru_gates)
        if self.cell == "GRU":
            self._blocks(row, self._gru_output)
        self._copy(self.last, self.last.offset([row.direction, row.batch, 0]), self.y, self._y(row, 0))

    def _y(self, row: Row, unit: im.Index) -> im.Index:
        return self.y.offset([row.step, row.direction, row.batch, unit])

    def _blocks(self, row: Row, compute) -> None:
        """Calls `compute(row, block, count)` for groups of whole blocks, then for the rest.

        Every other step goes through the groups backwards: weights that just fill a cache are then found there, where
        going round would have pushed out each before its turn."""
        total = -(-self.hidden // self.lanes)
        group = max(1, MOST_ACCUMULATORS // max(1, self.gates.count) if self.b.target.vector_registers >= 32 else 2)
        group = min(group, total)
        full = self.hidden // self.lanes // group * group
        with self.b.loop(0, full, group) as block:
            compute(row, im.select(row.odd, im.sub(full - group, block), block), group, None)
        for block in range(full, total):
            rest = self.hidden - block * self.lanes
            compute(row, block, 1, lane_mask(rest, self.lanes) if rest < self.lanes else None)

    def products(
        self, row: Row, block: im.Index, count: int, gates: list[int], source: Buffer, base: im.Index
    ) -> list[list[ir.Value]]:
        """h · r for `count` blocks: a vector per block and gate."""
        zero = scalars.constant(0, scalars.vector_of(self.scalar, self.lanes))
        total = [zero] * (count * len(gates))
        for first in range(0, self.hidden, K_BLOCK):
            stop = min(self.hidden, first + K_BLOCK)
            part = self.b.reduce(
                first,
                stop,
                1,
                [zero] * len(total),
                lambda k, *acc: self._products_at(row, block, count, gates, source, base, k, acc),
            )
            total = part if first == 0 else [arith.addf(t, p) for t, p in zip(total, part, strict=True)]
        return [total[i * len(gates) : (i + 1) * len(gates)] for i in range(count)]

    def _products_at(
        self, row: Row, block, count: int, gates: list[int], source: Buffer, base, k, acc
    ) -> list[ir.Value]:
        h = vector.broadcast(scalars.vector_of(self.scalar, self.lanes), source.load_flat(im.add(base, k)))
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

    def _h(self, row: Row) -> im.Index:
        return self.last.offset([row.direction, row.batch, 0])

    def _rnn(self, row: Row, block: im.Index, count: int, mask) -> None:
        for i, (product,) in enumerate(self.products(row, block, count, [0], self.last, self._h(row))):
            unit = im.mul(im.add(block, i), self.lanes)
            pre = arith.addf(self.projected(row, 0, unit, mask), product)
            self.y.store_vector(self.gates.apply(row.direction, 0, pre), self._y(row, unit), mask)

    def _lstm(self, row: Row, block: im.Index, count: int, mask) -> None:
        for i, products in enumerate(self.products(row, block, count, [0, 1, 2, 3], self.last, self._h(row))):
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
        for i, products in enumerate(self.products(row, block, count, [0, 1], self.last, self._h(row))):
            unit = im.mul(im.add(block, i), self.lanes)
            z, r = [
                self.gates.apply(row.direction, 0, arith.addf(self.projected(row, g, unit, mask), p))
                for g, p in enumerate(products)
            ]
            self.state.store_vector(z, self._room(row, 0, unit), mask)
            h = self._vector(self.last, im.add(self._h(row), unit), mask)
            self.state.store_vector(r if linear else arith.mulf(r, h), self._room(row, 1, unit), mask)

    def _linear(self) -> bool:
        return bool(ir.IntegerAttr(self.root.op.attributes["linear_before_reset"]).value)

    def _gru_output(self, row: Row, block: im.Index, count: int, mask) -> None:
        linear = self._linear()
        source, base = (self.last, self._h(row)) if linear else (self.state, self._room(row, 1, 0))
        for i, (product,) in enumerate(self.products(row, block, count, [2], source, base)):
            unit = im.mul(im.add(block, i), self.lanes)
            if linear:
                if self.inner_bias is not None:
                    bias = self._vector(self.inner_bias, self.inner_bias.offset([row.direction, unit]), mask)
                    product = arith.addf(product, bias)
                product = arith.mulf(self._vector(self.state, self._room(row, 1, unit), mask), product)
            candidate = self.gates.apply(row.direction, 1, arith.addf(self.projected(row, 2, unit, mask), product))
            z = self._vector(self.state, self._room(row, 0, unit), mask)
            h = self._vector(self.last, im.add(self._h(row), unit), mask)
            kept = arith.mulf(arith.subf(scalars.constant_like(1, z), z), candidate)
            self.y.store_vector(arith.addf(kept, arith.mulf(z, h)), self._y(row, unit), mask)
