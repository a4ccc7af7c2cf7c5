"""The activations of recurrent cells, by ONNX's names, with their default parameters."""

from __future__ import annotations

from collections.abc import Callable

from mlir import ir
from mlir.dialects import arith, math

from onnxc.dialects.onnx import OnnxOp
from onnxc.passes import maths
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels import scalars
from onnxc.passes.kernels.scalars import constant_like

Activation = Callable[[ir.Value, float, float], ir.Value]

PER_DIRECTION = {"LSTM": 3, "GRU": 2, "RNN": 1}
COUNT = {"LSTM": 4, "GRU": 3, "RNN": 1}
# the gates whose products each round of a step makes: GRU's last one needs r of all hidden units
ROUNDS = {"LSTM": (4,), "GRU": (2, 1), "RNN": (1,)}
# alpha and beta where the model gives none
DEFAULTS = {
    "LeakyRelu": (0.01, 0.0),
    "ThresholdedRelu": (1.0, 0.0),
    "HardSigmoid": (0.2, 0.5),
    "Elu": (1.0, 0.0),
    "Affine": (1.0, 0.0),
    "ScaledTanh": (1.0, 1.0),
}


def _below_zero(x: ir.Value, negative: ir.Value, positive: ir.Value) -> ir.Value:
    return scalars.select(scalars.compare(x, "<", constant_like(0, x)), negative, positive)


def _hard_sigmoid(x: ir.Value, alpha: float, beta: float) -> ir.Value:
    y = arith.addf(arith.mulf(constant_like(alpha, x), x), constant_like(beta, x))
    y = _below_zero(y, constant_like(0, x), y)
    return scalars.select(scalars.compare(y, ">", constant_like(1, x)), constant_like(1, x), y)


ACTIVATIONS: dict[str, Activation] = {
    "Sigmoid": lambda x, a, b: maths.sigmoid(x),
    "Tanh": lambda x, a, b: maths.tanh(x),
    "Relu": lambda x, a, b: _below_zero(x, constant_like(0, x), x),
    "Affine": lambda x, a, b: arith.addf(arith.mulf(constant_like(a, x), x), constant_like(b, x)),
    "LeakyRelu": lambda x, a, b: _below_zero(x, arith.mulf(constant_like(a, x), x), x),
    "ThresholdedRelu": lambda x, a, b: scalars.select(
        scalars.compare(x, ">=", constant_like(a, x)), x, constant_like(0, x)
    ),
    "ScaledTanh": lambda x, a, b: arith.mulf(constant_like(a, x), maths.tanh(arith.mulf(constant_like(b, x), x))),
    "HardSigmoid": _hard_sigmoid,
    "Elu": lambda x, a, b: _below_zero(x, arith.mulf(constant_like(a, x), maths.expm1(x)), x),
    "Softsign": lambda x, a, b: arith.divf(x, arith.addf(constant_like(1, x), math.absf(x))),
    "Softplus": lambda x, a, b: maths.softplus(x),
}


class Gates:
    """The activations of one kernel.recurrent: f, g and h of each direction."""

    def __init__(self, root: OnnxOp):
        attributes = root.op.attributes
        self.cell = ir.StringAttr(attributes["cell"]).value
        self.count = COUNT[self.cell]
        self.directions = ir.IntegerAttr(attributes["directions"]).value
        self.clip = ir.FloatAttr(attributes["clip"]).value if "clip" in attributes else None
        names = [ir.StringAttr(a).value for a in ir.ArrayAttr(attributes["activations"])]
        alphas = list(ir.DenseF32ArrayAttr(attributes["activation_alpha"]))
        betas = list(ir.DenseF32ArrayAttr(attributes["activation_beta"]))
        self.functions = [self._parameters(name, alphas, betas) for name in names]

    def _parameters(self, name: str, alphas: list[float], betas: list[float]) -> tuple[Activation, float, float]:
        """Given parameters are consumed in order by the activations that have any."""
        known = next((n for n in ACTIVATIONS if n.lower() == name.lower()), name)
        alpha, beta = DEFAULTS.get(known, (0.0, 0.0))
        if known in DEFAULTS and alphas:
            alpha = alphas.pop(0)
        if known in ("Affine", "HardSigmoid", "ScaledTanh") and betas:
            beta = betas.pop(0)
        return ACTIVATIONS[known], alpha, beta

    def apply(self, direction: im.Index, which: int, x: ir.Value, clip: bool = True) -> ir.Value:
        """Activation `which` of the direction (both are computed and one chosen where they differ)."""
        if clip and self.clip is not None:
            low, high = constant_like(-self.clip, x), constant_like(self.clip, x)
            x = scalars.select(scalars.compare(x, "<", low), low, x)
            x = scalars.select(scalars.compare(x, ">", high), high, x)
        n = PER_DIRECTION[self.cell]
        forward = self.functions[which]
        backward = self.functions[n + which] if self.directions == 2 else forward
        y = forward[0](x, *forward[1:])
        if backward == forward:
            return y
        return arith.select(im.compare(direction, "==", 0), y, backward[0](x, *backward[1:]))
