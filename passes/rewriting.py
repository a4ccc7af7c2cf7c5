"""This file drives rewrite rules over graph-level IR: rules by op name, applied from a worklist until none matches.

A rule looks at one op and returns the values that replace its results, or None. It creates ops only through the
`Rewriter` it is handed and never erases or moves anything: the driver replaces, erases what died, and visits the
neighbours again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from mlir import ir
from onnx import helper

from onnxc.dialects.dims import Dim
from onnxc.dialects.onnx import OnnxOp, absent, build, is_onnx
from onnxc.dialects.types import Tensor
from onnxc.dialects.weights import build_constant, constant_array, dtype_of
from onnxc.passes.effects import may_erase
from onnxc.passes.recorded_values import ATTRIBUTE, values_attribute

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


def match_results(function: ir.Operation) -> None:
    """Gives the function's type the types of what it returns, which a rewrite may have made more exact."""
    ends = [view.operation for view in function.regions[0].blocks[0].operations]
    type = ir.FunctionType(function.attributes["function_type"].value)
    returned = [value.type for value in ends[-1].operands]
    if returned != list(type.results):
        new = ir.FunctionType.get(type.inputs, returned, function.context)
        function.attributes["function_type"] = ir.TypeAttr.get(new)


class Rewriter:
    """What a rule may ask of the IR around its op, and the only way for it to create ops."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.weights = program.weights
        self._work: dict[int, ir.Operation] = {}
        self._defs: dict[ir.Value, ir.Operation] = {}
        self._at: ir.Operation | None = None

    # -- reading

    def producer(self, value: ir.Value | None, *names: str) -> OnnxOp | None:
        """The onnx op that computes `value`, if it is one of `names` (any, when none are given)."""
        op = None if value is None else self._defs.get(value)
        if op is None or not is_onnx(op):
            return None
        return OnnxOp(op) if not names or op.name[len("onnx.") :] in names else None

    def array(self, value: ir.Value | None, limit: int | None = None) -> np.ndarray | None:
        """The elements of a constant (None: not one, or of more than `limit` elements)."""
        op = None if value is None else self._defs.get(value)
        if op is None or op.name != "onnx.Constant":
            return None
        if limit is not None:
            numel = Tensor.of(value.type).numel
            if not isinstance(numel, int) or numel > limit:
                return None
        return constant_array(op, self.weights)

    def scalar(self, value: ir.Value | None) -> float | int | bool | None:
        """The one element of a constant with exactly one element, as a Python number."""
        array = self.array(value, limit=1)
        return array.reshape(()).item() if array is not None and array.size == 1 else None

    def is_constant(self, value: ir.Value | None) -> bool:
        op = None if value is None else self._defs.get(value)
        return op is not None and op.name == "onnx.Constant"

    def values(self, op: OnnxOp, index: int) -> list[Dim] | None:
        """The elements of the integer operand `index` where inference recorded them or a constant gives them."""
        return op.values(index)

    def single_use(self, value: ir.Value) -> bool:
        return sum(1 for _ in value.uses) == 1

    # -- creating, always just before the op at hand and at its location

    def build(
        self, name: str, operands: Sequence[ir.Value | None], types: Sequence[ir.Type], attrs: Mapping[str, object] = {}
    ) -> ir.Operation:
        assert self._at is not None
        op = build(name, operands, types, dict(attrs), loc=self._at.location, ip=ir.InsertionPoint(self._at))
        self.note(op)
        return op

    def one(
        self, name: str, operands: Sequence[ir.Value | None], type: ir.Type | Tensor, attrs: Mapping[str, object] = {}
    ) -> ir.Value:
        """`build` for an op of one result."""
        return self.build(name, operands, [type.type() if isinstance(type, Tensor) else type], attrs).results[0]

    def constant(self, array: np.ndarray) -> ir.Value:
        assert self._at is not None
        ip = ir.InsertionPoint(self._at)
        value = build_constant(np.asarray(array, order="C"), self.weights, loc=self._at.location, ip=ip)
        self._defs[value] = value.owner
        return value

    def attributes(self, op: OnnxOp) -> dict[str, ir.Attribute]:
        """All attributes of the op, to build another like it."""
        return {name: op.op.attributes[name] for name in op.op.attributes}

    def absent(self) -> ir.Value:
        """A value for an operand that is not there, or whose elements are recorded on the op."""
        value = absent(self._at.location, ir.InsertionPoint(self._at))
        self._defs[value] = value.owner
        return value

    def reshape(self, x: ir.Value, shape: Sequence[Dim]) -> ir.Value:
        """The normal form of every op that only changes the shape: the dims are recorded, and exact (0 means 0)."""
        result = Tensor.of(x.type).of_shape(tuple(shape))
        attrs = {"allowzero": 1, ATTRIBUTE: values_attribute({1: list(shape)}, result.type().context)}
        return self.one("Reshape", [x, self.absent()], result, attrs)

    def transpose(self, x: ir.Value, perm: Sequence[int]) -> ir.Value:
        tensor = Tensor.of(x.type)
        return self.one("Transpose", [x], tensor.of_shape([tensor.dims[p] for p in perm]), {"perm": list(perm)})

    def cast(self, x: ir.Value, elem: str) -> ir.Value:
        to = helper.np_dtype_to_tensor_dtype(dtype_of(elem))
        return self.one("Cast", [x], Tensor.of(x.type).of_elem(elem), {"to": int(to)})

    def expand(self, x: ir.Value, shape: Sequence[Dim]) -> ir.Value:
        result = Tensor.of(x.type).of_shape(tuple(shape))
        return self.one(
            "Expand", [x, self.absent()], result, {ATTRIBUTE: values_attribute({1: list(shape)}, x.context)}
        )

    def slice(self, x: ir.Value, bounds: Mapping[int, tuple[Dim, Dim]]) -> ir.Value:
        """Along each axis given, (start, size); bounds must lie inside the tensor."""
        tensor = Tensor.of(x.type)
        bounds = {axis: b for axis, b in bounds.items() if b != (0, tensor.dims[axis])}
        if not bounds:
            return x
        shape = [bounds[axis][1] if axis in bounds else dim for axis, dim in enumerate(tensor.dims)]
        starts, sizes = [b[0] for b in bounds.values()], [b[1] for b in bounds.values()]
        ends = [start + size for start, size in zip(starts, sizes, strict=True)]
        values = {1: starts, 2: ends, 3: list(bounds), 4: [1] * len(bounds)}
        attrs = {ATTRIBUTE: values_attribute(values, x.context)}
        return self.one("Slice", [x, *[self.absent()] * len(values)], tensor.of_shape(shape), attrs)

    # -- the driver's own

    def note(self, op: ir.Operation) -> None:
        self._work[hash(op)] = op
        for result in op.results:
            self._defs[result] = op

    def _erase(self, op: ir.Operation) -> None:
        """Erases an unused op and, in turn, whatever only it used."""
        pending = [op]
        while pending:
            dead = pending.pop()
            sources = {source for value in dead.operands if (source := self._defs.get(value)) is not None}
            for region in dead.regions:
                for block in region.blocks:
                    for inner in operations(block):
                        self._forget(inner)
            self._forget(dead)
            dead.erase()
            for source in sources:
                if may_erase(source) and not any(True for result in source.results for _ in result.uses):
                    pending.append(source)
                else:  # it may have become single-use
                    self._work.setdefault(hash(source), source)

    def _forget(self, op: ir.Operation) -> None:
        self._work.pop(hash(op), None)
        for result in op.results:
            self._defs.pop(result, None)

    def _replace(self, op: ir.Operation, values: Sequence[ir.Value]) -> None:
        for old, new in zip(op.results, values, strict=True):
            for use in old.uses:
                user = use.owner.operation
                self._work.setdefault(hash(user), user)
            old.replace_all_uses_with(new)
        self._erase(op)

    def run(self, rules: Mapping[str, Sequence[Rule]], order: list[ir.Operation]) -> int:
        """Applies `rules` (by op name without `onnx.`) until none matches; returns how many did."""
        changes = 0
        for op in order:
            self.note(op)
        while self._work:
            op = self._work.pop(next(iter(self._work)))
            if not is_onnx(op) or (applicable := rules.get(op.name[len("onnx.") :])) is None:
                continue
            self._at = op
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
    rewriter = Rewriter(program)
    order = [op for function in functions(program.module) for op in operations(function.regions[0].blocks[0])]
    with program.module.context:
        changes = rewriter.run(rules, order)
    for function in functions(program.module):
        match_results(function)
    return changes
