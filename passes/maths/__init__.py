"""This package emits elementary functions as arith and math ops that need no libm.

Each function takes and returns `ir.Value`s of f32 or f64, scalar or fixed vector (all operands of one type), and emits
at the current insertion point and location. Scalars and vectors get the same ops, hence the same bits. Without hardware
FMA `math.fma` must be lowered by the caller's pipeline. f16 and bf16: callers compute in f32.
"""

from __future__ import annotations

from collections.abc import Callable

from mlir import ir

from onnxc.passes.maths import activations as _activations
from onnxc.passes.maths import erf as _erf
from onnxc.passes.maths import exp as _exp
from onnxc.passes.maths import hyperbolic as _hyperbolic
from onnxc.passes.maths import inverse_trigonometric as _inverse
from onnxc.passes.maths import log as _log
from onnxc.passes.maths import power as _power
from onnxc.passes.maths import trigonometric as _trigonometric
from onnxc.passes.maths.lanes import Lanes


def _on_values(function: Callable[..., Lanes]) -> Callable[..., ir.Value]:
    """The same function from `ir.Value`s to an `ir.Value`."""

    def emit(*operands: ir.Value, **parameters: float) -> ir.Value:
        return function(*map(Lanes, operands), **parameters).value

    emit.__name__, emit.__doc__ = function.__name__, function.__doc__
    return emit


exp = _on_values(_exp.exp)
exp_flushed = _on_values(_exp.exp_flushed)
exp_of_decay = _on_values(_exp.exp_of_decay)
expm1 = _on_values(_exp.expm1)
log = _on_values(_log.log)
log1p = _on_values(_log.log1p)
pow = _on_values(_power.pow)
rsqrt = _on_values(_power.rsqrt)

sigmoid = _on_values(_activations.sigmoid)
swish = _on_values(_activations.swish)
tanh = _on_values(_activations.tanh)
mish = _on_values(_activations.mish)
softplus = _on_values(_log.softplus)
erf = _on_values(_erf.erf)
gelu = _on_values(_erf.gelu)
gelu_tanh = _on_values(_activations.gelu_tanh)

sin = _on_values(_trigonometric.sin)
cos = _on_values(_trigonometric.cos)
tan = _on_values(_trigonometric.tan)
asin = _on_values(_inverse.asin)
acos = _on_values(_inverse.acos)
atan = _on_values(_inverse.atan)
sinh = _on_values(_hyperbolic.sinh)
cosh = _on_values(_hyperbolic.cosh)
asinh = _on_values(_hyperbolic.asinh)
acosh = _on_values(_hyperbolic.acosh)
atanh = _on_values(_hyperbolic.atanh)
