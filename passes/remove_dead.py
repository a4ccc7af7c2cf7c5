"""graph -> graph: ops that nothing needs are gone.

Before:  %0 = "onnx.Relu"(%x)      %1 = "onnx.Exp"(%x)      return %0
After:   %0 = "onnx.Relu"(%x)      return %0
Keeps:   order, types, locations, random draws that are used; a `kernel.bind_dims` (and an If, Loop or Scan)
         for as long as a live op mentions a symbol that it binds; a `kernel.require` of such symbols, and one that
         rules a branch out.
Leaves:  no op without a live use, in regions either; no unused result of a live op is removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from mlir import ir

from onnxc.dialects import dims
from onnxc.dialects.levels import GRAPH
from onnxc.dialects.types import Tensor, attribute_dims, is_tensor
from onnxc.passes.contract import Program, transforms
from onnxc.passes.recorded_values import recorded_values
from onnxc.passes.rewriting import functions

TERMINATORS = ("func.return", "onnx.Yield", "kernel.yield")
BIND = "kernel.bind_dims"
REQUIRE = "kernel.require"


@transforms(GRAPH, GRAPH)
def remove_dead(program: Program) -> None:
    for function in functions(program.module):
        entry = function.regions[0].blocks[0]
        _sweep(entry, _Marker(entry))


def _sweep(block: ir.Block, marker: _Marker) -> None:
    """Users go before producers: in reverse order, and a dead op takes its regions along."""
    for view in reversed(list(block.operations)):
        op = view.operation
        if not marker.is_live(op):
            op.erase()
            continue
        for region in op.regions:
            for inner in region.blocks:
                _sweep(inner, marker)


def _rules_branch_out(op: ir.Operation) -> bool:
    return op.name == REQUIRE and ir.StringAttr(op.attributes["kind"]).value == "branch"


def _required_symbols(op: ir.Operation) -> list[str]:
    return [name for dim in attribute_dims(op.attributes["dims"]) for name in dims.symbols(dim)]


class _Marker:
    """The live ops of a function: what its terminator needs, and what binds the symbols those mention."""

    def __init__(self, entry: ir.Block) -> None:
        self._live: set[ir.Value] = set()  # first results: an op's own hash changes when its operands do
        self._defs: dict[ir.Value, ir.Operation] = {}
        self._parents: dict[ir.Value, ir.Operation] = {}
        self._terminators: dict[ir.Value, list[ir.Operation]] = {}
        self._binders: dict[str, ir.Operation] = {}
        self._symbols: dict[ir.Type, frozenset[str]] = {}
        self._needed: set[str] = set()
        self._pending: list[ir.Operation] = []
        self._scan(entry, None, set(self._symbols_of(entry.arguments)))
        while self._pending:
            self._visit(self._pending.pop())

    def is_live(self, op: ir.Operation) -> bool:
        if op.name == BIND:
            return any(symbol.value in self._needed for symbol in op.attributes["symbols"])
        if _rules_branch_out(op):
            return True
        if op.name == REQUIRE:  # nothing is computed only to be checked
            names = _required_symbols(op)
            return all(name in self._needed or name not in self._binders for name in names)
        return op.name in TERMINATORS or op.results[0] in self._live

    def _scan(self, block: ir.Block, parent: ir.Operation | None, bound: set[str]) -> None:
        """Notes who defines and binds what; what ends the function or must hold in it are the roots."""
        for view in block.operations:
            op = view.operation
            for result in op.results:
                self._defs[result] = op
                if parent is not None:
                    self._parents[result] = parent
            if op.name in TERMINATORS or _rules_branch_out(op):
                if parent is None:
                    self._pending.append(op)
                else:
                    self._terminators.setdefault(parent.results[0], []).append(op)
            elif op.name == BIND:
                self._bind((symbol.value for symbol in op.attributes["symbols"]), op, bound)
            for region in op.regions:
                for inner in region.blocks:
                    self._bind(self._symbols_of(inner.arguments), op, bound)
                    self._scan(inner, op, bound)
            if len(op.regions):
                self._bind(self._symbols_of(op.results), op, bound)

    def _bind(self, names: Iterable[str], op: ir.Operation, bound: set[str]) -> None:
        for name in names:
            if name not in bound:
                bound.add(name)
                self._binders[name] = op

    def _mark(self, op: ir.Operation) -> None:
        if op.name == BIND:
            self._pending.append(op)
        elif op.results[0] not in self._live:
            self._live.add(op.results[0])
            self._pending.append(op)

    def _visit(self, op: ir.Operation) -> None:
        if len(op.results):
            self._pending += self._terminators.get(op.results[0], ())
            parent = self._parents.get(op.results[0])
            if parent is not None:
                self._mark(parent)
        for value in op.operands:
            source = self._defs.get(value)
            if source is not None:
                self._mark(source)
        if op.name == REQUIRE:
            self._need(_required_symbols(op))
        self._need(self._symbols_of(op.results))
        for values in recorded_values(op).values():
            self._need(name for dim in values for name in dims.symbols(dim))

    def _need(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self._needed:
                self._needed.add(name)
                if name in self._binders:
                    self._mark(self._binders[name])

    def _symbols_of(self, values: Iterable[ir.Value]) -> Iterator[str]:
        """The symbols in the types of `values`."""
        for value in values:
            found = self._symbols.get(value.type)
            if found is None:
                shape = Tensor.of(value.type).shape or () if is_tensor(value.type) else ()
                found = self._symbols[value.type] = frozenset(name for dim in shape for name in dims.symbols(dim))
            yield from found
