"""What the cells of LSTM, GRU and RNN compute in a step: the products of all gates, then the gates and the new state.

Rows (items of the batch) that are computed together share each vector of weights that is loaded. Each row's sums go
over k in order from 0, so that no bit depends on how many rows there are.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, math, vector

from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels import pointers, scalars
from onnxc.passes.kernels.builder import Buffer, KernelBuilder
from onnxc.passes.kernels.gates import Gates

K_BLOCK = 512  # the numeric promise: sums of 512 products, each from 0, added in order


@dataclass
class Row:
    """What a step of one row (a direction of one batch item) works on."""

    direction: im.Index
    batch: im.Index
    step: im.Index  # the time that is computed
    h: ir.Value  # address of the state before it
    active: bool | ir.Value  # whether the row is long enough to have this step


class Cells:
    """The operands of one kernel.recurrent, and what its cell makes of them."""

    def __init__(self, b: KernelBuilder):
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

    def products(
        self, rows: list[Row], block: im.Index, count: int, gates: list[int], sources: list[ir.Value]
    ) -> list[list[list[ir.Value]]]:
        """The states at `sources` times the weights, for `count` blocks: of each row and block a vector per gate."""
        fitting = [n for n in range(1, len(gates) + 1) if self._fits(len(rows), count * n)]
        passes = -(-len(gates) // max(fitting, default=1))
        most = -(-len(gates) // passes)
        parts = [
            self._product(rows[0].direction, block, count, gates[i : i + most], sources)
            for i in range(0, len(gates), most)
        ]
        return [[[v for part in parts for v in part[r][i]] for i in range(count)] for r in range(len(rows))]

    def _fits(self, rows: int, weights: int) -> bool:
        """Whether registers hold all sums, the rows' h or the weights, whatever are fewer, and one of the others."""
        return rows * weights + min(rows, weights) + 1 <= self.b.target.vector_registers

    def _product(
        self, direction: im.Index, block: im.Index, count: int, gates: list[int], sources: list[ir.Value]
    ) -> list[list[list[ir.Value]]]:
        """That of as many gates as have their sums, and a vector of weights each, in registers."""
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
        vectors = iter(total)
        return [[[next(vectors) for _ in gates] for _ in range(count)] for _ in sources]

    def _products_at(self, direction, block, count: int, gates: list[int], sources, k, acc) -> list[ir.Value]:
        """The sums with the products at k. What there are fewer of, rows or vectors of weights, is loaded first and
        stays in registers; the others follow one by one, weights of a single row as operands of the multiply-adds."""
        lanes = scalars.vector_of(self.scalar, self.lanes)
        at = [self.weights.offset([direction, im.add(block, i), k, gate, 0]) for i in range(count) for gate in gates]
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

    def _each(self, rows: list[Row], block: im.Index, products: list) -> Iterator[tuple[Row, im.Index, list[ir.Value]]]:
        """(row, first hidden unit, products of the gates), under the condition that the row is active."""
        for row, found in zip(rows, products, strict=True):
            with self.b.when(row.active):
                for i, vectors in enumerate(found):
                    yield row, im.mul(im.add(block, i), self.lanes), vectors

    def rnn(self, rows: list[Row], block: im.Index, count: int, mask) -> None:
        found = self.products(rows, block, count, [0], [row.h for row in rows])
        for row, unit, (product,) in self._each(rows, block, found):
            pre = arith.addf(self._projected(row, 0, unit, mask), product)
            self.y.store_vector(self.gates.apply(row.direction, 0, pre), self._y(row, unit), mask)

    def lstm(self, rows: list[Row], block: im.Index, count: int, mask) -> None:
        found = self.products(rows, block, count, [0, 1, 2, 3], [row.h for row in rows])
        for row, unit, products in self._each(rows, block, found):
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

    def gru_gates(self, rows: list[Row], block: im.Index, count: int, mask) -> None:
        """z into room 0, and r (linear before reset) or r·h into room 1."""
        linear = self._linear()
        found = self.products(rows, block, count, [0, 1], [row.h for row in rows])
        for row, unit, products in self._each(rows, block, found):
            z, r = [
                self.gates.apply(row.direction, 0, arith.addf(self._projected(row, g, unit, mask), p))
                for g, p in enumerate(products)
            ]
            self.state.store_vector(z, self._room(row, 0, unit), mask)
            h = self._h(row, unit, mask)
            self.state.store_vector(r if linear else arith.mulf(r, h), self._room(row, 1, unit), mask)

    def _linear(self) -> bool:
        return bool(ir.IntegerAttr(self.root.op.attributes["linear_before_reset"]).value)

    def gru_output(self, rows: list[Row], block: im.Index, count: int, mask) -> None:
        linear = self._linear()
        rooms = [pointers.advance(self.pointers[2], self._room(row, 1, 0), self.elem) for row in rows]
        found = self.products(rows, block, count, [2], [row.h for row in rows] if linear else rooms)
        for row, unit, (product,) in self._each(rows, block, found):
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
