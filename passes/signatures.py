"""Names of computations that do not depend on the model they stand in: equal problems have equal signatures.

    matmul(f32[d0,64], const f32[64,96], const f32[96]) -> f32[d0,96]: MatMul(a0,a1); Add(0,a2); Relu(1)
    kernel.conv(f32[1,56,56,64], const f32[3,3,64,64]) {group=1, pads=[1,1,1,1]} -> f32[1,56,56,64]

Kind, types, constant operands, operators with their attributes and what they read: `aI` is operand I of the kernel, a
number an operator before. Sizes not known are d0, d1 … in order of first sight, with what is known of them, which
schedules may rest on: d0:1..64 lies in a range, d0%32 is a multiple. The numbers in constants, the names of nodes and
what passes noted down for themselves are not part of it.
"""

from __future__ import annotations

from collections.abc import Collection
from math import inf

from mlir import ir

from onnxc.dialects import dims
from onnxc.dialects.onnx import NAMESPACE, OnnxOp, is_constant, python_value
from onnxc.dialects.signatures import signature as operator
from onnxc.dialects.types import Tensor
from onnxc.passes.kernels.kernel_function import KernelFunction

#: attributes that say how to compute, not what
CHOSEN = {"algorithm", "schedule"}
#: attributes of constants, which a schedule does not depend on, and what shape inference noted down
UNNAMED = {"value", "weight", "onnx.result_dims", "operand_values"}


def kernel_signature(kernel: KernelFunction) -> str:
    """The signature of an outlined kernel, before its weights are packed."""
    rename = _Renamed()
    names = {v: f"a{i}" for i, v in enumerate(kernel.operands)}
    operands = [("const " if i in kernel.constants else "") + rename(v.type) for i, v in enumerate(kernel.operands)]
    steps = []
    for number, op in enumerate(kernel.ops):
        read = ",".join(names[v] for v in op.op.operands)
        steps.append(f"{_name(op)}({read}){_attributes(op, {'schedule'})}")
        count = len(op.op.results)
        names.update({r: f"{number}" if count == 1 else f"{number}.{i}" for i, r in enumerate(op.op.results)})
    results = ", ".join(rename(v.type) for v in kernel.results)
    return f"{kernel.kind}({', '.join(operands)}) -> {results}: {'; '.join(steps)}"


def operator_signature(op: OnnxOp) -> str:
    """The signature of a convolution, or attention, at the graph level, whatever will be fused with it."""
    rename = _Renamed()
    operands = [("const " if is_constant(v) else "") + rename(v.type) for v in op.op.operands]
    results = ", ".join(rename(v.type) for v in op.op.results)
    return f"{_name(op)}({', '.join(operands)}){_attributes(op, CHOSEN)} -> {results}"


class _Renamed:
    """Types as text; each distinct size that is not known gets a name of its own."""

    def __init__(self) -> None:
        self.names: dict[dims.Dim, str] = {}

    def __call__(self, type_: ir.Type) -> str:
        if isinstance(type_, ir.NoneType):
            return "none"
        tensor = Tensor.of(type_)
        shape = [str(d) if isinstance(d, int) else self._size(d) for d in tensor.dims]
        return f"{tensor.elem}[{','.join(shape)}]"

    def _size(self, d: dims.Dim) -> str:
        low, high = dims.bounds(d)
        limits = f":{max(0, low):.0f}..{'' if high == inf else f'{high:.0f}'}" if low > 1 or high != inf else ""
        multiple = f"%{dims.divisor(d)}" if dims.divisor(d) > 1 else ""
        return self.names.setdefault(d, f"d{len(self.names)}") + limits + multiple


def _name(op: OnnxOp) -> str:
    return op.op.name.removeprefix(NAMESPACE)


def _attributes(op: OnnxOp, without: Collection[str]) -> str:
    """` {axis=1}`: sorted, without those that say what the operator's schema says anyhow."""
    known = operator(_name(op))
    defaults = {} if known is None else {name: spec.default for name, spec in known.attributes.items()}
    shown = []
    for name in sorted(op.op.attributes):
        if name in UNNAMED or name in without:
            continue
        value = python_value(op.op.attributes[name])
        if name not in defaults or defaults[name] is None or value != defaults[name]:
            shown.append(f"{name}={_text(value)}")
    return f" {{{', '.join(shown)}}}" if shown else ""


def _text(value: object) -> str:
    if isinstance(value, list):
        return f"[{','.join(map(_text, value))}]"
    return f"{value:.9g}" if isinstance(value, float) else str(value)
