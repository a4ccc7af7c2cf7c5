"""Normalisations that are others with reshapes around them."""

from __future__ import annotations

import numpy as np
from mlir import ir

from onnxc.dialects import dims
from onnxc.dialects.onnx import OnnxOp
from onnxc.dialects.types import Tensor
from onnxc.passes.compositions.registry import composes
from onnxc.passes.rewriting import Rewriter


@composes("InstanceNormalization")
def instance_normalization(op: OnnxOp, g: Rewriter) -> ir.Value:
    """Each channel of each image is one row of a LayerNormalization; then scale and bias per channel."""
    x, scale, bias = op.operands[:3]
    tensor = Tensor.of(x.type)
    batch, channels, *spatial = tensor.dims
    rows = g.reshape(x, [batch, channels, dims.product(spatial)])
    one = g.constant_of(np.ones(1), tensor.elem)
    attributes = {"axis": -1, "epsilon": op.attr("epsilon", 1e-5)}
    normal = g.reshape(g.one("LayerNormalization", [rows, one], Tensor.of(rows.type), attributes), tensor.dims)
    per_channel = [g.reshape(v, [channels, *[1] * len(spatial)]) for v in (scale, bias)]
    return g.one("Add", [g.one("Mul", [normal, per_channel[0]], tensor), per_channel[1]], tensor)


@composes("LpNormalization")
def lp_normalization(op: OnnxOp, g: Rewriter) -> ir.Value:
    """x over its norm along an axis; 0 where the norm is 0."""
    x = op.operands[0]
    tensor = Tensor.of(x.type)
    axis = op.attr("axis", -1) % len(tensor.dims)
    norm = g.reduce("ReduceL1" if op.attr("p", 2) == 1 else "ReduceL2", x, [axis])
    zero = g.constant_of(np.zeros(()), tensor.elem)
    nothing = g.one("Equal", [norm, zero], Tensor.of(norm.type).of_elem("i1"))
    return g.one("Where", [nothing, zero, g.one("Div", [x, norm], tensor)], tensor)


@composes("ml.Scaler")
def scaler(op: OnnxOp, g: Rewriter) -> ir.Value:
    """(x − offset) · scale, in f32; both have one element or one for each feature."""
    result = Tensor.of(op.results[0].type)
    y = g.cast(op.operands[0], result.elem) if Tensor.of(op.operands[0].type).elem != result.elem else op.operands[0]
    for name, how in (("offset", "Sub"), ("scale", "Mul")):
        numbers = op.attr(name, None)
        if numbers:
            y = g.one(how, [y, g.constant_of(np.array(numbers, np.float32), result.elem)], result)
    return y
