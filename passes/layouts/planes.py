"""Convolutions that stay channels first: between a tensor that exists so and readers that want it so.

Turning both sides of one costs about as much as the convolution. Where a neighbour works channels last, or the sums are
so many that tiles over channels (or Winograd's) pay for turning, it is turned as usual.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from onnxc.dialects import dims
from onnxc.dialects.dims import Dim
from onnxc.dialects.onnx import OnnxOp, is_onnx
from onnxc.dialects.types import Tensor
from onnxc.passes.kernels.conv_problem import Conv
from onnxc.passes.kernels.planes_problem import applies, fills_vectors
from onnxc.passes.layouts.pointwise import NARY, UNARY
from onnxc.passes.layouts.versions import CARRIERS, Layouts, channels_last, native

FEW_PIXELS = 16  # of an image: fewer do not fill vectors
STRIDE = 2  # along the rows of a depthwise convolution: its vectors are taken apart by shuffles
POINTWISE = {*UNARY.split(), *NARY.split()}
VIEWS = ("Reshape", "Flatten")


def stay_planes(
    op: OnnxOp, layouts: Layouts, pads: Sequence[Dim], strides: Sequence[int], dilations: Sequence[int]
) -> bool:
    """Converts a Conv that is best left channels first; False: it is not one."""
    x, w, *rest = op.operands
    bias = [v for v in rest if v is not None]
    rank = Tensor.of(x.type).rank
    if rank < 3 or not all(isinstance(p, int) for p in pads) or channels_last(rank) in layouts.offers(x):
        return False
    if layouts.order(x) is not None or not _read_as_planes(op.results[0]):
        return False
    filters, channels, *window = Tensor.of(w.type).dims
    group = op.attr("group", 1)
    if group == 1 and set(window) == {1} and set(strides) == {1} and not any(pads):
        return _as_product(op, layouts)
    attrs = {"strides": list(strides), "dilations": list(dilations), "pads": list(pads)}
    depthwise = channels == 1 and filters == Tensor.of(x.type).dims[1] == group and filters != 1
    if depthwise and rank == 4 and _along_rows(op.results[0], strides) and Tensor.of(x.type).elem == "f32":
        return _define(op, layouts, "depthwise_planes", [x, w, *bias], attrs)
    if not _small(op, group, tuple(pads), tuple(strides), tuple(dilations)):
        return False
    last = layouts.want(w, (0, *range(2, rank), 1))
    return _define(op, layouts, "conv_planes", [x, last, *bias], {**attrs, "group": group})


def _along_rows(result: ir.Value, strides: Sequence[int]) -> bool:
    """Whether vectors along rows do a depthwise convolution best: with a stride, where the result's rows fill them."""
    width = Tensor.of(result.type).dims[3]
    return strides[1] == 1 or (strides[1] <= STRIDE and fills_vectors(width))


def _define(op: OnnxOp, layouts: Layouts, kind: str, operands: list[ir.Value], attrs: dict[str, object]) -> bool:
    result = Tensor.of(op.results[0].type)
    layouts.define(op.results[0], native(result.rank), layouts.internal(kind, operands, result, attrs))
    return True


def _read_as_planes(value: ir.Value) -> bool:
    """Whether all that reads it, through element-wise ops, wants it as the model has it."""
    for use in value.uses:
        reader = use.owner.operation
        name = reader.name.removeprefix("onnx.") if is_onnx(reader) else None
        if name in POINTWISE or name in VIEWS:
            if not _read_as_planes(reader.results[0]):
                return False
        elif name in CARRIERS:
            return False
    return True


def _small(op: OnnxOp, group: int, pads: tuple[int, ...], strides: tuple[int, ...], dilations: tuple[int, ...]) -> bool:
    """Whether the kernel for planes takes it, with sums that are cheap against turning."""
    x, w, result = (Tensor.of(v.type) for v in (op.operands[0], op.operands[1], op.results[0]))
    filters, channels, *window = w.dims
    if not isinstance(filters, int):
        return False
    return applies(
        Conv(
            op,
            x.elem,
            x.dims[0],
            tuple(x.dims[2:]),
            tuple(result.dims[2:]),
            tuple(window),
            strides,
            dilations,
            pads[: len(window)],
            any(pads),
            group,
            channels,
            filters // group,
            x.dims[-1],
        )
    )


def _as_product(op: OnnxOp, layouts: Layouts) -> bool:
    """w [M, C] · x [N, C, pixels], with the bias along the rows."""
    x, w, *rest = op.operands
    given, result = Tensor.of(x.type), Tensor.of(op.results[0].type)
    n, c, *size = given.dims
    pixels = dims.product(size)
    if isinstance(pixels, int) and pixels < FEW_PIXELS:
        return False
    m = Tensor.of(w.type).dims[0]
    columns = layouts.reshape(x, [n, c, pixels])
    product = layouts.one("MatMul", [layouts.reshape(w, [m, c]), columns], given.of_shape([n, m, pixels]))
    if rest and rest[0] is not None:
        product = layouts.one("Add", [product, layouts.reshape(rest[0], [m, 1])], product.type)
    layouts.define(op.results[0], native(result.rank), layouts.reshape(product, list(result.dims)))
    return True
