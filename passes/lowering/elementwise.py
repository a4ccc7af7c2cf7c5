"""Element-wise arithmetic and activations: a result element from the operands' elements."""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith, math

from onnxc.dialects.types import Tensor
from onnxc.passes import maths
from onnxc.passes.kernels import scalars
from onnxc.passes.kernels.remainder import remainder
from onnxc.passes.kernels.scalars import constant_like, is_unsigned
from onnxc.passes.lowering.registry import ELEMENTWISE, HALVES, Element, elementwise

LARGEST = {"f16": 65504.0, "f32": 3.4028234663852886e38, "f64": 1.7976931348623157e308}


def _binary(f):
    return lambda e, a, b: f(a, b)


def _binary_signed(f):
    return lambda e, a, b: f(a, b, is_unsigned(e.elem))


def _nary(f):
    def fold(e: Element, first: ir.Value, *rest: ir.Value) -> ir.Value:
        for v in rest:
            first = f(e, first, v)
        return first

    return fold


for _name, _f in {
    "Add": _binary(scalars.add),
    "Sub": _binary(scalars.sub),
    "Mul": _binary(scalars.mul),
    "Div": _binary_signed(scalars.div),
}.items():
    ELEMENTWISE[_name] = _f
for _name, _f in {
    "Sum": _binary(scalars.add),
    "Max": _binary_signed(scalars.maximum),
    "Min": _binary_signed(scalars.minimum),
}.items():
    ELEMENTWISE[_name] = _nary(_f)


def _unary(f):
    return lambda e, x: f(x)


for _name, _f in {
    "Exp": maths.exp,
    "Log": maths.log,
    "Tanh": maths.tanh,
    "Erf": maths.erf,
    "Sigmoid": maths.sigmoid,
    "Sin": maths.sin,
    "Cos": maths.cos,
    "Tan": maths.tan,
    "Asin": maths.asin,
    "Acos": maths.acos,
    "Atan": maths.atan,
    "Sinh": maths.sinh,
    "Cosh": maths.cosh,
    "Asinh": maths.asinh,
    "Acosh": maths.acosh,
    "Atanh": maths.atanh,
    "Softplus": maths.softplus,
    "Mish": maths.mish,
    "Sqrt": math.sqrt,
    "Floor": math.floor,
    "Ceil": math.ceil,
    "Round": math.roundeven,
    "Reciprocal": lambda x: arith.divf(constant_like(1, x), x),
    "Softsign": lambda x: arith.divf(x, arith.addf(constant_like(1, x), math.absf(x))),
}.items():
    ELEMENTWISE[_name] = _unary(_f)


@elementwise("Identity")
def identity(e: Element, x: ir.Value) -> ir.Value:
    return x


@elementwise("Cast")
def cast(e: Element, x: ir.Value) -> ir.Value:
    return scalars.cast(x, e.elem, e.result)


@elementwise("Neg")
def neg(e: Element, x: ir.Value) -> ir.Value:
    return scalars.neg(x)


@elementwise("Abs")
def absolute(e: Element, x: ir.Value) -> ir.Value:
    if scalars.floats(x):
        return math.absf(x)
    return x if is_unsigned(e.elem) else scalars.select(scalars.compare(x, "<", constant_like(0, x)), scalars.neg(x), x)


@elementwise("Sign")
def sign(e: Element, x: ir.Value) -> ir.Value:
    zero, one = constant_like(0, x), constant_like(1, x)
    if is_unsigned(e.elem):
        return scalars.select(scalars.compare(x, "!=", zero), one, zero)
    negative = scalars.select(scalars.compare(x, "<", zero), constant_like(-1, x), x if scalars.floats(x) else zero)
    return scalars.select(scalars.compare(x, ">", zero), one, negative)  # ±0 and NaN are kept


@elementwise("Relu")
def relu(e: Element, x: ir.Value) -> ir.Value:
    zero = constant_like(0, x)
    return scalars.select(scalars.compare(x, "<", zero), zero, x)  # NaN stays


@elementwise("LeakyRelu")
def leaky_relu(e: Element, x: ir.Value) -> ir.Value:
    return scalars.select(
        scalars.compare(x, "<", constant_like(0, x)), scalars.mul(x, constant_like(e.attr("alpha"), x)), x
    )


@elementwise("PRelu")
def prelu(e: Element, x: ir.Value, slope: ir.Value) -> ir.Value:
    return scalars.select(scalars.compare(x, "<", constant_like(0, x)), scalars.mul(x, slope), x)


@elementwise("ThresholdedRelu")
def thresholded_relu(e: Element, x: ir.Value) -> ir.Value:
    return scalars.select(scalars.compare(x, ">", constant_like(e.attr("alpha"), x)), x, constant_like(0, x))


@elementwise("Shrink")
def shrink(e: Element, x: ir.Value) -> ir.Value:
    """Towards 0 by the bias beyond ±lambd, 0 between."""
    lambd, bias = e.attr("lambd"), e.attr("bias")
    below = scalars.select(
        scalars.compare(x, "<", constant_like(-lambd, x)), scalars.add(x, constant_like(bias, x)), constant_like(0, x)
    )
    return scalars.select(
        scalars.compare(x, ">", constant_like(lambd, x)), scalars.sub(x, constant_like(bias, x)), below
    )


@elementwise("Elu", "Celu", "Selu")
def elu(e: Element, x: ir.Value) -> ir.Value:
    alpha = constant_like(e.attr("alpha"), x)
    scaled = arith.divf(x, alpha) if e.op.name == "Celu" else x
    below = arith.mulf(alpha, maths.expm1(scaled))
    y = scalars.select(scalars.compare(x, "<", constant_like(0, x)), below, x)
    return arith.mulf(constant_like(e.attr("gamma"), x), y) if e.op.name == "Selu" else y


@elementwise("Swish", "microsoft.QuickGelu")
def swish(e: Element, x: ir.Value) -> ir.Value:
    return maths.swish(x, alpha=e.attr("alpha"))


@elementwise("Gelu", "microsoft.Gelu")
def gelu(e: Element, x: ir.Value) -> ir.Value:
    tanh_form = e.op.name == "Gelu" and e.attr("approximate", "none") == "tanh"
    return maths.gelu_tanh(x) if tanh_form else maths.gelu(x)


@elementwise("HardSigmoid")
def hard_sigmoid(e: Element, x: ir.Value) -> ir.Value:
    y = arith.addf(arith.mulf(constant_like(e.attr("alpha"), x), x), constant_like(e.attr("beta"), x))
    return _clamp(y, constant_like(0, x), constant_like(1, x))


@elementwise("HardSwish")
def hard_swish(e: Element, x: ir.Value) -> ir.Value:
    y = arith.addf(arith.mulf(constant_like(1 / 6, x), x), constant_like(0.5, x))
    return arith.mulf(x, _clamp(y, constant_like(0, x), constant_like(1, x)))


@elementwise("Clip")
def clip(e: Element, x: ir.Value, low: ir.Value | None = None, high: ir.Value | None = None) -> ir.Value:
    largest = LARGEST.get(e.elem)
    if largest is not None:  # a limit that is not given is the largest finite number
        low = constant_like(-largest, x) if low is None else low
        high = constant_like(largest, x) if high is None else high
    return _clamp(x, low, high, is_unsigned(e.elem))  # low > high gives high, as the standard says


def _clamp(x: ir.Value, low: ir.Value | None, high: ir.Value | None, unsigned: bool = False) -> ir.Value:
    """min(max(x, low), high) where a NaN x stays NaN."""
    if low is not None:
        x = scalars.select(scalars.compare(x, "<", low, unsigned), low, x)
    if high is not None:
        x = scalars.select(scalars.compare(x, ">", high, unsigned), high, x)
    return x


@elementwise("Pow")
def power(e: Element, x: ir.Value, exponent: ir.Value) -> ir.Value:
    exponent_elem = _operand_elem(e, 1)
    if not scalars.is_float(e.elem):
        wide = scalars.cast(x, e.elem, "f64")
        return scalars.cast(maths.pow(wide, scalars.cast(exponent, exponent_elem, "f64")), "f64", e.elem)
    return maths.pow(x, scalars.cast(exponent, exponent_elem, e.elem))


@elementwise("Mod")
def mod(e: Element, a: ir.Value, b: ir.Value) -> ir.Value:
    rest = remainder(a, b, e.elem) if scalars.floats(a) else scalars.rem(a, b, is_unsigned(e.elem))
    if e.attr("fmod") or is_unsigned(e.elem):
        return rest
    zero = constant_like(0, rest)  # the sign of the divisor
    opposite = arith.xori(scalars.compare(rest, "<", zero), scalars.compare(b, "<", zero))
    differs = arith.andi(scalars.compare(rest, "!=", zero), opposite)
    moved = scalars.select(differs, scalars.add(rest, b), rest)
    if not scalars.floats(a):
        return moved
    return scalars.select(scalars.compare(rest, "==", zero), math.copysign(zero, b), moved)


@elementwise("Mean")
def mean(e: Element, *operands: ir.Value) -> ir.Value:
    total = operands[0]
    for v in operands[1:]:
        total = scalars.add(total, v)
    return arith.divf(total, constant_like(len(operands), total))


@elementwise("CastLike")
def cast_like(e: Element, x: ir.Value, _like: ir.Value) -> ir.Value:
    return scalars.cast(x, e.elem, e.result)


def _operand_elem(e: Element, position: int) -> str:
    elem = Tensor.of(e.op.operands[position].type).elem
    return "f32" if elem in HALVES else elem  # halves come widened
