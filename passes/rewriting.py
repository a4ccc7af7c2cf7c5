"""This file drives rewrite rules over graph-level IR: rules by op name, applied from a worklist until none matches.

A rule looks at one op and returns the values that replace its results, or None. It creates ops only through the
`Rewriter` it is handed and never erases or moves anything: the driver replaces, erases what died, and visits the
neighbours again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from mlir import ir

from onnxc.dialects.onnx import OnnxOp, is_onnx
from onnxc.dialects.weights import WeightStore
from onnxc.passes.effects import may_erase
from onnxc.passes.graph_builder import GraphBuilder
from onnxc.passes.overrides import keeps_its_own

if TYPE_CHECKING:
    from onnxc.passes.contract import Program

Rule = Callable[[OnnxOp, "Rewriter"], "Sequence[ir.Value] | ir.Value | None"]


def operations(block: ir.Block) -> Iterator[ir.Operation]:
    """Every op under `block` in program order, those of nested regions after the op that holds them."""
    for view in block.operations:
        op = view.operation
        yield op
        for region in op.regions:
            for inner in region.blocks:
                yield from operations(inner)


def functions(module: ir.Module) -> list[ir.Operation]:
    """The functions of the module that have a body."""
    views = [view.operation for view in module.body.operations]
    return [op for op in views if op.name == "func.func" and len(op.regions[0].blocks)]


def main_function(module: ir.Module) -> ir.Operation:
    """The function that is no kernel."""
    return next(op.operation for op in module.body.operations if "kernel.kind" not in op.attributes)


def has_ranks(op: ir.Operation) -> bool:
    """Whether the ranks (and elements) of all tensors of the op are known."""
    return not any(isinstance(value.type, ir.UnrankedTensorType) for value in (*op.operands, *op.results))


def match_signature(function: ir.Operation) -> None:
    """Gives the function's type the types of its arguments and of what it returns, which a pass may have changed."""
    block = function.regions[0].blocks[0]
    returned = block.operations[len(block.operations) - 1].operands
    inputs, results = ([value.type for value in values] for values in (block.arguments, returned))
    type_ = ir.TypeAttr.get(ir.FunctionType.get(inputs, results, function.context))
    if function.attributes["function_type"] != type_:
        function.attributes["function_type"] = type_


def replace_op(
    op: ir.Operation, name: str, operands: Sequence[ir.Value], attributes: Mapping[str, ir.Attribute] | None = None
) -> None:
    """An op `name` of one result takes the place of `op`, of which nobody reads another, at its location."""
    made = ir.Operation.create(
        name,
        results=[op.results[0].type],
        operands=operands,
        attributes=dict(attributes or {}),
        loc=op.location,
        ip=ir.InsertionPoint(op),
    )
    op.results[0].replace_all_uses_with(made.result)
    op.erase()


def retyped(op: ir.Operation, operands: Sequence[ir.Value], types: Sequence[ir.Type]) -> ir.Operation:
    """The same operation before `op`, on other operands and with other result types."""
    attributes, ip = dict(op.attributes.items()), ir.InsertionPoint(op)
    return ir.Operation.create(op.name, results=types, operands=operands, attributes=attributes, loc=op.location, ip=ip)


def move_into(holder: ir.Operation, ops: Sequence[ir.Operation], outside: Sequence[ir.Value]) -> None:
    """Moves ops into the empty region of `holder`, whose results replace those of the last one, which it yields.

    `outside`: what the block's arguments stand for. What else is not made by `ops` is copied with the op that makes it.
    """
    block = holder.regions[0].blocks.append(*[v.type for v in outside], arg_locs=[holder.location] * len(outside))
    mapping = dict(zip(outside, block.arguments, strict=True))
    with ir.InsertionPoint(block):
        for op in ops:
            _copy(op, mapping)
        ir.Operation.create("kernel.yield", operands=[mapping[r] for r in ops[-1].results])
    for old, new in zip(ops[-1].results, holder.results, strict=True):
        old.replace_all_uses_with(new)
    for op in reversed(ops):
        op.erase()


def _copy(op: ir.Operation, mapping: dict[ir.Value, ir.Value]) -> None:
    """`op` on the mapped operands; what is not mapped yet is copied before it."""
    for operand in op.operands:
        if operand not in mapping:
            mapping[operand] = operand.owner.clone().results[0]
    copy = ir.Operation.create(
        op.name,
        results=[r.type for r in op.results],
        operands=[mapping[v] for v in op.operands],
        attributes=dict(op.attributes.items()),
        loc=op.location,
    )
    mapping.update(zip(op.results, copy.results, strict=True))


class Rewriter(GraphBuilder):
    """What a rule may ask of the IR around its op, and its way to create ops: just before the op, at its location."""

    def __init__(self, weights: WeightStore, keeps_its_own: Callable[[str], bool] = lambda node: False) -> None:
        super().__init__(weights)
        self.keeps_its_own = keeps_its_own  # node → whether it asks to be computed as it stands (overrides.py)
        # By first result: an operation's own hash changes with its operands and attributes.
        self._work: dict[ir.Value, ir.Operation] = {}

    def note(self, op: ir.Operation) -> None:
        super().note(op)
        if len(op.results):
            self._work[op.results[0]] = op

    def _erase(self, op: ir.Operation) -> None:
        """Erases an unused op and, in turn, whatever only it used."""
        pending = [op]
        while pending:
            dead = pending.pop()
            sources = {op.results[0]: op for value in dead.operands if (op := self._defs.get(value)) is not None}
            for region in dead.regions:
                for block in region.blocks:
                    for inner in operations(block):
                        self._forget(inner)
            self._forget(dead)
            dead.erase()
            for first, source in sources.items():
                if may_erase(source) and not any(True for result in source.results for _ in result.uses):
                    pending.append(source)
                else:  # it may have become single-use
                    self._work.setdefault(first, source)

    def _forget(self, op: ir.Operation) -> None:
        for result in op.results:
            self._work.pop(result, None)
            self._defs.pop(result, None)

    def _replace(self, op: ir.Operation, values: Sequence[ir.Value]) -> None:
        for old, new in zip(op.results, values, strict=True):
            for use in old.uses:
                user = use.owner.operation
                if len(user.results):
                    self._work.setdefault(user.results[0], user)
            old.replace_all_uses_with(new)
        self._erase(op)

    def run(self, rules: Mapping[str, Sequence[Rule]], order: list[ir.Operation]) -> int:
        """Applies `rules`, by short op name, to ops of known ranks until none matches; returns how many did."""
        changes = 0
        for op in order:
            self.note(op)
        while self._work:
            op = self._work.pop(next(iter(self._work)))
            if not is_onnx(op) or (applicable := rules.get(op.name[len("onnx.") :])) is None or not has_ranks(op):
                continue
            self.at(op)
            view = OnnxOp(op)
            for rule in applicable:
                values = rule(view, self)
                if values is not None:
                    self._replace(op, [values] if isinstance(values, ir.Value) else values)
                    changes += 1
                    break
        return changes


def rewrite(program: Program, rules: Mapping[str, Sequence[Rule]]) -> int:
    """Applies `rules` to every function of the program; returns the number of rewrites."""
    rewriter = Rewriter(program.weights, functools.partial(keeps_its_own, program))
    order = [op for function in functions(program.module) for op in operations(function.regions[0].blocks[0])]
    with program.module.context:
        changes = rewriter.run(rules, order)
    for function in functions(program.module):
        match_signature(function)
    return changes
