"""Ops that name axes: they run in the order of their operand, with the axes renumbered."""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from onnxc.dialects.dims import Dim
from onnxc.dialects.onnx import OnnxOp
from onnxc.dialects.types import Tensor
from onnxc.passes.layouts.versions import Layouts, Order, carries, constant_of, dropped, native, permute, permuted
from onnxc.passes.recorded_values import ATTRIBUTE, recorded_values, values_attribute


@carries("Transpose")
def transpose(op: OnnxOp, layouts: Layouts) -> bool:
    """Another name for the axes. Of a native operand the Transpose stays, for whoever wants its result native."""
    x, result = op.operands[0], op.results[0]
    perm = op.attr("perm") or list(native(len(Tensor.of(x.type).dims))[::-1])
    moved = layouts.order(x)
    offers = {tuple(perm.index(axis) for axis in order): version for order, version in layouts.offers(x).items()}
    if moved is None:
        for order, version in offers.items():
            layouts.offer(result, order, version)
        return False
    order = next(iter(offers))
    layouts.define(result, order, offers[order])
    return True


@carries("Concat")
def concat(op: OnnxOp, layouts: Layouts) -> bool:
    result = Tensor.of(op.results[0].type)
    rank = len(result.dims)
    order = layouts.best(op.operands, rank)
    if order == native(rank):
        return False
    axis = order.index(op.attr("axis") % rank)
    parts = [layouts.want(part, order) for part in op.operands]
    layouts.define(op.results[0], order, layouts.one("Concat", parts, permuted(result, order), {"axis": axis}))
    return True


@carries("Softmax", "LogSoftmax", "Hardmax", "Split", "TopK", "CumSum", "LpNormalization")
def along_axis(op: OnnxOp, layouts: Layouts) -> bool:
    """The axis is an attribute (for CumSum an operand), and all results have the operand's order."""
    order = layouts.order(op.operands[0])
    if order is None:
        return False
    recorded = recorded_values(op.op)
    attrs = layouts.attributes(op)
    operands = [
        layouts.want(op.operands[0], order),
        *(v if v is not None else layouts.absent() for v in op.operands[1:]),
    ]
    if op.name == "CumSum":
        axis = op.values(1)
        if axis is None or not isinstance(axis[0], int):
            return False
        operands[1] = layouts.constant(constant_of([order.index(axis[0] % len(order))]).reshape(()))
        attrs.pop(ATTRIBUTE, None)
    else:
        default = {"Split": 0, "Hardmax": -1}.get(op.name, -1)
        attrs["axis"] = order.index(op.attr("axis", default) % len(order))
        if recorded:
            attrs[ATTRIBUTE] = op.op.attributes[ATTRIBUTE]
    types = [permuted(Tensor.of(result.type), order).type() for result in op.results]
    made = layouts.build(op.name, operands, types, attrs)
    for old, new in zip(op.results, made.results, strict=True):
        layouts.define(old, order, new)
    return True


@carries(
    "ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL1", "ReduceL2", "ReduceLogSum",
    "ReduceLogSumExp", "ReduceSumSquare",
)  # fmt: skip
def reduce(op: OnnxOp, layouts: Layouts) -> bool:
    order, axes = layouts.order(op.operands[0]), numbers(op.values(1))
    if order is None:
        return False
    rank = len(order)
    if axes is None or not axes:
        if op.attr("noop_with_empty_axes", 0) or (len(op.operands) > 1 and op.operands[1] is not None and axes is None):
            return False
        axes = list(range(rank))
    axes = [axis % rank for axis in axes]
    attrs = layouts.attributes(op)
    attrs[ATTRIBUTE] = values_attribute({1: sorted(order.index(axis) for axis in axes)}, op.op.context)
    left = order if op.attr("keepdims", 1) else dropped(order, axes)
    return unary(op, layouts, order, left, attrs, [layouts.absent()])


@carries("ArgMax", "ArgMin")
def arg_extreme(op: OnnxOp, layouts: Layouts) -> bool:
    order = layouts.order(op.operands[0])
    if order is None:
        return False
    axis = op.attr("axis", 0) % len(order)
    attrs = layouts.attributes(op) | {"axis": order.index(axis)}
    return unary(op, layouts, order, order if op.attr("keepdims", 1) else dropped(order, [axis]), attrs)


@carries("QuantizeLinear", "DequantizeLinear")
def quantised(op: OnnxOp, layouts: Layouts) -> bool:
    """One scale for all, or one for each index of an axis."""
    order, scale = layouts.order(op.operands[0]), Tensor.of(op.operands[1].type)
    if order is None or op.attr("block_size", 0) or len(scale.dims) > 1:
        return False
    axis = op.attr("axis", 1) % len(order)
    attrs = layouts.attributes(op) | {"axis": order.index(axis)}
    return unary(op, layouts, order, order, attrs, op.operands[1:])


@carries("Slice")
def slice_(op: OnnxOp, layouts: Layouts) -> bool:
    order, starts, ends = layouts.order(op.operands[0]), op.values(1), op.values(2)
    if order is None or starts is None or ends is None:
        return False
    axes = numbers(op.values(3)) if given(op, 3) else list(range(len(starts)))
    steps = op.values(4) if given(op, 4) else [1] * len(starts)
    if axes is None or steps is None:
        return False
    values = {1: starts, 2: ends, 3: [order.index(axis % len(order)) for axis in axes], 4: steps}
    attrs = {ATTRIBUTE: values_attribute(values, op.op.context)}
    return unary(op, layouts, order, order, attrs, [layouts.absent()] * 4)


@carries("Pad")
def pad(op: OnnxOp, layouts: Layouts) -> bool:
    order, pads = layouts.order(op.operands[0]), op.values(1)
    if order is None or pads is None:
        return False
    count = len(order)
    if given(op, 3):
        axes = numbers(op.values(3))
        if axes is None:
            return False
        full: list[Dim] = [0] * 2 * count
        for i, axis in enumerate(axes):
            full[axis % count], full[axis % count + count] = pads[i], pads[i + len(axes)]
        pads = full
    widths = permute(order, pads[:count]) + permute(order, pads[count:])
    attrs = {"mode": op.attr("mode", "constant"), ATTRIBUTE: values_attribute({1: widths}, op.op.context)}
    value = op.operands[2] if len(op.operands) > 2 else None
    return unary(op, layouts, order, order, attrs, [layouts.absent(), *([value] if value is not None else [])])


@carries("Expand", "Tile")
def repeat(op: OnnxOp, layouts: Layouts) -> bool:
    order, values = layouts.order(op.operands[0]), op.values(1)
    if order is None or values is None or len(values) != len(order):
        return False
    attrs = {ATTRIBUTE: values_attribute({1: permute(order, values)}, op.op.context)}
    return unary(op, layouts, order, order, attrs, [layouts.absent()])


@carries("Gather")
def gather(op: OnnxOp, layouts: Layouts) -> bool:
    """With indices of rank 1 the axes stay; with a single index its axis goes."""
    order, indices = layouts.order(op.operands[0]), op.operands[1]
    rank = Tensor.of(indices.type).rank
    if order is None or rank not in (0, 1) or layouts.order(indices) is not None:
        return False
    axis = op.attr("axis", 0) % len(order)
    left = order if rank == 1 else dropped(order, [axis])
    return unary(op, layouts, order, left, {"axis": order.index(axis)}, [indices])


@carries("Resize")
def resize(op: OnnxOp, layouts: Layouts) -> bool:
    """Axes are independent: sizes, scales and the rest in the new order say the same."""
    order = layouts.order(op.operands[0])
    if order is None or given(op, 1) or op.has_attr("axes"):
        return False
    x, attrs = layouts.want(op.operands[0], order), layouts.attributes(op)
    operands = [x, layouts.absent(), layouts.absent(), layouts.absent()]
    recorded = recorded_values(op.op)
    if 3 in recorded or (len(op.operands) > 3 and op.operands[3] is not None):
        sizes = op.values(3)
        if sizes is None:
            return False
        attrs[ATTRIBUTE] = values_attribute({3: permute(order, sizes)}, op.op.context)
    else:
        scales = layouts.array(op.operands[2], limit=16)
        if scales is None or scales.size != len(order):
            return False
        operands[2] = layouts.constant(scales[list(order)])
    version = layouts.one("Resize", operands, permuted(Tensor.of(op.results[0].type), order), attrs)
    layouts.define(op.results[0], order, version)
    return True


def unary(
    op: OnnxOp, layouts: Layouts, order: Order, left: Order, attrs: dict[str, object], more: Sequence[ir.Value] = ()
) -> bool:
    """The op on its first operand in `order`, its result in the order that is `left`."""
    operands = [layouts.want(op.operands[0], order), *more]
    version = layouts.one(op.name, operands, permuted(Tensor.of(op.results[0].type), left), attrs)
    layouts.define(op.results[0], left, version)
    return True


def given(op: OnnxOp, index: int) -> bool:
    return index in recorded_values(op.op) or (len(op.operands) > index and op.operands[index] is not None)


def numbers(values: list[Dim] | None) -> list[int] | None:
    return None if values is None or not all(isinstance(value, int) for value in values) else list(values)


@carries("Shape", "Size")
def sizes(op: OnnxOp, layouts: Layouts) -> bool:
    """Read off the version that exists, and put in the native order: the tensor itself need not move."""
    x = op.operands[0]
    order = layouts.order(x)
    if order is None:
        return False
    version, result = layouts.want(x, order), Tensor.of(op.results[0].type)
    if op.name == "Shape":
        chosen = [order.index(axis) for axis in range(len(order))[op.attr("start", 0) : op.attr("end")]]
        found = layouts.one("Shape", [version], Tensor("i64", (len(order),)))
        found = layouts.one("Gather", [found, layouts.constant(constant_of(chosen))], result, {"axis": 0})
    else:
        found = layouts.one("Size", [version], result)
    layouts.define(op.results[0], native(result.rank), found)
    return True
