"""This file infers shapes of quantising and dequantising."""

from __future__ import annotations

from onnxc.dialects.shapes.broadcasting import broadcast_shapes
from onnxc.dialects.shapes.movement import concatenated
from onnxc.dialects.shapes.registry import ShapeContext, infers
from onnxc.dialects.types import Tensor


@infers("QuantizeLinear")
def quantize_linear(c: ShapeContext) -> list[Tensor]:
    given = c.attr("output_dtype", 0)
    elem = c.elem(2) if c.has(2) else c.element("output_dtype") if given else "ui8"
    return [c.tensor(0).of_elem(elem)]


@infers("DequantizeLinear")
def dequantize_linear(c: ShapeContext) -> list[Tensor]:
    given = c.attr("output_dtype", 0)
    return [c.tensor(0).of_elem(c.element("output_dtype") if given else c.elem(1))]


@infers("DynamicQuantizeLinear")
def dynamic_quantize_linear(c: ShapeContext) -> list[Tensor]:
    return [c.tensor(0).of_elem("ui8"), Tensor("f32", ()), Tensor("ui8", ())]


@infers("microsoft.QLinearAdd", "microsoft.QLinearMul")
def qlinear_binary(c: ShapeContext) -> list[Tensor]:
    return [Tensor(c.elem(0), broadcast_shapes(c, c.shape(0), c.shape(3)))]


@infers("microsoft.QLinearSigmoid", "microsoft.QLinearLeakyRelu")
def qlinear_unary(c: ShapeContext) -> list[Tensor]:
    return [c.tensor(0)]


@infers("microsoft.QLinearGlobalAveragePool")
def qlinear_pool(c: ShapeContext) -> list[Tensor]:
    x = c.shape(0)
    if c.attr("channels_last", 0):
        return [Tensor(c.elem(0), (x[0], *[1] * (len(x) - 2), x[-1]))]
    return [Tensor(c.elem(0), (*x[:2], *[1] * (len(x) - 2)))]


@infers("microsoft.QLinearConcat")
def qlinear_concat(c: ShapeContext) -> list[Tensor]:
    shapes = [c.shape(index) for index in range(2, len(c.types), 3)]
    return [Tensor(c.elem(1), concatenated(c, shapes, c.attr("axis", 0)))]
