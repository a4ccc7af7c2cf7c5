"""Simplification of ops that select, repeat or join: Slice, Pad, Concat, Split, Gather, Expand, Tile, Resize."""

from __future__ import annotations

from mlir import ir

from onnxc.dialects import dims
from onnxc.dialects.onnx import OnnxOp
from onnxc.dialects.types import Tensor
from onnxc.passes.layouts.reshapes import matched
from onnxc.passes.recorded_values import ATTRIBUTE, values_attribute
from onnxc.passes.rewriting import Rewriter
from onnxc.passes.simplifications.registry import simplifies

BROADCASTING = (
    "Add Sub Mul Div Pow Equal Less Greater LessOrEqual GreaterOrEqual And Or Xor Where Min Max Sum Mean Mod PRelu "
    "BitwiseAnd BitwiseOr BitwiseXor"
)


@simplifies("Expand", "Tile", "Pad", "Slice", "Concat")
def to_same_shape(op: OnnxOp, rw: Rewriter) -> ir.Value | None:
    """What keeps the shape keeps the elements, except for a Slice that runs backwards, and a Pad that also crops."""
    x = op.operands[0]
    shape = Tensor.of(x.type).shape
    if shape is None or shape != Tensor.of(op.results[0].type).shape or (op.name == "Concat" and len(op.operands) > 1):
        return None
    if op.name == "Slice" and len(op.op.operands) > 4 and not _all_are(op.values(4), 1):
        return None
    if op.name == "Pad" and not _all_are(op.values(1), 0):
        return None
    return x


def _all_are(values: list[dims.Dim] | None, wanted: int) -> bool:
    return values is not None and all(value == wanted for value in values)


@simplifies("Resize")
def resize(op: OnnxOp, rw: Rewriter) -> ir.Value | None:
    """To the same size by sizes, or by scales of exactly 1."""
    if op.attr("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize":
        return None
    if Tensor.of(op.operands[0].type).shape != Tensor.of(op.results[0].type).shape:
        return None
    scales = op.operands[2] if len(op.operands) > 2 else None
    if scales is not None and Tensor.of(scales.type).numel != 0:
        array = rw.array(scales, limit=16)
        if array is None or (array != 1).any():
            return None
    return op.operands[0]


@simplifies(*BROADCASTING.split())
def expand_is_implied(op: OnnxOp, rw: Rewriter) -> ir.Value | None:
    """An Expand before an op that broadcasts to the same shape anyway."""
    result = Tensor.of(op.results[0].type)
    for index, operand in enumerate(op.operands):
        inner = rw.producer(operand, "Expand")
        if inner is None:
            continue
        operands = list(op.operands)
        operands[index] = inner.operands[0]
        if broadcast([Tensor.of(value.type).shape for value in operands]) == result.shape:
            return rw.build(op.name, operands, [op.results[0].type], rw.attributes(op)).results[0]
    return None


def broadcast(shapes: list[tuple[dims.Dim, ...] | None]) -> tuple[dims.Dim, ...] | None:
    """The shape that numpy's rule gives, or None where a rank is unknown."""
    if any(shape is None for shape in shapes):
        return None
    rank = max(len(shape) for shape in shapes)
    result: list[dims.Dim] = [1] * rank
    for shape in shapes:
        for axis, dim in enumerate(shape, rank - len(shape)):
            result[axis] = dims.broadcast(result[axis], dim)
    return tuple(result)


@simplifies("Concat")
def concat(op: OnnxOp, rw: Rewriter) -> ir.Value | None:
    """Without empty parts, and without a Concat of the same axis that nothing else uses."""
    result = Tensor.of(op.results[0].type)
    if result.shape is None:
        return None
    axis = op.attr("axis") % len(result.shape)
    parts: list[ir.Value] = []
    for part in op.operands:
        inner = rw.producer(part, "Concat")
        tensor = Tensor.of(part.type)
        if tensor.shape is None:
            return None
        if tensor.shape[axis] == 0:
            continue
        same = inner is not None and inner.attr("axis") % len(tensor.shape) == axis and rw.single_use(part)
        parts += inner.operands if same else [part]
    if parts == op.operands or not parts:
        return None
    return rw.one("Concat", parts, op.results[0].type, {"axis": axis}) if len(parts) > 1 else parts[0]


#: reductions of what was stacked → the same of the parts
STACKED = {"ReduceMax": "Max", "ReduceMin": "Min", "ReduceSum": "Sum", "ReduceMean": "Mean"}


@simplifies(*STACKED)
def reduce_stack(op: OnnxOp, rw: Rewriter) -> ir.Value | None:
    """Of tensors that were only joined along a new axis to be reduced along it: element by element instead."""
    inner, result = rw.producer(op.operands[0], "Concat"), Tensor.of(op.results[0].type)
    if inner is None or result.elem not in ("f16", "bf16", "f32", "f64") or not rw.single_use(op.operands[0]):
        return None
    tensors = [Tensor.of(part.type) for part in inner.operands]
    rank, axes = len(tensors[0].dims), op.values(1)
    axis = inner.attr("axis") % rank
    if axes is None or [a % rank if isinstance(a, int) else None for a in axes] != [axis]:
        return None
    if len(tensors) < 2 or any(tensor.dims[axis] != 1 or tensor.dims != tensors[0].dims for tensor in tensors):
        return None
    return rw.reshape(rw.one(STACKED[op.name], inner.operands, tensors[0]), result.dims)


@simplifies("Split")
def split(op: OnnxOp, rw: Rewriter) -> list[ir.Value] | None:
    """One part is all of it; others are Slices, which the rules below can move."""
    x, parts, start = op.operands[0], [], 0
    axis = op.attr("axis", 0) % len(Tensor.of(x.type).dims)
    for result in op.results:
        size = Tensor.of(result.type).dims[axis]
        parts.append(rw.slice(x, {axis: (start, size)}))
        start = start + size
    return parts


@simplifies("Gather")
def gather(op: OnnxOp, rw: Rewriter) -> ir.Value | None:
    """One known index: a Slice and a Reshape, both without a bounds check."""
    x, tensor = op.operands[0], Tensor.of(op.operands[0].type)
    index, result = rw.scalar(op.operands[1]), Tensor.of(op.results[0].type)
    if index is None or tensor.shape is None or result.shape is None or rw.is_constant(x):
        return None
    axis = op.attr("axis", 0) % len(tensor.shape)
    size = tensor.shape[axis]
    if not isinstance(size, int) or not -size <= index < size:
        return None
    return rw.reshape(rw.slice(x, {axis: (index % size, 1)}), result.shape)


@simplifies("Slice")
def slice_of_transpose(op: OnnxOp, rw: Rewriter) -> ir.Value | None:
    """A part of a Transpose is the Transpose of a part: heads that are cut apart are not moved together first."""
    turned, axes = rw.producer(op.operands[0], "Transpose"), op.values(3)
    values = {index: op.values(index) for index in range(1, len(op.op.operands))}
    if turned is None or axes is None or any(found is None for found in values.values()):
        return None
    rank = len(Tensor.of(op.operands[0].type).dims)
    perm = list(turned.attr("perm") or range(rank - 1, -1, -1))
    values[3] = [perm[axis % rank] for axis in axes]
    result = Tensor.of(op.results[0].type).dims
    tensor = Tensor.of(turned.operands[0].type).of_shape([result[perm.index(axis)] for axis in range(rank)])
    attrs = {ATTRIBUTE: values_attribute(values, op.op.context)}
    part = rw.one("Slice", [turned.operands[0], *[rw.absent()] * len(values)], tensor, attrs)
    return rw.transpose(part, perm)


@simplifies("Reshape")
def reshape_of_slice(op: OnnxOp, rw: Rewriter) -> ir.Value | None:
    """A Reshape that splits the sliced axis, at whole steps, comes first: the Slice meets the Transpose behind it."""
    inner = rw.producer(op.operands[0], "Slice")
    bounds = window(inner) if inner is not None and rw.single_use(op.operands[0]) else None
    if bounds is None or len(bounds) != 1:
        return None
    ((axis, (start, size)),) = bounds.items()
    target, whole = Tensor.of(op.results[0].type).dims, Tensor.of(inner.operands[0].type).dims
    groups = matched(Tensor.of(op.operands[0].type).dims, target) or []
    made = next((new for old, new in groups if old == [axis]), [])
    step = dims.product(target[made[0] + 1 : made[-1] + 1]) if len(made) > 1 else 0
    if not isinstance(step, int) or not step or start % step or size % step or whole[axis] % step:
        return None
    shape = [whole[axis] // step if index == made[0] else dim for index, dim in enumerate(target)]
    return rw.slice(rw.reshape(inner.operands[0], shape), {made[0]: (start // step, size // step)})


@simplifies("Slice")
def slice_of_slice(op: OnnxOp, rw: Rewriter) -> ir.Value | None:
    """Two Slices of known bounds and step 1, the first for this one alone, are one."""
    inner = rw.producer(op.operands[0], "Slice")
    if inner is None or not rw.single_use(op.operands[0]):
        return None
    outer_bounds, inner_bounds = window(op), window(inner)
    if outer_bounds is None or inner_bounds is None:
        return None
    bounds = dict(inner_bounds)
    for axis, (start, size) in outer_bounds.items():
        bounds[axis] = (bounds.get(axis, (0, 0))[0] + start, size)
    return rw.slice(inner.operands[0], bounds)


def window(op: OnnxOp) -> dict[int, tuple[int, int]] | None:
    """axis → (start, size) of a Slice of step 1 whose bounds and dims are numbers; None for any other."""
    shape = Tensor.of(op.operands[0].type).shape
    if shape is None:
        return None
    starts, ends = op.values(1), op.values(2)
    axes = op.values(3) if len(op.op.operands) > 3 else None
    if starts is None or ends is None or (len(op.op.operands) > 4 and not _all_are(op.values(4), 1)):
        return None
    if axes is None:
        if len(op.operands) > 3 and op.operands[3] is not None:
            return None
        axes = list(range(len(starts)))
    bounds: dict[int, tuple[int, int]] = {}
    for start, end, axis in zip(starts, ends, axes, strict=True):
        size = shape[axis]
        if not (isinstance(start, int) and isinstance(end, int) and isinstance(size, int)):
            return None
        first, last, _ = slice(start, end).indices(size)
        bounds[axis % len(shape)] = (first, max(last - first, 0))
    return bounds
