"""This file makes sizes that are known at run time only available to shape inference.

A value whose elements determine a shape is bound: kernel.bind_dims gives its elements names, right behind the value's
definition. `s0`, `s1` … may be negative; `u0`, `u1` … are sizes. Counts of data-dependent operators are computed by
inserted onnx operators. What has to be normalised first: shape_resolution.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from mlir import ir

from onnxc.dialects import dims
from onnxc.dialects.dims import Dim, Expr
from onnxc.dialects.onnx import OnnxOp, build
from onnxc.dialects.shapes import UnknownOperandRank, UnknownRank
from onnxc.dialects.shapes.requirements import Requirement
from onnxc.dialects.types import Tensor
from onnxc.dialects.weights import build_constant

if TYPE_CHECKING:
    from onnxc.passes.infer_shapes import Inference

_INTEGERS = ("i64", "i32", "i16", "i8", "ui8", "ui16", "ui32", "ui64")
I64, F32 = 7, 1  # TensorProto.DataType

#: Operators through which a value is looked at rather than bound whole, so that elements that are known stay known.
_TRANSPARENT = {
    "Concat", "Unsqueeze", "Squeeze", "Reshape", "Identity", "Cast", "Add", "Sub", "Mul",
    "Min", "Max", "Neg", "Gather", "Slice",
}  # fmt: skip


#: The attribute of a node that says which symbols its results' unknown sizes have: key -> symbol.
RESULT_DIMS = "onnx.result_dims"

_LARGE = 2**40  # stands for any size when asking what an expression is for all large sizes
_MOST = 16  # elements of an operand looked through; a shape has fewer


class Symbols:
    """Fresh symbols of a module; the next number is looked for once, when the first is asked for."""

    def __init__(self, module: ir.Module) -> None:
        self._module = module
        self._next: int | None = None

    def new(self, prefix: str) -> str:
        """A name that no symbol of the module has."""
        if self._next is None:
            used = [int(n) for n in re.findall(r"\b[su](\d+)\b", " ".join(_spelt_symbols(self._module)))]
            self._next = max(used, default=-1) + 1
        self._next += 1
        return f"{prefix}{self._next - 1}"

    def of_result(self, inference: Inference, op: ir.Operation, key: str) -> Expr:
        """The size called `key` that `op` binds: the same in each run (attribute `onnx.result_dims`)."""
        known = dict(_entries(op, RESULT_DIMS))
        if key not in known:
            known[key] = self.new("u")
            count = COUNT.get(op.name.removeprefix("onnx."))
            if count is not None:
                bind(inference, count(Builder(inference, op), OnnxOp(op)), [known[key]])
            attributes = {name: ir.StringAttr.get(symbol, op.context) for name, symbol in sorted(known.items())}
            op.attributes[RESULT_DIMS] = ir.DictAttr.get(attributes, context=op.context)
        return dims.symbol(known[key])


def _entries(op: ir.Operation, attribute: str) -> list[tuple[str, str]]:
    if attribute not in op.attributes:
        return []
    return [(entry.name, ir.StringAttr(entry.attr).value) for entry in ir.DictAttr(op.attributes[attribute])]


def bound_symbols(op: ir.Operation, prefix: str = "") -> list[str]:
    """The symbols that `op` itself binds; those whose key starts with `prefix`."""
    if op.name == "kernel.bind_dims":
        return [ir.StringAttr(entry).value for entry in op.attributes["symbols"]]
    return [symbol for key, symbol in _entries(op, RESULT_DIMS) if key.startswith(prefix)]


def _spelt_symbols(module: ir.Module) -> list[str]:
    """Every symbol that is bound somewhere, and the types of the model's inputs."""
    found: list[str] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        found.extend(bound_symbols(op))
        if op.name == "func.func":
            found.extend(str(argument.type) for argument in op.regions[0].blocks[0].arguments)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def demand(inference: Inference, value: ir.Value, prefix: str, user: ir.Operation | None = None) -> None:
    """Makes the elements of `value` known: through the operators that arrange them, else by binding them."""
    if inference.values_of(value) is not None:
        return
    tensor = inference.type_of(value)
    count = _assumed_count(inference, value, tensor)
    owner = value.owner
    if not isinstance(owner, ir.Block) and owner.name.removeprefix("onnx.") in _TRANSPARENT:
        operands = [operand for operand in OnnxOp(owner).operands if operand is not None]
        if all(_is_short(inference.type_of(operand)) for operand in operands):
            for operand in operands:
                demand(inference, operand, "s")
            inference.evaluate(owner.operation)
            if inference.values_of(value) is not None:
                return
    if tensor.elem not in _INTEGERS:
        if user is None:
            raise UnknownRank("a shape operand holds no integers")
        value = _cast(inference, user, value)
    names = [inference.symbols.new(prefix) for _ in range(count)]
    bound = bind(inference, value, names)
    inference.values[value] = tuple(map(dims.symbol, names))
    if prefix == "u":
        require_sizes(inference, names, bound, user or bound)


def require_sizes(inference: Inference, names: Sequence[str], bound: ir.Operation, user: ir.Operation) -> None:
    """None of the symbols that `bound` binds may be negative; `user` is the node to be named."""
    sizes = [Requirement("size", dims.symbol(name), 0, "a size that is computed") for name in names]
    inference.requirements.write(sizes, ir.InsertionPoint.after(bound), user.location)


def _assumed_count(inference: Inference, value: ir.Value, tensor: Tensor | None) -> int:
    """How many elements a shape operand has: where that depends on sizes, as many as for all large sizes, required."""
    count = None if tensor is None else element_count(tensor)
    if tensor is None or count is None:
        raise UnknownOperandRank("the rank of a shape operand is not known")
    if isinstance(count, int):
        return count
    large = dims.evaluate(count, {name: _LARGE + 7 * i for i, name in enumerate(sorted(dims.symbols(count)))})
    if not 0 < large <= _MOST:
        raise UnknownRank("the number of elements of a shape operand is known at run time only")
    requirement = Requirement("==", count, large, "the number of elements of a shape operand")
    owner = value.owner
    at = ir.InsertionPoint.at_block_begin(owner) if isinstance(owner, ir.Block) else ir.InsertionPoint.after(owner)
    location = ir.Location.unknown(inference.context) if isinstance(owner, ir.Block) else owner.location
    inference.requirements.write([requirement], at, location)
    return large


def _cast(inference: Inference, user: ir.Operation, value: ir.Value) -> ir.Value:
    """Replaces the operand `value` of `user` by its integers."""
    whole = Builder(inference, user).op("Cast", [value], to=I64)
    for index, operand in enumerate(user.operands):
        if operand == value:
            user.operands[index] = whole
    return whole


def _is_short(tensor: Tensor | None) -> bool:
    count = None if tensor is None else element_count(tensor)
    return tensor is not None and tensor.elem in _INTEGERS and isinstance(count, int) and count <= _MOST


def element_count(tensor: Tensor) -> Dim | None:
    return None if tensor.shape is None else tensor.numel


def bind(inference: Inference, value: ir.Value, names: Sequence[str]) -> ir.Operation:
    """Inserts kernel.bind_dims right behind the definition of `value`."""
    owner = value.owner
    if isinstance(owner, ir.Block):
        point, location = ir.InsertionPoint.at_block_begin(owner), ir.Location.unknown(inference.context)
    else:
        point, location = ir.InsertionPoint.after(owner), owner.location
    symbols = ir.ArrayAttr.get([ir.StringAttr.get(name, inference.context) for name in names], inference.context)
    return ir.Operation.create(
        "kernel.bind_dims", operands=[value], attributes={"symbols": symbols}, loc=location, ip=point
    )


class Builder:
    """Inserts onnx operators before `op`, each inferred at once."""

    def __init__(self, inference: Inference, op: ir.Operation) -> None:
        self.inference = inference
        self.at = ir.InsertionPoint(op)
        self.location = op.location

    def op(self, name: str, operands: Sequence[ir.Value | None], **attributes: object) -> ir.Value:
        unknown = Tensor("f32", None).type(self.inference.context)
        made = build(name, operands, [unknown], attributes, loc=self.location, ip=self.at)
        self.inference.visit(made)
        return made.results[0]

    def constant(self, values: object, dtype: type = np.int64) -> ir.Value:
        weights = self.inference.program.weights
        return build_constant(np.array(values, dtype), weights, loc=self.location, ip=self.at)


def _count_non_zero(b: Builder, view: OnnxOp) -> ir.Value:
    type_ = Tensor("i64", (1,)).type(b.inference.context)
    x = view.op.operands[0]
    made = ir.Operation.create("kernel.nonzero_count", results=[type_], operands=[x], loc=b.location, ip=b.at)
    return made.results[0]


def _count_kept(b: Builder, view: OnnxOp) -> ir.Value:
    """How many elements of Compress's condition are true."""
    return b.op("ReduceSum", [b.op("Cast", [view.op.operands[1]], to=I64)], keepdims=1)


def _count_range(b: Builder, view: OnnxOp) -> ir.Value:
    """max(0, ceil((limit - start) / delta))."""
    start, limit, delta = view.op.operands
    steps = b.op("Ceil", [b.op("Div", [b.op("Sub", [limit, start]), delta])])
    return b.op("Max", [b.op("Cast", [steps], to=I64), b.constant(0)])


COUNT: dict[str, Callable[[Builder, OnnxOp], ir.Value]] = {
    "NonZero": _count_non_zero,
    "Compress": _count_kept,
    "Range": _count_range,
}
