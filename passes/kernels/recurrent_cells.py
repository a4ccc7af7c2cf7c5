"""What the cells of LSTM, GRU and RNN compute in a step: the products of all gates, then the gates and the new state.

Rows (items of the batch) that are computed together share each vector of weights that is loaded. Each row's sums go
over k in order from 0, so that no bit depends on how many rows there are.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, math, vector

from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels import pointers, scalars
from onnxc.passes.kernels.builder import Buffer, KernelBuilder
from onnxc.passes.kernels.contraction import Arithmetic
from onnxc.passes.kernels.gates import ROUNDS, Gates

K_BLOCK = 512  # the numeric promise: sums of 512 products, each from 0, added in order


@dataclass
class Row:
    """What a step of one row (a direction of one batch item) works on."""

    direction: im.Index
    batch: im.Index
    step: im.Index  # the time that is computed
    h: ir.Value  # address of the state before it
    active: bool | ir.Value  # whether the row is long enough to have this step


@dataclass
class Rows:
    """Rows that are computed together. `number`: the same row, told by a loop over them."""

    rows: list[Row]
    number: Callable[[ir.Value], Row]


def fits(rows: int, weights: int, registers: int) -> bool:
    """Whether registers hold all sums, the rows' h or the weights, whatever are fewer, and one of the others."""
    return rows * weights + min(rows, weights) + 1 <= registers


class Cells:
    """The operands of one kernel.recurrent, and what its cell makes of them.

    `most`: rows times blocks of hidden units that are computed together, at most."""

    def __init__(self, b: KernelBuilder, most: int):
        self.b, self.root = b, b.kernel.root
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
        sums = Arithmetic(self.elem, self.elem, self.lanes, b.target.has_fma)
        self.room = sums.room(most * self.gates.count * self.lanes)

    def products(
        self, rows: Rows, block: im.Index, count: int, gates: list[int], sources: list[ir.Value]
    ) -> Iterator[tuple[Row, im.Index, list[ir.Value]]]:
        """The states at `sources` times the weights, for `count` blocks: of each row and block (row, first hidden unit,
        a vector per gate), under the condition that the row is active.

        Sums of several rows lie in memory until a loop over the rows takes them. What a pass over the weights has
        summed up would else stay in registers, and LLVM spill the next pass's sums in its innermost loop: LSTM of 256
        with 8 items took 1.28 times as long on Zen 4, and GRU, whose rounds are one pass, 1.1 times."""
        one, width, lanes = len(sources) == 1, len(gates), self.lanes
        most = self._gates_a_pass(len(sources), count, width)
        sums: dict[tuple[int, int, int], ir.Value] = {}
        for first in range(0, width, most):
            part = gates[first : first + most]
            places = itertools.product(range(len(sources)), range(count), range(first, first + len(part)))
            found = self._product(rows.rows[0].direction, block, count, part, sources)
            sums |= dict(zip(places, found, strict=True))
            while not one and sums:
                (r, i, g), v = sums.popitem()
                self.room.store_vector(v, ((r * count + i) * width + g) * lanes)

        def vectors(r: im.Index, i: int) -> list[ir.Value]:
            if one:
                return [sums[0, i, g] for g in range(width)]
            line = im.mul(im.add(im.mul(r, count), i), width * lanes)
            return [self.room.load_vector(im.add(line, g * lanes), lanes) for g in range(width)]

        with nullcontext(0) if one else self.b.loop(0, len(sources)) as number:
            row = rows.rows[0] if one else rows.number(number)
            with self.b.when(row.active):
                for i in range(count):
                    yield row, im.mul(im.add(block, i), lanes), vectors(number, i)

    def _gates_a_pass(self, rows: int, count: int, gates: int) -> int:
        """How many gates' sums a pass over the weights makes, in as few passes as registers allow, of equal length."""
        fitting = [n for n in range(1, gates + 1) if fits(rows, count * n, self.b.target.vector_registers)]
        passes = -(-gates // max(fitting, default=1))
        return -(-gates // passes)

    def _product(
        self, direction: im.Index, block: im.Index, count: int, gates: list[int], sources: list[ir.Value]
    ) -> list[ir.Value]:
        """That of as many gates as have their sums, and a vector of weights each, in registers: [row][block][gate]."""
        zero = scalars.constant(0, scalars.vector_of(self.scalar, self.lanes))
        total = [zero] * (len(sources) * count * len(gates))
        for first in range(0, self.hidden, K_BLOCK):
            stop = min(self.hidden, first + K_BLOCK)
            part = self.b.reduce(
                first,
                stop,
                1,
                [zero] * len(total),
                lambda k, *acc: self._products_at(direction, block, count, gates, sources, k, acc),
            )
            total = part if first == 0 else [arith.addf(t, p) for t, p in zip(total, part, strict=True)]
        return total

    def _products_at(self, direction, block, count: int, gates: list[int], sources, k, acc) -> list[ir.Value]:
        """The sums with the products at k. What there are fewer of, rows or vectors of weights, is loaded first and
        stays in registers; the others follow one by one, weights of a single row as operands of the multiply-adds."""
        lanes = scalars.vector_of(self.scalar, self.lanes)
        at = [self._weight(direction, im.add(block, i), k, gate) for i in range(count) for gate in gates]
        new = list(acc)

        def weight(j: int) -> ir.Value:
            return self.weights.load_vector(at[j], self.lanes)

        def h(r: int) -> ir.Value:
            return vector.broadcast(lanes, pointers.load(sources[r], k, self.elem))

        def add(r: int, j: int, x: ir.Value, w: ir.Value) -> None:
            n = r * len(at) + j
            new[n] = math.fma(x, w, new[n]) if self.b.target.has_fma else arith.addf(new[n], arith.mulf(x, w))

        if len(sources) < len(at):
            states = [h(r) for r in range(len(sources))]
            for j in range(len(at)):
                w = weight(j)
                for r, x in enumerate(states):
                    add(r, j, x, w)
        else:
            weights = [weight(j) for j in range(len(at))]
            for r in range(len(sources)):
                x = h(r)
                for j, w in enumerate(weights):
                    add(r, j, x, w)
        return new

    def _weight(self, direction: im.Index, block: im.Index, k: im.Index, gate: int) -> im.Index:
        """Where a gate's vector of term k lies: within the part of its round."""
        first = 0
        for count in ROUNDS[self.cell]:
            if gate < first + count:
                break
            first += count
        place = im.add(im.mul(k, count), first * self.hidden + gate - first)
        return self.weights.offset([direction, block, im.mul(place, self.lanes)])

    def _projected(self, row: Row, gate: int, unit: im.Index, mask) -> ir.Value:
        """The input's part of a gate."""
        column = im.add(im.mul(row.direction, self.gates.count * self.hidden), im.add(unit, gate * self.hidden))
        return self.projection.load_vector(self.projection.offset([row.step, row.batch, column]), self.lanes, mask)

    def _y(self, row: Row, unit: im.Index) -> im.Index:
        return self.y.offset([row.step, row.direction, row.batch, unit])

    def _vector(self, buffer: Buffer, at: im.Index, mask) -> ir.Value:
        return buffer.load_vector(at, self.lanes, mask)

    def _h(self, row: Row, unit: im.Index, mask) -> ir.Value:
        return pointers.load_vector(pointers.advance(row.h, unit, self.elem), self.lanes, self.elem, mask)

    def rnn(self, rows: Rows, block: im.Index, count: int, mask) -> None:
        found = self.products(rows, block, count, [0], [row.h for row in rows.rows])
        for row, unit, (product,) in found:
            pre = arith.addf(self._projected(row, 0, unit, mask), product)
            self.y.store_vector(self.gates.apply(row.direction, 0, pre), self._y(row, unit), mask)

    def lstm(self, rows: Rows, block: im.Index, count: int, mask) -> None:
        found = self.products(rows, block, count, [0, 1, 2, 3], [row.h for row in rows.rows])
        for row, unit, products in found:
            gate_i, gate_o, gate_f, gate_c = [
                arith.addf(self._projected(row, g, unit, mask), p) for g, p in enumerate(products)
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

    def gru_gates(self, rows: Rows, block: im.Index, count: int, mask) -> None:
        """z into room 0, and r (linear before reset) or r·h into room 1."""
        linear = self._linear()
        found = self.products(rows, block, count, [0, 1], [row.h for row in rows.rows])
        for row, unit, products in found:
            z, r = [
                self.gates.apply(row.direction, 0, arith.addf(self._projected(row, g, unit, mask), p))
                for g, p in enumerate(products)
            ]
            self.state.store_vector(z, self._room(row, 0, unit), mask)
            h = self._h(row, unit, mask)
            self.state.store_vector(r if linear else arith.mulf(r, h), self._room(row, 1, unit), mask)

    def _linear(self) -> bool:
        return bool(ir.IntegerAttr(self.root.op.attributes["linear_before_reset"]).value)

    def gru_output(self, rows: Rows, block: im.Index, count: int, mask) -> None:
        linear = self._linear()
        rooms = [pointers.advance(self.pointers[2], self._room(row, 1, 0), self.elem) for row in rows.rows]
        found = self.products(rows, block, count, [2], [row.h for row in rows.rows] if linear else rooms)
        for row, unit, (product,) in found:
            if linear:
                if self.inner_bias is not None:
                    bias = self._vector(self.inner_bias, self.inner_bias.offset([row.direction, unit]), mask)
                    product = arith.addf(product, bias)
                product = arith.mulf(self._vector(self.state, self._room(row, 1, unit), mask), product)
            candidate = self.gates.apply(row.direction, 1, arith.addf(self._projected(row, 2, unit, mask), product))
            z = self._vector(self.state, self._room(row, 0, unit), mask)
            h = self._h(row, unit, mask)
            kept = arith.mulf(arith.subf(scalars.constant_like(1, z), z), candidate)
            self.y.store_vector(arith.addf(kept, arith.mulf(z, h)), self._y(row, unit), mask)
