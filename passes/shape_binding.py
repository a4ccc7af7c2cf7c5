"""This file makes sizes that are known at run time only available to shape inference.

A value whose elements determine a shape is bound: kernel.bind_dims gives its elements names, right behind the value's
definition. `s0`, `s1` … may be negative; `u0`, `u1` … are sizes. Operands that have to be normalised first (a shape
with 0 and -1, scales) are computed by inserted onnx operators; counts of data-dependent operators likewise.
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
from onnxc.dialects.shapes import IllegalShape, NeedsValues, UnknownOperandRank, UnknownRank, reals
from onnxc.dialects.shapes.pooling import nms_bound
from onnxc.dialects.shapes.reals import Number, Real
from onnxc.dialects.shapes.requirements import Requirement
from onnxc.dialects.shapes.resize import SCALES, SIZES
from onnxc.dialects.types import Tensor, dims_attribute
from onnxc.dialects.weights import build_constant

if TYPE_CHECKING:
    from onnxc.passes.infer_shapes import Inference

_INTEGERS = ("i64", "i32", "i16", "i8", "ui8", "ui16", "ui32", "ui64")
_I64, _F32 = 7, 1  # TensorProto.DataType

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
                bind(inference, count(_Builder(inference, op), OnnxOp(op)), [known[key]])
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


def provide(inference: Inference, view: OnnxOp, need: NeedsValues) -> None:
    """Makes the elements of operand `need.index` known, by rewriting the operand or by binding it."""
    resolve = RESOLVE.get((view.name, need.index))
    if resolve is not None and (need.sizes or view.name == "Resize"):
        resolve(inference, view)
        return
    operand = view.operands[need.index]
    if operand is None:
        raise UnknownRank(f"operand {need.index} is missing")
    demand(inference, operand, "u" if need.sizes else "s", view.op)


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
        _require_sizes(inference, names, bound, user or bound)


def _require_sizes(inference: Inference, names: Sequence[str], bound: ir.Operation, user: ir.Operation) -> None:
    """None of the symbols that `bound` binds may be negative; `user` is the node to be named."""
    sizes = [Requirement("size", dims.symbol(name), 0, "a size that is computed") for name in names]
    inference.requirements.write(sizes, ir.InsertionPoint.after(bound), user.location)


def _assumed_count(inference: Inference, value: ir.Value, tensor: Tensor | None) -> int:
    """How many elements a shape operand has: where that depends on sizes, as many as for all large sizes, required."""
    count = None if tensor is None else _count(tensor)
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
    whole = _Builder(inference, user).op("Cast", [value], to=_I64)
    for index, operand in enumerate(user.operands):
        if operand == value:
            user.operands[index] = whole
    return whole


def _is_short(tensor: Tensor | None) -> bool:
    count = None if tensor is None else _count(tensor)
    return tensor is not None and tensor.elem in _INTEGERS and isinstance(count, int) and count <= _MOST


def _count(tensor: Tensor) -> Dim | None:
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


class _Builder:
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


def _resolve_reshape(inference: Inference, view: OnnxOp) -> None:
    """The shape operand, with 0 and -1 replaced by sizes; entries that are numbers stay what they are."""
    x, entries = view.operands[0], view.operands[1]
    if x is None or entries is None:
        raise UnknownRank("its shape is missing")
    demand(inference, entries, "s")
    known = inference.values_of(entries) or ()
    b = _Builder(inference, view.op)
    sizes = entries
    if not view.attr("allowzero", 0):
        sizes = b.op("Where", [b.op("Equal", [sizes, b.constant(0)]), _shape_of(b, x, len(known)), sizes])
    others = b.op("Max", [b.op("Abs", [b.op("ReduceProd", [sizes], keepdims=0)]), b.constant(1)])
    rest = b.op("Div", [b.op("Size", [x]), others])
    sizes = b.op("Where", [b.op("Less", [sizes, b.constant(0)]), rest, sizes])
    names = [inference.symbols.new("u") for _ in known]
    bind(inference, sizes, names)  # none is negative: -1 is replaced, and what else is negative counts as -1
    inference.values[sizes] = tuple(
        entry if isinstance(entry, int) else dims.symbol(name) for entry, name in zip(known, names, strict=True)
    )
    view.op.operands[1] = sizes


def _shape_of(b: _Builder, x: ir.Value, count: int) -> ir.Value:
    """The first `count` sizes of `x`, filled up with 1."""
    rank = len(ir.ShapedType(x.type).shape)
    shape = b.op("Shape", [x], start=0, end=min(count, rank))
    return b.op("Concat", [shape, b.constant([1] * (count - rank))], axis=0) if count > rank else shape


def _resolve_resize(inference: Inference, view: OnnxOp) -> None:
    """Adds the sizes, floor(size * scale) in f32, as operand 3; where a scale is known to be exact, symbolically."""
    x, scales = view.operands[0], view.operands[SCALES]
    tensor, given = inference.type_of(x), inference.type_of(scales)
    if x is None or scales is None or tensor is None or given is None or not isinstance(given.dims[0], int):
        raise UnknownRank("its scales are missing, or their number is known at run time only")
    axes = view.attr("axes", None) or range(len(tensor.dims))
    axes = [axis % len(tensor.dims) for axis in axes]
    b = _Builder(inference, view.op)
    whole = b.op("Cast", [b.op("Gather", [b.op("Shape", [x]), b.constant(axes)])], to=_F32)
    scaled = b.op("Mul", [whole, scales])
    if view.attr("coordinate_transformation_mode", "") == "tf_crop_and_resize" and view.operands[1] is not None:
        count = given.dims[0]
        start, end = (
            b.op("Slice", [view.operands[1], b.constant([at]), b.constant([at + count])]) for at in (0, count)
        )
        scaled = b.op("Mul", [scaled, b.op("Sub", [end, start])])
        exact: list[Number | None] = [None] * count
    else:
        exact = _partial(inference, scales)
    sizes = b.op("Cast", [b.op("Floor", [scaled])], to=_I64)
    names = [inference.symbols.new("u") for _ in axes]
    _require_sizes(inference, names, bind(inference, sizes, names), view.op)
    results: list[Dim] = []
    for axis, scale, name in zip(axes, exact, names, strict=True):
        size = None if scale is None else reals.floor(reals.multiply(tensor.dims[axis], scale))
        results.append(dims.symbol(name) if size is None else size)
    _record_sizes(view.op, SIZES, results)


def _partial(inference: Inference, value: ir.Value) -> list[Number | None]:
    """The elements of a vector as far as they are known, looking through Concat."""
    known = inference.values_of(value)
    if known is not None:
        return list(known)
    owner = value.owner
    if not isinstance(owner, ir.Block) and owner.name == "onnx.Concat":
        return [element for part in owner.operands for element in _partial(inference, part)]
    tensor = inference.type_of(value)
    count = None if tensor is None else _count(tensor)
    if not isinstance(count, int):
        raise UnknownRank("the number of its scales is known at run time only")
    return [None] * count


def _record_sizes(op: ir.Operation, index: int, sizes: Sequence[Dim]) -> None:
    """Records the elements of an operand that the node does not have (see `operand_values` in infer_shapes.py)."""
    entries = {}
    if "operand_values" in op.attributes:
        entries = {entry.name: entry.attr for entry in ir.DictAttr(op.attributes["operand_values"])}
    entries[str(index)] = dims_attribute(list(sizes), op.context)
    op.attributes["operand_values"] = ir.DictAttr.get(entries, context=op.context)


def _count_non_zero(b: _Builder, view: OnnxOp) -> ir.Value:
    type_ = Tensor("i64", (1,)).type(b.inference.context)
    x = view.op.operands[0]
    made = ir.Operation.create("kernel.nonzero_count", results=[type_], operands=[x], loc=b.location, ip=b.at)
    return made.results[0]


def _count_kept(b: _Builder, view: OnnxOp) -> ir.Value:
    """How many elements of Compress's condition are true."""
    return b.op("ReduceSum", [b.op("Cast", [view.op.operands[1]], to=_I64)], keepdims=1)


def _count_range(b: _Builder, view: OnnxOp) -> ir.Value:
    """max(0, ceil((limit - start) / delta))."""
    start, limit, delta = view.op.operands
    steps = b.op("Ceil", [b.op("Div", [b.op("Sub", [limit, start]), delta])])
    return b.op("Max", [b.op("Cast", [steps], to=_I64), b.constant(0)])


COUNT: dict[str, Callable[[_Builder, OnnxOp], ir.Value]] = {
    "NonZero": _count_non_zero,
    "Compress": _count_kept,
    "Range": _count_range,
}


def _replace_nms(inference: Inference, view: OnnxOp) -> None:
    """kernel.nms writes into as many rows as there can be, and counts them; a Slice cuts the rest off.

    Its third and fourth results are room to work: a position for each box, and six numbers, in whole vectors of 16."""
    op, operands = view.op, list(view.op.operands)
    boxes, scores = inference.type_of(operands[0]), inference.type_of(operands[1])
    if boxes is None or scores is None or boxes.rank != 3 or scores.rank != 3:
        raise IllegalShape("boxes and scores must have rank 3")
    limit = inference.values_of(operands[2]) if len(operands) > 2 else (0,)
    most = limit[0] if limit and not isinstance(limit[0], Real) else None
    rows, count = Tensor("i64", (nms_bound(boxes.dims, scores.dims, most), 3)), Tensor("i64", (1,))
    places = (scores.dims[2] + 15) // 16 * 16
    room = Tensor("i64", (places,)), Tensor(scores.elem, (6, places))
    made = ir.Operation.create(
        "kernel.nms",
        results=[t.type(inference.context) for t in (rows, count, *room)],
        operands=operands,
        attributes=_attributes_without(op, RESULT_DIMS),
        loc=op.location,
        ip=ir.InsertionPoint(op),
    )
    name = inference.symbols.new("u")
    bind(inference, made.results[1], [name])
    values = {"1": [0], "2": [dims.symbol(name)], "3": [0]}
    recorded = {index: dims_attribute(entry, inference.context) for index, entry in values.items()}
    cut = _Builder(inference, op).op(
        "Slice", [made.results[0]], operand_values=ir.DictAttr.get(recorded, context=inference.context)
    )
    op.results[0].replace_all_uses_with(cut)
    op.erase()


def _attributes_without(op: ir.Operation, name: str) -> dict[str, ir.Attribute]:
    entries = [op.attributes[at] for at in range(len(op.attributes))]
    return {entry.name: entry.attr for entry in entries if entry.name != name}


REPLACE: dict[str, Callable[[Inference, OnnxOp], None]] = {"NonMaxSuppression": _replace_nms}


RESOLVE: dict[tuple[str, int], Callable[[Inference, OnnxOp], None]] = {
    ("Reshape", 1): _resolve_reshape,
    ("Resize", SCALES): _resolve_resize,
}
