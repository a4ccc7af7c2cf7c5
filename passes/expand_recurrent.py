"""graph -> graph: LSTM, GRU and RNN become one matmul over all steps and a `kernel.recurrent`.

Before:  %y, %yh, %yc = "onnx.LSTM"(%x, %w, %r, %b, …)        x [seq, batch, in], w [dirs, 4·H, in], r [dirs, 4·H, H]
After:   %p = %x · wᵀ + b                                     : tensor<seq x batch x dirs·4·H>
         %y, %yh, %yc = "kernel.recurrent"(%p, %r', %seq_lens?, %h0?, %c0?, %peepholes?, %rb?)
                        {cell = "LSTM", hidden, directions, block, …}
r' is [dirs, blocks, H·4·block]: for a block of hidden units, term k of all gates stands together, in order of use. GRU,
whose steps have two rounds (kernels/gates.py), has all terms of z and r first, then those of the last gate.
The input's part of every gate is hoisted out of the recurrence, where it is one large matmul.
Results: y [seq, dirs, batch, H], last h [dirs, batch, H], and the cell state (LSTM) or room to work (2·H a row, GRU).
Keeps:   values, types of the results. batch-first layouts (layout = 1) get Transposes.      Leaves: no LSTM, GRU, RNN.
"""

from __future__ import annotations

import numpy as np
from mlir import ir

from onnxc.dialects.dims import Dim
from onnxc.dialects.levels import GRAPH
from onnxc.dialects.onnx import OnnxOp, attribute
from onnxc.dialects.types import Tensor
from onnxc.passes.contract import Program, transforms
from onnxc.passes.graph_builder import GraphBuilder
from onnxc.passes.kernels.gates import COUNT, ROUNDS
from onnxc.passes.rewriting import functions, operations

ACTIVATIONS = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}
DEFAULT_LANES = 8  # of a block of hidden units, where no target is known


@transforms(GRAPH, GRAPH)
def expand_recurrent(program: Program) -> None:
    """See the file's docstring."""
    target = program.options.target
    lanes = target.vector_bits // 32 if target is not None else DEFAULT_LANES
    for function in functions(program.module):
        found = [o for o in operations(function.regions[0].blocks[0]) if o.name.removeprefix("onnx.") in COUNT]
        if not found:
            continue
        g = GraphBuilder(program.weights)
        for op in operations(function.regions[0].blocks[0]):
            g.note(op)
        for op in found:
            _Expansion(g, OnnxOp(op), lanes).run()


class _Expansion:
    """Rewrites one op."""

    def __init__(self, g: GraphBuilder, op: OnnxOp, lanes: int):
        self.g, self.op, self.lanes = g, op, lanes
        self.batch_first = bool(op.attr("layout", 0))
        w = Tensor.of(op.operands[1].type)
        self.elem, self.directions, self.gates = w.elem, w.dims[0], COUNT[op.name]
        self.hidden = Tensor.of(op.operands[2].type).dims[2]
        if not isinstance(self.hidden, int) or not isinstance(self.directions, int):
            raise op.refuse("the hidden size is not known", why="it decides how the weights are laid out")

    def operand(self, i: int) -> ir.Value | None:
        return self.op.operands[i] if i < len(self.op.operands) else None

    def run(self) -> None:
        g, op = self.g, self.op
        g.at(op.op)
        x = g.transpose(op.operands[0], [1, 0, 2]) if self.batch_first else op.operands[0]
        seq, batch, _ = Tensor.of(x.type).dims
        states = [self._state(self.operand(i)) for i in (5, 6)]
        operands = [
            self._projection(x),
            self._recurrence(),
            self.operand(4),
            *states,
            self.operand(7),
            self._gru_bias(),
        ]
        d, h = self.directions, self.hidden
        room = (2, d, batch, h) if op.name == "GRU" else (d, batch, h)
        results = [Tensor(self.elem, (seq, d, batch, h)), Tensor(self.elem, (d, batch, h)), Tensor(self.elem, room)]
        made = ir.Operation.create(
            "kernel.recurrent",
            results=[t.type() for t in results],
            operands=[v or g.absent() for v in operands],
            attributes=self._attributes(),
            loc=op.op.location,
            ip=ir.InsertionPoint(op.op),
        )
        g.note(made)
        y, last, state = made.results
        if self.batch_first:
            y, last, state = (
                g.transpose(y, [2, 0, 1, 3]),
                g.transpose(last, [1, 0, 2]),
                (g.transpose(state, [1, 0, 2]) if op.name == "LSTM" else state),
            )
        for old, new in zip(op.results, (y, last, state), strict=False):
            old.replace_all_uses_with(new)
        op.op.erase()

    def _attributes(self) -> dict[str, ir.Attribute]:
        op, context = self.op, self.op.op.context
        direction = op.attr("direction", "forward")
        names = op.attr("activations", None) or ACTIVATIONS[op.name] * self.directions
        values = {
            "cell": op.name,
            "hidden": self.hidden,
            "directions": self.directions,
            "reverse": int(direction == "reverse"),
            "block": self.lanes,
            "activations": [str(n) for n in names],
            "input_forget": op.attr("input_forget", 0),
            "linear_before_reset": op.attr("linear_before_reset", 0),
            "activation_alpha": [float(a) for a in op.attr("activation_alpha", None) or []],
            "activation_beta": [float(a) for a in op.attr("activation_beta", None) or []],
        }
        kinds = {"activation_alpha": "floats", "activation_beta": "floats", "activations": "strings"}
        found = {k: attribute(v, context, kinds.get(k)) for k, v in values.items()}
        if op.has_attr("clip"):
            found["clip"] = attribute(float(op.attr("clip")), context)
        return found

    def _state(self, v: ir.Value | None) -> ir.Value | None:
        return self.g.transpose(v, [1, 0, 2]) if v is not None and self.batch_first else v

    def _projection(self, x: ir.Value) -> ir.Value:
        """x · wᵀ + (wb + rb) for all steps, as [seq, batch, dirs·gates·H]."""
        g, columns = self.g, self.directions * self.gates * self.hidden
        seq, batch, features = Tensor.of(x.type).dims
        w = g.transpose(g.reshape(self.op.operands[1], [columns, features]), [1, 0])
        rows = g.reshape(x, [seq * batch, features])
        p = g.one("MatMul", [rows, w], Tensor(self.elem, (seq * batch, columns)))
        bias = self._bias()
        if bias is not None:
            p = g.one("Add", [p, bias], Tensor.of(p.type))
        return g.reshape(p, [seq, batch, columns])

    def _halves(self) -> tuple[ir.Value, ir.Value] | None:
        """(wb, rb), each [dirs, gates, H]."""
        b = self.operand(3)
        if b is None:
            return None
        d, n = self.directions, self.gates * self.hidden
        parts = [self.g.slice(b, {1: (start, n)}) for start in (0, n)]
        wb, rb = (self.g.reshape(p, [d, self.gates, self.hidden]) for p in parts)
        return wb, rb

    def _separate(self) -> bool:
        """Whether the recurrent bias of the last gate goes inside the product with r (GRU)."""
        return self.op.name == "GRU" and bool(self.op.attr("linear_before_reset", 0))

    def _bias(self) -> ir.Value | None:
        halves = self._halves()
        if halves is None:
            return None
        wb, rb = halves
        g, shape = self.g, Tensor.of(wb.type)
        if self._separate():
            keep = np.ones((1, self.gates, 1))
            keep[0, -1] = 0
            rb = g.one("Mul", [rb, g.constant_of(keep, self.elem)], shape)
        total = g.one("Add", [wb, rb], shape)
        return g.reshape(total, [self.directions * self.gates * self.hidden])

    def _gru_bias(self) -> ir.Value | None:
        halves = self._halves() if self._separate() else None
        if halves is None:
            return None
        last = self.g.slice(halves[1], {1: (self.gates - 1, 1)})
        return self.g.reshape(last, [self.directions, self.hidden])

    def _recurrence(self) -> ir.Value:
        """r [dirs, gates·H, H] as [dirs, blocks, H·gates·block], padded with zeros to whole blocks."""
        g, d, h, lanes = self.g, self.directions, self.hidden, self.lanes
        blocks = -(-h // lanes)
        r = g.reshape(self.op.operands[2], [d, self.gates, h, h])
        if blocks * lanes != h:
            padded: list[Dim] = [d, self.gates, blocks * lanes - h, h]
            zeros = g.expand(g.constant_of(np.zeros((1, 1, 1, 1)), self.elem), padded)
            r = g.one("Concat", [r, zeros], Tensor(self.elem, (d, self.gates, blocks * lanes, h)), {"axis": 2})
        r, parts, first = g.reshape(r, [d, self.gates, blocks, lanes, h]), [], 0
        for count in ROUNDS[self.op.name]:
            part = g.transpose(g.slice(r, {1: (first, count)}), [0, 2, 4, 1, 3])
            parts.append(g.reshape(part, [d, blocks, h * count * lanes]))
            first += count
        whole = Tensor(self.elem, (d, blocks, h * self.gates * lanes))
        return parts[0] if len(parts) == 1 else g.one("Concat", parts, whole, {"axis": 2})
