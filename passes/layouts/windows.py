"""Convolutions and pools: they read and write channels last, whatever their operand is."""

from __future__ import annotations

import numpy as np
from mlir import ir

from onnxc.dialects import dims
from onnxc.dialects.dims import Dim
from onnxc.dialects.onnx import OnnxOp
from onnxc.dialects.types import Tensor
from onnxc.passes.layouts.planes import stay_planes
from onnxc.passes.layouts.versions import Layouts, Order, carries, channels_last, permute, permuted
from onnxc.passes.recorded_values import ATTRIBUTE, values_attribute


@carries("Conv")
def conv(op: OnnxOp, layouts: Layouts) -> bool:
    """Weights [M, C/g, kh, kw] become [kh, kw, C/g, M]. The spatial axes may come in another order, kernel and all."""
    x, w = op.operands[:2]
    rank = len(Tensor.of(w.type).dims)
    kernel = Tensor.of(w.type).dims[2:]
    if not all(isinstance(size, int) for size in kernel):
        return False
    steps = [spatial(op, name, rank - 2) for name in ("strides", "dilations")]
    if stay_planes(op, layouts, window_pads(op, list(kernel)), *steps):
        return True
    offered = [order for order in layouts.offers(x) if order[0] == 0 and order[-1] == 1 and rank > 3]
    order = offered[0] if offered and not symbolic_pads(op, list(kernel)) else channels_last(rank)
    spatial_order = [axis - 2 for axis in order[1:-1]]
    version, pads = padded(op, layouts, layouts.want(x, order), list(kernel), 0.0)
    bias = [op.operands[2]] if len(op.operands) > 2 and op.operands[2] is not None else []
    attrs = {
        "strides": permute(spatial_order, spatial(op, "strides", rank - 2)),
        "dilations": permute(spatial_order, spatial(op, "dilations", rank - 2)),
        "pads": permute(spatial_order, pads[: rank - 2]) + permute(spatial_order, pads[rank - 2 :]),
        "group": op.attr("group", 1),
    }
    operands = [version, layouts.want(w, (*order[1:-1], 1, 0)), *bias]
    return finish(op, layouts, "conv", operands, attrs, order)


@carries("ConvTranspose")
def conv_transpose(op: OnnxOp, layouts: Layouts) -> bool:
    """Weights [C, M/g, kh, kw] become [kh, kw, C, M/g]."""
    x, w = op.operands[0], op.operands[1]
    rank = len(Tensor.of(w.type).dims)
    pads = transposed_pads(op)
    if pads is None:
        return False
    weights = layouts.want(w, (*range(2, rank), 0, 1))
    bias = [op.operands[2]] if len(op.operands) > 2 and op.operands[2] is not None else []
    attrs = {
        "strides": spatial(op, "strides", rank - 2),
        "dilations": spatial(op, "dilations", rank - 2),
        "pads": pads[0],
        "output_padding": pads[1],
        "group": op.attr("group", 1),
    }
    return finish(op, layouts, "conv_transpose", [layouts.want(x, channels_last(rank)), weights, *bias], attrs)


@carries("MaxPool", "AveragePool")
def pool(op: OnnxOp, layouts: Layouts) -> bool:
    if len(op.results) > 1 and any(True for _ in op.results[1].uses):
        return False  # the indices count elements in the native order
    x = op.operands[0]
    kernel = list(op.attr("kernel_shape"))
    average = op.name == "AveragePool"
    if symbolic_pads(op, kernel) and (average or Tensor.of(x.type).elem not in ("f16", "bf16", "f32", "f64")):
        return False
    version = layouts.want(x, channels_last(len(kernel) + 2))
    version, pads = padded(op, layouts, version, kernel, -np.inf)
    attrs = {
        "kernel_shape": kernel,
        "strides": spatial(op, "strides", len(kernel)),
        "dilations": spatial(op, "dilations", len(kernel)),
        "pads": pads,
        "ceil_mode": op.attr("ceil_mode", 0),
    }
    if average:
        attrs["count_include_pad"] = op.attr("count_include_pad", 0)
    return finish(op, layouts, "average_pool" if average else "max_pool", [version], attrs)


def finish(
    op: OnnxOp,
    layouts: Layouts,
    kind: str,
    operands: list[ir.Value],
    attrs: dict[str, object],
    order: Order | None = None,
) -> bool:
    result = Tensor.of(op.results[0].type)
    order = order or channels_last(len(result.dims))
    layouts.define(op.results[0], order, layouts.internal(kind, operands, permuted(result, order), attrs))
    return True


def spatial(op: OnnxOp, name: str, count: int) -> list[int]:
    """An attribute with one entry a spatial axis, 1 by default."""
    return list(op.attr(name) or [1] * count)


def padded(op: OnnxOp, layouts: Layouts, x: ir.Value, kernel: list[int], filler: float) -> tuple[ir.Value, list[int]]:
    """Explicit pads for `x` (channels last). SAME pads that depend on run-time sizes become a Pad op before it."""
    pads = window_pads(op, kernel)
    if all(isinstance(pad, int) for pad in pads):
        return x, pads
    count = len(kernel)
    widths = [0, *pads[:count], 0, 0, *pads[count:], 0]
    tensor = Tensor.of(x.type)
    shape = [dim + widths[i] + widths[i + count + 2] for i, dim in enumerate(tensor.dims)]
    value = layouts.constant(np.array(filler, np.float32)) if filler else None
    if value is not None and tensor.elem != "f32":
        value = layouts.cast(value, tensor.elem)
    attrs = {ATTRIBUTE: values_attribute({1: widths}, x.context)}
    operands = [x, layouts.absent(), *([value] if value is not None else [])]
    return layouts.one("Pad", operands, tensor.of_shape(shape), attrs), [0] * 2 * count


def symbolic_pads(op: OnnxOp, kernel: list[int]) -> bool:
    return not all(isinstance(pad, int) for pad in window_pads(op, kernel))


def window_pads(op: OnnxOp, kernel: list[int]) -> list[Dim]:
    """The pads of a Conv or pool, all before and then all behind, with `auto_pad` worked out."""
    count = len(kernel)
    mode = op.attr("auto_pad", "NOTSET") or "NOTSET"
    if mode == "NOTSET":
        return list(op.attr("pads") or [0] * 2 * count)
    if mode == "VALID":
        return [0] * 2 * count
    sizes = Tensor.of(op.operands[0].type).dims[2:]
    strides, dilations = spatial(op, "strides", count), spatial(op, "dilations", count)
    before, behind = [], []
    for size, reach, stride in zip(sizes, reaches(kernel, dilations), strides, strict=True):
        out = dims.ceildiv(size, stride)
        total = reach - 1 if stride == 1 else dims.max((out - 1) * stride + reach - size, 0)
        less = dims.floordiv(total, 2)
        before.append(less if mode == "SAME_UPPER" else total - less)
        behind.append(total - less if mode == "SAME_UPPER" else less)
    return [*before, *behind]


def reaches(kernel: list[int], dilations: list[int]) -> list[int]:
    return [(size - 1) * dilation + 1 for size, dilation in zip(kernel, dilations, strict=True)]


def transposed_pads(op: OnnxOp) -> tuple[list[int], list[int]] | None:
    """Pads and output padding of a ConvTranspose with `auto_pad` and `output_shape` worked out; None: not known now."""
    kernel = list(Tensor.of(op.operands[1].type).dims[2:])
    count = len(kernel)
    extra = list(op.attr("output_padding") or [0] * count)
    mode, target = op.attr("auto_pad", "NOTSET") or "NOTSET", op.attr("output_shape")
    if not all(isinstance(size, int) for size in kernel):
        return None
    if mode == "VALID" and not target:
        return [0] * 2 * count, extra
    if mode == "NOTSET" and not target:
        return list(op.attr("pads") or [0] * 2 * count), extra
    sizes, outs = Tensor.of(op.operands[0].type).dims[2:], Tensor.of(op.results[0].type).dims[2:]
    strides, dilations = spatial(op, "strides", count), spatial(op, "dilations", count)
    before, behind = [], []
    for axis, reach in enumerate(reaches(kernel, dilations)):
        total = (sizes[axis] - 1) * strides[axis] + extra[axis] + reach - outs[axis]
        if not isinstance(total, int):
            return None
        first = total - total // 2 if mode != "SAME_UPPER" else total // 2
        before.append(first)
        behind.append(total - first)
    return [*before, *behind], extra
