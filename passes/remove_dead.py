"""graph -> graph: ops that nothing needs are gone.

Before:  %0 = "onnx.Relu"(%x)      %1 = "onnx.Exp"(%x)      return %0
After:   %0 = "onnx.Relu"(%x)      return %0
Keeps:   order, types, locations, random draws that are used; a `kernel.bind_dims` (and an If, Loop or Scan)
         for as long as a live op mentions a symbol that it binds.
Leaves:  no op without a live use, in regions either; no unused result of a live op is removed.
"""

from __future__ import annotations

from collections.abc import Iterable

from mlir import ir

from onnxc.dialects import dims
from onnxc.dialects.levels import GRAPH
from onnxc.dialects.types import Tensor, is_tensor
from onnxc.passes.contract import Program, transforms
from onnxc.passes.recorded_values import recorded_values
from onnxc.passes.rewriting import functions, operations

TERMINATORS = ("func.return", "onnx.Yield", "kernel.yield")


@transforms(GRAPH, GRAPH)
def remove_dead(program: Program) -> None:
    for function in functions(program.module):
        _sweep(function, _Marker(function).live)


def _sweep(function: ir.Operation, live: set[int]) -> None:
    # Users before producers: reverse program order, and a dead op's region goes with it.
    for op in reversed(list(operations(function.regions[0].blocks[0]))):
        if hash(op) not in live:
            op.erase()


class _Marker:
    """The live ops of a function: what its terminator needs, and what binds the symbols those mention."""

    def __init__(self, function: ir.Operation) -> None:
        self.live: set[int] = set()
        self._defs: dict[ir.Value, ir.Operation] = {}
        self._parents: dict[int, ir.Operation] = {}
        self._terminators: dict[int, list[ir.Operation]] = {}
        self._binders: dict[str, ir.Operation] = {}
        self._symbols: dict[ir.Type, frozenset[str]] = {}
        self._needed: set[str] = set()
        self._pending: list[ir.Operation] = []
        entry = function.regions[0].blocks[0]
        bound = {name for argument in entry.arguments for name in self._type_symbols(argument.type)}
        self._scan(entry, None, bound)
        while self._pending:
            self._visit(self._pending.pop())

    def _scan(self, block: ir.Block, parent: ir.Operation | None, bound: set[str]) -> None:
        """Notes who defines and binds what; terminators of the function itself are the roots."""
        for view in block.operations:
            op = view.operation
            for result in op.results:
                self._defs[result] = op
            if parent is not None:
                self._parents[hash(op)] = parent
            if op.name in TERMINATORS:
                if parent is None:
                    self._mark(op)
                else:
                    self._terminators.setdefault(hash(parent), []).append(op)
            if op.name == "kernel.bind_dims":
                for attribute in op.attributes["symbols"]:
                    self._bind(attribute.value, op, bound)
            for region in op.regions:
                for inner in region.blocks:
                    for argument in inner.arguments:
                        for name in self._type_symbols(argument.type):
                            self._bind(name, op, bound)
                    self._scan(inner, op, bound)
            if len(op.regions):
                for result in op.results:
                    for name in self._type_symbols(result.type):
                        self._bind(name, op, bound)

    def _bind(self, name: str, op: ir.Operation, bound: set[str]) -> None:
        if name not in bound:
            bound.add(name)
            self._binders[name] = op

    def _mark(self, op: ir.Operation) -> None:
        if hash(op) not in self.live:
            self.live.add(hash(op))
            self._pending.append(op)

    def _visit(self, op: ir.Operation) -> None:
        for terminator in self._terminators.get(hash(op), ()):
            self._mark(terminator)
        parent = self._parents.get(hash(op))
        if parent is not None:
            self._mark(parent)
        for value in op.operands:
            source = self._defs.get(value)
            if source is not None:
                self._mark(source)
        for result in op.results:
            self._need(self._type_symbols(result.type))
        for values in recorded_values(op).values():
            self._need(name for dim in values for name in dims.symbols(dim))

    def _need(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self._needed:
                self._needed.add(name)
                if name in self._binders:
                    self._mark(self._binders[name])

    def _type_symbols(self, type: ir.Type) -> frozenset[str]:
        found = self._symbols.get(type)
        if found is None:
            shape = Tensor.of(type).shape or () if is_tensor(type) else ()
            found = self._symbols[type] = frozenset(name for dim in shape for name in dims.symbols(dim))
        return found
