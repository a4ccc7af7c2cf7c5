"""Runs what other algorithms than the direct sum make of convolutions: kernels of transforms, and the passes.

Winograd's and Fourier's kernels are a step by itself, or all steps in one: each is given by the name that its ops begin
with ("winograd", "fft") and their attributes as text.
"""

from collections.abc import Sequence

import numpy as np
from mlir import ir

from onnxc.dialects import onnx
from onnxc.dialects.weights import WeightStore
from onnxc.passes.contract import Options, PassFunction, Program
from onnxc.targets import Target

from .harness import run
from .test_matmul import spell


def spectra_of(name: str, x: np.ndarray, attributes: str, shape: Sequence[int], mcpu: str = "native") -> np.ndarray:
    """What the input's transform makes of x, of this shape."""
    given, made = (f"tensor<{spell(s)}>" for s in (x.shape, shape))
    (result,) = run(
        f"""func.func private @k(%x: {given}) -> {made}
        attributes {{kernel.kind = "{name}_input", kernel.root = "kernel.{name}_input"}} {{
      %0 = "kernel.{name}_input"(%x) {{{attributes}}} : ({given}) -> {made}
      return %0 : {made} }}""",
        x,
        mcpu=mcpu,
    )
    return result


def result_of(
    name: str, products: np.ndarray, bias: np.ndarray, attributes: str, shape: Sequence[int], mcpu: str = "native"
) -> np.ndarray:
    """What the output's transform makes of the products' spectra and the bias, then Relu, of this shape."""
    given, added, made = (f"tensor<{spell(s)}>" for s in (products.shape, bias.shape, shape))
    (result,) = run(
        f"""func.func private @k(%p: {given}, %b: {added}) -> {made}
        attributes {{kernel.kind = "{name}_output", kernel.root = "kernel.{name}_output"}} {{
      %0 = "kernel.{name}_output"(%p, %b) {{{attributes}}} : ({given}, {added}) -> {made}
      %1 = "onnx.Relu"(%0) : ({made}) -> {made}
      return %1 : {made} }}""",
        products,
        bias,
        mcpu=mcpu,
    )
    return result


def all_in_one(
    name: str, operands: Sequence[np.ndarray], scratch_shape: Sequence[int], attributes: str, shape: Sequence[int]
) -> np.ndarray:
    """The kernel of all steps on (x, transformed weights, bias), then Relu; its scratch begins as no numbers."""
    x, u, bias = operands
    inputs = (x, u, np.full(scratch_shape, np.nan, np.float32), bias)
    types, made = [f"tensor<{spell(v.shape)}>" for v in inputs], f"tensor<{spell(shape)}>"
    (result,) = run(
        f"""func.func private @k({", ".join(f"%a{i}: {t}" for i, t in enumerate(types))}) -> {made}
        attributes {{kernel.kind = "{name}", kernel.root = "kernel.{name}"}} {{
      %0 = "kernel.{name}"(%a0, %a1, %a2, %a3) {{{attributes}}} : ({", ".join(types)}) -> {made}
      %1 = "onnx.Relu"(%0) : ({made}) -> {made}
      return %1 : {made} }}""",
        *inputs,
        constants=(1, 3),
    )
    return result


def after_pass(
    apply: PassFunction,
    text: str,
    weights: np.ndarray,
    target: Target,
    strict: bool = False,
    stored: Sequence[str] = (),
) -> tuple[str, WeightStore, list]:
    """The pass's module as text, the weights, of which "w" is there before, and the log.

    `stored`: what other variants have made of "w"."""
    store = WeightStore()
    store.add(weights, "w")
    with onnx.new_context(), ir.Location.unknown():
        program = Program(ir.Module.parse(text), store, Options(target=target, verify=True, strict=strict))
        for name in stored:
            program.parts.note_transform("w", name)
        apply(program)
        return str(program.module), store, program.log
