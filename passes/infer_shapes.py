"""graph -> graph: every value gets its type, with symbolic sizes; sizes that a model computes become expressions.

Before:  %s = "onnx.Shape"(%x) : (tensor<?x4x6xf32, ["N", 4, 6]>) -> tensor<*xi64>
         %y = "onnx.Reshape"(%x, %s2) : (…) -> tensor<*xf32>        where %s2 holds N and -1, computed from %s
After:   %y = "onnx.Reshape"(%x, %none) {operand_values = {"1" = ["N", -1]}} : (…) -> tensor<?x24xf32, ["N", 24]>
Keeps:   the computation. Running it again changes nothing.
Adds:    a Reshape in front of an operand whose size only the operator tells (the channels of a convolution's weights);
         kernel.bind_dims after values that sizes depend on and that are known at run time only (see shape_binding.py).
Gone:    operands whose elements only determine the shape; If with a condition that is decided; NonMaxSuppression.

`infer_shapes` leaves a rank that is not known for a later run, after folding; `check_shapes` refuses what is left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlir import ir

from onnxc.dialects import dims
from onnxc.dialects.dims import Expr
from onnxc.dialects.errors import OnnxcError, Refusals
from onnxc.dialects.levels import GRAPH
from onnxc.dialects.onnx import OnnxOp, absent, node_name
from onnxc.dialects.shapes import (
    EVALUATE,
    INFER,
    IllegalShape,
    NeedsValues,
    ShapeContext,
    UnknownOperandRank,
    UnknownRank,
)
from onnxc.dialects.shapes.reals import Number
from onnxc.dialects.types import Tensor, is_tensor
from onnxc.passes import shape_binding, shape_requirements, shape_resolution
from onnxc.passes.contract import Program, transforms
from onnxc.passes.known_elements import MOST, Values, constant_values, is_small
from onnxc.passes.recorded_values import ATTRIBUTE, recorded_values, values_attribute
from onnxc.passes.rewriting import functions, match_signature
from onnxc.passes.shape_branches import visit_if
from onnxc.passes.shape_loops import visit_loop, visit_scan

_SILENT = {"onnx.Constant", "onnx.None", "onnx.Yield", "func.return"}
_REGIONS = {"onnx.If": visit_if, "onnx.Loop": visit_loop, "onnx.Scan": visit_scan}


def _key(op: ir.Operation) -> str:
    """The name under which an operator registers: an onnx op's short one, an internal op's full one."""
    return op.name.removeprefix("onnx.")


@transforms(GRAPH, GRAPH)
def infer_shapes(program: Program) -> None:
    """Infers all types. Refuses, all at once, nodes whose operands' shapes are illegal."""
    inference = Inference(program)
    for function in functions(program.module):
        inference.block(function.regions[0].blocks[0])
        match_signature(function)
    if inference.errors:
        raise Refusals(inference.errors)
    program.warnings += shape_requirements.ruled_out_branches(program.module)


@transforms(GRAPH, GRAPH)
def check_shapes(program: Program) -> None:
    """Refuses, all at once, nodes whose result ranks are not known. Run it after the last `infer_shapes`."""
    if not _has_unranked(program.module):
        return
    inference = Inference(program)
    for function in list(program.module.body.operations):
        inference.block(function.operation.regions[0].blocks[0])
    if inference.errors or inference.unknown:
        raise Refusals(inference.errors + inference.unknown)


def _has_unranked(module: ir.Module) -> bool:
    found = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if any(isinstance(result.type, ir.UnrankedTensorType) for result in op.results):
            found.append(op)
            return ir.WalkResult.INTERRUPT
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return bool(found)


class Inference:
    """One run over a module. `errors` and `unknown` collect illegal nodes and nodes that leave a rank unknown."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.context = program.context
        self.symbols = shape_binding.Symbols(program.module)
        self.requirements = shape_requirements.Requirements()
        self.values: dict[ir.Value, Values] = {}
        self.sizes: set[dims.Dim] = set()  # expressions that are a dim somewhere, and so at least 0
        self.assumed: dict[ir.Value, bool] = {}  # conditions of a branch that is tried
        self.trials = 0
        self.errors: list[OnnxcError] = []
        self.unknown: list[OnnxcError] = []
        self._failed: set[ir.Value] = set()

    def block(self, block: ir.Block) -> None:
        """Visits the operations of a block in order. New ones that a visit inserts are visited by who inserts them."""
        with self.requirements.scope():
            for op in list(block.operations):
                self.visit(op.operation)

    def visit(self, op: ir.Operation) -> None:
        """Gives the results of `op` their types, and their elements where these are few and known."""
        name = op.name
        if name == "kernel.bind_dims":
            names = op.attributes["symbols"]
            self.values[op.operands[0]] = tuple(dims.symbol(ir.StringAttr(entry).value) for entry in names)
        elif name == shape_requirements.NAME:
            self.requirements.visit(op)
        elif name not in _SILENT:
            try:
                self._visit_node(op)
            except UnknownOperandRank:
                self._fail(op, None)
            except UnknownRank as reason:
                self._fail(op, self.unknown, "the rank of its result is not known", str(reason))
            except IllegalShape as reason:
                self._fail(op, self.errors, "its operands' shapes do not fit", reason.why, reason.hint)

    def _visit_node(self, op: ir.Operation) -> None:
        if self._failed and any(operand in self._failed for operand in op.operands):
            self._failed.update(op.results)
            return
        if op.name in _REGIONS:
            _REGIONS[op.name](self, op)
            return
        view = OnnxOp(op)
        if view.name in shape_resolution.REPLACE:
            shape_resolution.REPLACE[view.name](self, view)
            return
        infer = INFER.get(_key(op))
        if infer is None:
            if any(isinstance(result.type, ir.UnrankedTensorType) for result in op.results):
                raise UnknownRank("there is no shape function for this operator")
            return
        context, types = self._infer(view, infer)
        _check_sizes(types)
        self.requirements.write(context.requirements, ir.InsertionPoint(op), op.location)
        self._tell(op, context.told)
        self.set_types(op, types)
        self._record(op, context)
        self._evaluate(context, op)

    def _tell(self, op: ir.Operation, shapes: Mapping[int, Sequence[dims.Dim]]) -> None:
        """Operands get the sizes that `op` requires of them: passes and kernels ask types, not requirements."""
        for index, shape in shapes.items():
            recorded = values_attribute({1: shape}, self.context)
            build = shape_binding.Builder(self, op)
            op.operands[index] = build.op("Reshape", [op.operands[index]], operand_values=recorded)

    def _infer(self, view: OnnxOp, infer) -> tuple[ShapeContext, list[Tensor]]:
        """Runs the shape function; binds values that it needs and that are not known, and runs it again."""
        while True:
            context = self.context_of(view)
            try:
                return context, infer(context)
            except ZeroDivisionError as zero:
                raise IllegalShape("a size or an attribute that must not be 0 is 0") from zero
            except NeedsValues as need:
                shape_resolution.provide(self, view, need)
                view = OnnxOp(view.op)  # operands may have been replaced

    def context_of(self, view: OnnxOp) -> ShapeContext:
        """What a shape function sees of an operation."""
        op, operands = view.op, view.operands
        recorded = recorded_values(op)
        types: list[Tensor | None] = [self.type_of(operand) for operand in operands]
        for index, values in recorded.items():
            types.extend([None] * (index + 1 - len(types)))
            types[index] = Tensor("i64", (len(values),))

        def known(index: int) -> Sequence[Number] | None:
            if index in recorded:
                return recorded[index]
            operand = operands[index]
            return None if operand is None else self.values_of(operand)

        def fresh(key: str) -> Expr:
            return self.symbols.of_result(self, op, key)

        declared = [self.type_of(result) for result in op.results]
        return ShapeContext(_key(op), types, known, view.attr, len(declared), fresh, declared, recorded, self.sizes)

    def type_of(self, value: ir.Value | None) -> Tensor | None:
        """The tensor type of a value, None if it is no tensor."""
        if value is None:
            return None
        type_ = value.type
        return Tensor.of(type_) if is_tensor(type_) else None

    def set_types(self, op: ir.Operation, types: Sequence[Tensor]) -> None:
        """Writes result types; optional results at the end may be missing."""
        for result, tensor in zip(op.results, types, strict=False):
            type_ = tensor.type(self.context)
            if result.type != type_:
                result.set_type(type_)
            if not tensor.is_static and tensor.shape is not None:
                self.sizes.update(tensor.shape)

    def values_of(self, value: ir.Value) -> Values | None:
        """The elements of a small tensor, if known symbolically."""
        known = self.values.get(value)
        if known is None:
            known = constant_values(value)
            if known is not None:
                self.values[value] = known
        return known

    def forget(self, value: ir.Value) -> None:
        """Drops what is known of a value that is about to be erased."""
        self.values.pop(value, None)
        self.assumed.pop(value, None)
        self._failed.discard(value)

    def evaluate(self, op: ir.Operation) -> None:
        """Evaluates `op` once more, after something became known of its operands."""
        self._evaluate(self.context_of(OnnxOp(op)), op)

    def _evaluate(self, context: ShapeContext, op: ir.Operation) -> None:
        evaluate = EVALUATE.get(context.name)
        if evaluate is None or not is_small(self.type_of(op.results[0])):
            return
        for result, values in zip(op.results, evaluate(context) or (), strict=False):
            if values is not None and len(values) <= MOST:
                self.values[result] = tuple(values)

    def _record(self, op: ir.Operation, context: ShapeContext) -> None:
        """Moves elements that the shape function needed from operands to the attribute `operand_values`."""
        if not context.needed:
            return
        entries = values_attribute({**recorded_values(op), **context.needed}, self.context)
        if ATTRIBUTE not in op.attributes or op.attributes[ATTRIBUTE] != entries:
            op.attributes[ATTRIBUTE] = entries
        none = None
        for index in context.needed:
            if index < len(op.operands) and not isinstance(op.operands[index].type, ir.NoneType):
                none = none or absent(op.location, ir.InsertionPoint(op))
                op.operands[index] = none

    def _fail(self, op: ir.Operation, into: list[OnnxcError] | None, *text: str | None) -> None:
        self._failed.update(op.results)
        if into is not None:
            message, why, *hint = text
            types = [str(tensor) for tensor in map(self.type_of, op.operands) if tensor is not None]
            name = op.name.removeprefix("onnx.")
            into.append(
                OnnxcError(
                    message or "", file=self.program.file, node=node_name(op.location), op=name, types=types or None,
                    why=why, hint=hint[0] if hint else None,
                )
            )  # fmt: skip


def _check_sizes(types: Sequence[Tensor]) -> None:
    """Refuses results that cannot be, whatever the shape function made of its operands."""
    for tensor in types:
        negative = [dim for dim in tensor.shape or () if isinstance(dim, int) and dim < 0]
        if negative:
            raise IllegalShape(f"a size of its result is {negative[0]}")
        if tensor.is_absurd:
            raise IllegalShape("its result is too large for any memory")
