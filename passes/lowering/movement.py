"""Moves: ops that only say where each element of the result comes from."""

from __future__ import annotations

import numpy as np
from mlir import ir
from mlir.dialects import arith

from onnxc.dialects.onnx import OnnxOp
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels import scalars
from onnxc.passes.kernels.kernel_function import FAILURES
from onnxc.passes.lowering.registry import HALVES, moves

FAILURES["Gather"] = "index out of range"
FAILURES["GatherElements"] = "index out of range"
FAILURES["GatherND"] = "index out of range"


@moves("Transpose")
def transpose(ev, op: OnnxOp, point) -> ir.Value:
    rank = len(point)
    perm = op.attr("perm", None) or list(range(rank))[::-1]
    source: list[im.Index] = [0] * rank
    for i, p in enumerate(perm):
        source[p] = point[i]
    return ev.at(op.operands[0], source)


@moves("Expand", "Tile")
def expand(ev, op: OnnxOp, point) -> ir.Value:
    if op.name == "Expand":
        source, lanes = ev.aligned(op.operands[0], op.results[0], point, _scalar())
        return ev.at(op.operands[0], source, lanes)
    shape = ev.builder.shape(op.operands[0])
    return ev.at(op.operands[0], [im.mod(i, im.maximum(d, 1)) for i, d in zip(point, shape, strict=True)])


def _scalar():
    from onnxc.passes.kernels.evaluate import SCALAR  # evaluate imports the tables that this file fills

    return SCALAR


@moves("Slice")
def slice_(ev, op: OnnxOp, point) -> ir.Value:
    """Starts are clamped as in onnx: into [0, d] for a positive step, [0, d-1] for a negative one."""
    shape = ev.builder.shape(op.operands[0])
    axes, starts, steps = slice_parameters(ev, op, len(shape))
    source = list(point)
    for axis, start, step in zip(axes, starts, steps, strict=True):
        d = shape[axis]
        start = im.select(im.compare(start, "<", 0), im.add(start, d), start)
        top = im.select(im.compare(step, "<", 0), im.sub(d, 1), d)
        start = im.minimum(im.maximum(start, 0), top)
        source[axis] = im.add(start, im.mul(point[axis], step))
    return ev.at(op.operands[0], source)


def slice_parameters(ev, op: OnnxOp, rank: int):
    """(axes, starts, steps) of a Slice as ints or indices."""
    starts = ev.values(op, 1)
    known = op.op.attributes["operand_values"]
    axes = [a % rank for a in ev.values(op, 3)] if "3" in ir.DictAttr(known) else list(range(len(starts)))
    steps = ev.values(op, 4) if "4" in ir.DictAttr(known) else [1] * len(starts)
    return axes, starts, steps


def checked_index(ev, op: OnnxOp, element: ir.Value, elem: str, extent: im.Index):
    """(index into [0, extent), whether it was in range); negative ones count from the end. Bad ones fail the run."""
    i = ev.builder.index_cast(element, elem)
    i = im.select(im.compare(i, "<", 0), im.add(i, extent), i)
    inside = im.both(im.compare(i, ">=", 0), im.compare(i, "<", extent))
    with ev.builder.when(_negated(inside)):
        ev.fail(op)
    return im.minimum(im.maximum(i, 0), im.maximum(im.sub(extent, 1), 0)), inside


def _negated(condition: ir.Value) -> ir.Value:
    return scalars.logical_not(condition)


def _load_if(ev, op: OnnxOp, inside, source) -> ir.Value:
    """The operand's element, or 0 without reading it where the index was bad (the operand may be empty)."""
    type_ = scalars.element_type(ev.tensor(op.results[0]).elem)

    def read() -> ir.Value:
        with ev.scope():
            return ev.at(op.operands[0], source)

    return ev.builder.choose(inside, type_, read, lambda: scalars.constant(0, type_))


@moves("Gather")
def gather(ev, op: OnnxOp, point) -> ir.Value:
    data, indices = op.operands
    shape = ev.builder.shape(data)
    axis = op.attr("axis", 0) % len(shape)
    rank = len(ev.tensor(indices).shape)
    element = ev.at(indices, point[axis : axis + rank])
    i, inside = checked_index(ev, op, element, ev.tensor(indices).elem, shape[axis])
    return _load_if(ev, op, inside, [*point[:axis], i, *point[axis + rank :]])


@moves("GatherElements")
def gather_elements(ev, op: OnnxOp, point) -> ir.Value:
    data, indices = op.operands
    shape = ev.builder.shape(data)
    axis = op.attr("axis", 0) % len(shape)
    i, inside = checked_index(ev, op, ev.at(indices, point), ev.tensor(indices).elem, shape[axis])
    return _load_if(ev, op, inside, [*point[:axis], i, *point[axis + 1 :]])


@moves("GatherND")
def gather_nd(ev, op: OnnxOp, point) -> ir.Value:
    data, indices = op.operands
    shape = ev.builder.shape(data)
    batch = op.attr("batch_dims", 0)
    rank = len(ev.tensor(indices).shape)
    depth = ev.tensor(indices).shape[-1]
    source, inside = list(point[:batch]), True
    for k in range(depth):
        element = ev.at(indices, [*point[: rank - 1], k])
        i, fits = checked_index(ev, op, element, ev.tensor(indices).elem, shape[batch + k])
        source.append(i)
        inside = im.both(inside, fits)
    return _load_if(ev, op, inside, [*source, *point[rank - 1 :]])


@moves("OneHot")
def one_hot(ev, op: OnnxOp, point) -> ir.Value:
    """values[1] where the position along the axis is the index (negative ones count from the end), else values[0]."""
    indices, _, values = op.operands
    axis = op.attr("axis", -1) % len(point)
    element = ev.at(indices, [*point[:axis], *point[axis + 1 :]])
    wanted = ev.builder.index_cast(scalars.cast(element, ev.tensor(indices).elem, "i64"))
    depth = ev.builder.shape(op.results[0])[axis]
    wanted = im.select(im.compare(wanted, "<", 0), im.add(wanted, depth), wanted)
    return scalars.select(im.compare(wanted, "==", point[axis]), ev.at(values, [1]), ev.at(values, [0]))


@moves("ReverseSequence")
def reverse_sequence(ev, op: OnnxOp, point) -> ir.Value:
    """The first lengths[batch] steps in the opposite order."""
    time, batch = op.attr("time_axis", 0), op.attr("batch_axis", 1)
    shape = ev.builder.shape(op.operands[0])
    length = ev.builder.index_cast(ev.at(op.operands[1], [point[batch]]), ev.tensor(op.operands[1]).elem)
    length = im.minimum(im.maximum(length, 0), shape[time])
    source = list(point)
    mirrored = im.sub(im.sub(length, 1), point[time])
    source[time] = im.select(im.compare(mirrored, ">=", 0), mirrored, point[time])
    return ev.at(op.operands[0], source)


@moves("ConstantOfShape")
def constant_of_shape(ev, op: OnnxOp, point) -> ir.Value:
    type_ = scalars.element_type(ev.tensor(op.results[0]).elem)
    value = op.attr("value", None)
    return scalars.constant(0 if value is None else np.asarray(value).reshape(-1)[0].item(), type_)


@moves("Range")
def range_(ev, op: OnnxOp, point) -> ir.Value:
    """start + index * delta; halves in f32."""
    start, _limit, delta = op.operands
    elem = ev.tensor(op.results[0]).elem
    wide = "f32" if elem in HALVES else elem
    counted = scalars.cast(_as_i64(im.value(point[0])), "i64", wide)
    step = scalars.mul(counted, _number(ev, op, 2, delta, wide))
    return scalars.cast(scalars.add(_number(ev, op, 0, start, wide), step), wide, elem)


def _number(ev, op: OnnxOp, position: int, operand: ir.Value | None, elem: str) -> ir.Value:
    if operand is not None:
        tensor = ev.tensor(operand)
        return scalars.cast(ev.at(operand, [0] * len(tensor.shape)), tensor.elem, elem)
    return scalars.cast(_as_i64(im.value(ev.values(op, position)[0])), "i64", elem)


def _as_i64(i: ir.Value) -> ir.Value:
    return arith.index_cast(ir.IntegerType.get_signless(64), i)


@moves("Shape")
def shape(ev, op: OnnxOp, point) -> ir.Value:
    """Only where its elements are not needed as dims: the table of dims, selected by position."""
    extents = ev.builder.shape(op.operands[0])[op.attr("start", 0) or None : op.attr("end", None)]
    chosen: im.Index = 0
    for i, d in enumerate(extents):
        chosen = im.select(im.compare(point[0], "==", i), d, chosen)
    return _as_i64(im.value(chosen))


@moves("Size")
def size(ev, op: OnnxOp, point) -> ir.Value:
    return _as_i64(im.value(im.product(ev.builder.shape(op.operands[0]))))


@moves("EyeLike")
def eye_like(ev, op: OnnxOp, point) -> ir.Value:
    type_ = scalars.element_type(ev.tensor(op.results[0]).elem)
    on = im.compare(im.add(point[0], op.attr("k", 0)), "==", point[1])
    return ev.builder.choose(on, type_, lambda: scalars.constant(1, type_), lambda: scalars.constant(0, type_))


@moves("Trilu")
def trilu(ev, op: OnnxOp, point) -> ir.Value:
    x = ev.at(op.operands[0], point)
    k = _diagonal(ev, op)
    diagonal = im.sub(point[-1], point[-2])
    keep = im.compare(diagonal, ">=", k) if op.attr("upper", 1) else im.compare(diagonal, "<=", k)
    return ev.builder.choose(keep, x.type, lambda: x, lambda: scalars.constant_like(0, x))


def _diagonal(ev, op: OnnxOp) -> im.Index:
    """Trilu's second operand: known, a tensor of one element, or absent."""
    known = op.values(1)
    if known is not None:
        return ev.builder.dim(known[0])
    operand = op.operands[1] if len(op.operands) > 1 else None
    return 0 if operand is None else ev.builder.index_cast(ev.at(operand, [0] * len(ev.tensor(operand).dims)))
