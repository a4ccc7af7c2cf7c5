"""Convolutions that stay channels first: 1×1 and depthwise ones between a given tensor and a result of the function.

Turning both sides costs more than such a convolution; where a neighbour works channels last, it is turned as usual.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir

from onnxc.dialects.onnx import OnnxOp
from onnxc.dialects.types import Tensor
from onnxc.passes.layouts.versions import Layouts, channels_last, native


def stay_planes(op: OnnxOp, layouts: Layouts, pads: Sequence, strides: Sequence[int], dilations: Sequence[int]) -> bool:
    """Converts a Conv that is best left channels first; False: it is not one."""
    x, w = op.operands[:2]
    if not _alone(op, layouts) or Tensor.of(x.type).rank != 4 or not all(isinstance(p, int) for p in pads):
        return False
    filters, channels, *window = Tensor.of(w.type).dims
    if op.attr("group", 1) == 1 and set(window) == {1} and set(strides) == {1} and not any(pads):
        return _as_product(op, layouts)
    depthwise = channels == 1 and filters == Tensor.of(x.type).dims[1] == op.attr("group", 1) and filters != 1
    if not depthwise or strides[1] != 1 or Tensor.of(x.type).elem != "f32":
        return False
    bias = [v for v in op.operands[2:] if v is not None]
    attrs = {"strides": list(strides), "dilations": list(dilations), "pads": list(pads)}
    layouts.define(op.results[0], native(4),
                   layouts.internal("depthwise_planes", [x, w, *bias], Tensor.of(op.results[0].type), attrs))
    return True


def _alone(op: OnnxOp, layouts: Layouts) -> bool:
    """Whether x is there as the model has it, from outside, and the result only leaves the function."""
    x = op.operands[0]
    outside = isinstance(x.owner, ir.Block) and channels_last(4) not in layouts.offers(x)
    return outside and all(use.owner.operation.name == "func.return" for use in op.results[0].uses)


def _as_product(op: OnnxOp, layouts: Layouts) -> bool:
    """w [M, C] · x [N, C, H·W], with the bias along the rows."""
    x, w, *rest = op.operands
    n, c, h, width = Tensor.of(x.type).dims
    m = Tensor.of(w.type).dims[0]
    pixels = layouts.reshape(x, [n, c, h * width])
    matrix = layouts.reshape(w, [m, c])
    product = layouts.one("MatMul", [matrix, pixels], Tensor.of(x.type).of_shape([n, m, h * width]))
    if rest and rest[0] is not None:
        product = layouts.one("Add", [product, layouts.reshape(rest[0], [m, 1])], product.type)
    layouts.define(op.results[0], native(4), layouts.reshape(product, [n, m, h, width]))
    return True
