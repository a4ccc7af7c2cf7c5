"""graph -> graph: a Scan becomes a Loop that takes a slice of each sequence in every trip.

Before:  %last, %ys = "onnx.Scan"(%start, %xs) ({^bb0(%state, %x): … "onnx.Yield"(%next, %y)}) {num_scan_inputs = 1}
After:   %n = "onnx.Shape"(%xs) {start = 0, end = 1} …
         %last, %ys = "onnx.Loop"(%n, none, %start) ({^bb0(%i, %c, %state): %x = "onnx.Gather"(%xs, %i) {axis = 0}
                      … "onnx.Yield"(%c, %next, %y)})
A sequence that is read backwards is indexed from its end; results that are written backwards are reversed afterwards.
Keeps:   values, locations. Works before shapes are inferred.
Leaves:  no Scan; one that stacks its results along another axis than the first is refused.
"""

from __future__ import annotations

import numpy as np
from mlir import ir

from onnxc.dialects.errors import OnnxcError, Refusals
from onnxc.dialects.levels import GRAPH
from onnxc.dialects.onnx import OnnxOp
from onnxc.dialects.types import Tensor
from onnxc.passes.contract import Program, transforms
from onnxc.passes.graph_builder import GraphBuilder
from onnxc.passes.rewriting import functions, operations


@transforms(GRAPH, GRAPH)
def scan_to_loop(program: Program) -> None:
    """See the file's docstring."""
    refused: list[OnnxcError] = []
    for function in functions(program.module):
        # innermost first: a body is moved whole, with the loops that are in it
        for op in [o for o in operations(function.regions[0].blocks[0]) if o.name == "onnx.Scan"][::-1]:
            scan = OnnxOp(op)
            if any(scan.attr("scan_output_axes", None) or []):
                refused.append(scan.refuse("Scan with scan_output_axes cannot be compiled yet"))
            else:
                _Rewrite(GraphBuilder(program.weights), scan).run()
    if refused:
        raise Refusals(refused)


class _Rewrite:
    """Rewrites one Scan."""

    def __init__(self, g: GraphBuilder, scan: OnnxOp):
        self.g, self.scan = g, scan
        count = scan.attr("num_scan_inputs")
        operands = scan.operands
        self.states, self.sequences = operands[: len(operands) - count], operands[len(operands) - count :]
        self.axes = scan.attr("scan_input_axes", None) or [0] * count
        self.backwards = scan.attr("scan_input_directions", None) or [0] * count
        outputs = len(scan.results) - len(self.states)
        self.reversed = scan.attr("scan_output_directions", None) or [0] * outputs

    def run(self) -> None:
        g, op = self.g, self.scan.op
        g.at(op)
        trips = self._length(self.sequences[0], self.axes[0])
        types = [r.type for r in op.results]
        loop = g.build("Loop", [trips, None, *self.states], types, regions=1)
        self._body(loop, trips)
        for i, (old, new) in enumerate(zip(op.results, loop.results, strict=True)):
            at = i - len(self.states)
            if at >= 0 and self.reversed[at]:
                g.at(op)
                new = self._flipped(new)
            old.replace_all_uses_with(new)
        op.erase()

    def _length(self, sequence: ir.Value, axis: int) -> ir.Value:
        """The size of an axis, as a scalar."""
        shape = self.g.one("Shape", [sequence], Tensor("i64", None))
        index = self.g.constant(np.array(axis))
        return self.g.one("Gather", [shape, index], Tensor("i64", ()), {"axis": 0})

    def _body(self, loop: ir.Operation, trips: ir.Value) -> None:
        g, old = self.g, self.scan.op.regions[0].blocks[0]
        scalar, flag = Tensor("i64", ()).type(), Tensor("i1", ()).type()
        state_types = [a.type for a in old.arguments][: len(self.states)]
        types = [scalar, flag, *state_types]
        block = loop.regions[0].blocks.append(*types, arg_locs=[self.scan.op.location] * len(types))
        for view in list(old.operations):
            view.operation.detach_from_parent()
            block.append(view.operation)
        trip, again, *states = block.arguments
        for old_argument, new in zip(old.arguments, states, strict=False):
            old_argument.replace_all_uses_with(new)
        g.at(block.operations[0].operation)
        for i, argument in enumerate(list(old.arguments)[len(self.states) :]):
            argument.replace_all_uses_with(self._slice(i, trip, trips, argument.type))
        end = block.operations[len(block.operations) - 1].operation
        g.at(end)
        g.build("Yield", [g.one("Identity", [again], Tensor("i1", ())), *end.operands], [])
        end.erase()

    def _slice(self, i: int, trip: ir.Value, trips: ir.Value, type_: ir.Type) -> ir.Value:
        g, scalar = self.g, Tensor("i64", ())
        if self.backwards[i]:
            last = g.one("Sub", [trips, g.constant(np.array(1))], scalar)
            trip = g.one("Sub", [last, trip], scalar)
        return g.one("Gather", [self.sequences[i], trip], type_, {"axis": self.axes[i]})

    def _flipped(self, x: ir.Value) -> ir.Value:
        """`x` backwards along its first axis."""
        bounds = [self.g.constant(np.array([v])) for v in (-1, -(2**62), 0, -1)]
        return self.g.one("Slice", [x, *bounds], x.type)
