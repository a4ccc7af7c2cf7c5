"""This file makes operands known to shape inference that have to be normalised first.

A shape with 0 and -1 and the scales of a Resize become sizes, computed by inserted onnx operators and then bound
(shape_binding.py). NonMaxSuppression becomes an operator that writes as many rows as there can be, and a Slice.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mlir import ir

from onnxc.dialects import dims
from onnxc.dialects.dims import Dim
from onnxc.dialects.onnx import OnnxOp
from onnxc.dialects.shapes import IllegalShape, NeedsValues, UnknownRank, reals
from onnxc.dialects.shapes.pooling import nms_bound
from onnxc.dialects.shapes.reals import Number, Real
from onnxc.dialects.shapes.resize import SCALES, SIZES
from onnxc.dialects.types import Tensor
from onnxc.passes.recorded_values import ATTRIBUTE, recorded_values, values_attribute
from onnxc.passes.shape_binding import F32, I64, RESULT_DIMS, Builder, bind, demand, element_count, require_sizes

if TYPE_CHECKING:
    from onnxc.passes.infer_shapes import Inference


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


def _resolve_reshape(inference: Inference, view: OnnxOp) -> None:
    """The shape operand, with 0 and -1 replaced by sizes; entries that are numbers stay what they are."""
    x, entries = view.operands[0], view.operands[1]
    if x is None or entries is None:
        raise UnknownRank("its shape is missing")
    demand(inference, entries, "s")
    known = inference.values_of(entries) or ()
    b = Builder(inference, view.op)
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


def _shape_of(b: Builder, x: ir.Value, count: int) -> ir.Value:
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
    b = Builder(inference, view.op)
    whole = b.op("Cast", [b.op("Gather", [b.op("Shape", [x]), b.constant(axes)])], to=F32)
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
    sizes = b.op("Cast", [b.op("Floor", [scaled])], to=I64)
    names = [inference.symbols.new("u") for _ in axes]
    require_sizes(inference, names, bind(inference, sizes, names), view.op)
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
    count = None if tensor is None else element_count(tensor)
    if not isinstance(count, int):
        raise UnknownRank("the number of its scales is known at run time only")
    return [None] * count


def _record_sizes(op: ir.Operation, index: int, sizes: Sequence[Dim]) -> None:
    """Records the elements of an operand that the node does not have (recorded_values.py)."""
    op.attributes[ATTRIBUTE] = values_attribute({**recorded_values(op), index: sizes}, op.context)


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
    values = {1: [0], 2: [dims.symbol(name)], 3: [0]}
    recorded = values_attribute(values, inference.context)
    cut = Builder(inference, op).op("Slice", [made.results[0]], operand_values=recorded)
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
