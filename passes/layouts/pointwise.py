"""Element-wise ops, with broadcasting: they run in any order that their big operands have."""

from __future__ import annotations

from onnxc.dialects.onnx import OnnxOp
from onnxc.dialects.types import Tensor, is_tensor
from onnxc.passes.layouts.versions import Layouts, carries, native, permuted

UNARY = (
    "Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Cast Ceil Celu Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid "
    "HardSwish IsInf IsNaN LeakyRelu Log Mish Neg Not Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh "
    "Softplus Softsign Sqrt Swish Tan Tanh ThresholdedRelu microsoft.Gelu microsoft.QuickGelu Clip"
)
NARY = (
    "Add Sub Mul Div Pow Mod Min Max Mean Sum Equal Less Greater LessOrEqual GreaterOrEqual And Or Xor Where PRelu "
    "BitwiseAnd BitwiseOr BitwiseXor BitShift"
)


@carries(*UNARY.split(), *NARY.split())
def pointwise(op: OnnxOp, layouts: Layouts) -> bool:
    result = Tensor.of(op.results[0].type)
    if result.shape is None:
        return False
    rank = len(result.shape)
    tensors = [value for value in op.operands if value is not None and is_tensor(value.type)]
    full = [value for value in tensors if Tensor.of(value.type).rank == rank]
    if all(layouts.order(value) is None for value in full):
        return False
    order = layouts.best(full, rank)
    if order == native(rank):
        return False
    operands = [None if value is None else layouts.lift(value, order) for value in op.operands]
    version = layouts.one(op.name, operands, permuted(result, order), layouts.attributes(op))
    layouts.define(op.results[0], order, version)
    return True
