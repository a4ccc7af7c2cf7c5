"""This file infers shapes of element-wise operators: tables of names, and the few that are special."""

from __future__ import annotations

from onnxc.dialects.shapes.broadcasting import broadcast_shapes
from onnxc.dialects.shapes.registry import IllegalShape, ShapeContext, infers
from onnxc.dialects.types import Tensor

UNARY = (
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "BitwiseNot", "Ceil", "Celu", "Cos", "Cosh",
    "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid", "HardSwish", "Identity", "LeakyRelu", "Log",
    "Mish", "Neg", "Not", "Reciprocal", "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign",
    "Sin", "Sinh", "Softplus", "Softsign", "Sqrt", "Swish", "Tan", "Tanh", "ThresholdedRelu",
    "microsoft.Gelu", "microsoft.FastGelu", "microsoft.QuickGelu",
)  # fmt: skip
ARITHMETIC = ["Add", "BitShift", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "Div", "Mod", "Mul", "PRelu", "Pow", "Sub"]
LOGIC = ["And", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Or", "Xor"]
VARIADIC = ["Max", "Mean", "Min", "Sum"]


@infers(*UNARY)
def unary(c: ShapeContext) -> list[Tensor]:
    return [c.tensor(0)]


@infers("Softmax", "LogSoftmax", "Hardmax")
def along_axis(c: ShapeContext) -> list[Tensor]:
    c.axis(c.attr("axis", -1), len(c.shape(0)))
    return [c.tensor(0)]


@infers("IsNaN", "IsInf")
def predicate(c: ShapeContext) -> list[Tensor]:
    return [c.tensor(0).of_elem("i1")]


@infers(*ARITHMETIC)
def arithmetic(c: ShapeContext) -> list[Tensor]:
    a, b = c.tensor(0), c.tensor(1)
    return [a if a.shape == b.shape else a.of_shape(broadcast_shapes(c, a.dims, b.dims))]


@infers(*LOGIC)
def logic(c: ShapeContext) -> list[Tensor]:
    return [Tensor("i1", broadcast_shapes(c, c.shape(0), c.shape(1)))]


@infers(*VARIADIC)
def variadic(c: ShapeContext) -> list[Tensor]:
    return [Tensor(c.elem(0), broadcast_shapes(c, *(c.shape(i) for i in range(len(c.types)))))]


@infers("Where")
def where(c: ShapeContext) -> list[Tensor]:
    return [Tensor(c.elem(1), broadcast_shapes(c, c.shape(0), c.shape(1), c.shape(2)))]


@infers("Clip")
def clip(c: ShapeContext) -> list[Tensor]:
    for index in (1, 2):
        if c.has(index) and c.tensor(index).numel != 1:
            raise IllegalShape(f"operand {index} must be a scalar")
    return [c.tensor(0)]


@infers("Cast", "BitCast")
def cast(c: ShapeContext) -> list[Tensor]:
    return [c.tensor(0).of_elem(c.element("to"))]


@infers("CastLike")
def cast_like(c: ShapeContext) -> list[Tensor]:
    return [c.tensor(0).of_elem(c.elem(1))]


@infers("Dropout")
def dropout(c: ShapeContext) -> list[Tensor]:
    return [c.tensor(0), c.tensor(0).of_elem("i1")]


@infers("microsoft.BiasGelu")
def bias_gelu(c: ShapeContext) -> list[Tensor]:
    return [Tensor(c.elem(0), broadcast_shapes(c, c.shape(0), c.shape(1)))]
