"""Schedules that the heuristic does not choose: what the rules accept gives the same bits, the rest says why not."""

from __future__ import annotations

import random

import numpy as np
import pytest
from mlir import ir

from onnxc.dialects import onnx
from onnxc.passes import lowering  # noqa: F401  (fills the tables)
from onnxc.passes.kernels.kernel_function import KernelFunction
from onnxc.passes.kernels.kinds import KINDS
from onnxc.passes.kernels.schedule_rules import refusal
from onnxc.targets import target_for

from ..kernels.harness import compile_kernel

MATMUL = """
func.func private @k(%x: tensor<{m}x{k}xf32>, %w: tensor<{k}x{n}xf32>, %b: tensor<{n}xf32>) -> tensor<{m}x{n}xf32>
    attributes {{kernel.kind = "matmul", kernel.root = "onnx.MatMul"}} {{
  %0 = "onnx.MatMul"(%x, %w) : (tensor<{m}x{k}xf32>, tensor<{k}x{n}xf32>) -> tensor<{m}x{n}xf32>
  %1 = "onnx.Add"(%0, %b) : (tensor<{m}x{n}xf32>, tensor<{n}xf32>) -> tensor<{m}x{n}xf32>
  return %1 : tensor<{m}x{n}xf32>
}}"""
CONV = """
func.func private @k(%x: tensor<1x{h}x{h}x{c}xf32>, %w: tensor<3x3x{f}xf32>) -> tensor<1x{h}x{h}x{m}xf32>
    attributes {{kernel.kind = "conv", kernel.root = "kernel.conv"}} {{
  %0 = "kernel.conv"(%x, %w) {{dilations = array<i64: 1, 1>, group = {g} : i64, pads = array<i64: 1, 1, 1, 1>,
    strides = array<i64: 1, 1>}} : (tensor<1x{h}x{h}x{c}xf32>, tensor<3x3x{f}xf32>) -> tensor<1x{h}x{h}x{m}xf32>
  return %0 : tensor<1x{h}x{h}x{m}xf32>
}}"""
PLANES = """
func.func private @k(%x: tensor<1x3x18x50xf32>, %w: tensor<8x3x3x3xf32>) -> tensor<1x8x18x50xf32>
    attributes {kernel.kind = "conv_planes", kernel.root = "kernel.conv_planes"} {
  %0 = "kernel.conv_planes"(%x, %w) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 1, 1, 1, 1>,
    strides = array<i64: 1, 1>} : (tensor<1x3x18x50xf32>, tensor<8x3x3x3xf32>) -> tensor<1x8x18x50xf32>
  return %0 : tensor<1x8x18x50xf32>
}"""
GELU = """
func.func private @k(%x: tensor<19x70xf32>, %w: tensor<70x37xf32>) -> tensor<19x37xf32>
    attributes {kernel.kind = "matmul", kernel.root = "onnx.MatMul"} {
  %0 = "onnx.MatMul"(%x, %w) : (tensor<19x70xf32>, tensor<70x37xf32>) -> tensor<19x37xf32>
  %1 = "onnx.Gelu"(%0) : (tensor<19x37xf32>) -> tensor<19x37xf32>
  return %1 : tensor<19x37xf32>
}"""
SWISH = """
func.func private @k(%x: tensor<1x7x7x20xf32>, %w: tensor<1x1x20x24xf32>, %b: tensor<1x7x1x24xf32>)
    -> tensor<1x7x7x24xf32> attributes {kernel.kind = "conv", kernel.root = "kernel.conv"} {
  %0 = "kernel.conv"(%x, %w) {dilations = array<i64: 1, 1>, group = 1 : i64, pads = array<i64: 0, 0, 0, 0>,
    strides = array<i64: 1, 1>} : (tensor<1x7x7x20xf32>, tensor<1x1x20x24xf32>) -> tensor<1x7x7x24xf32>
  %1 = "onnx.Sigmoid"(%0) : (tensor<1x7x7x24xf32>) -> tensor<1x7x7x24xf32>
  %2 = "onnx.Mul"(%0, %1) : (tensor<1x7x7x24xf32>, tensor<1x7x7x24xf32>) -> tensor<1x7x7x24xf32>
  %3 = "onnx.Add"(%2, %b) : (tensor<1x7x7x24xf32>, tensor<1x7x1x24xf32>) -> tensor<1x7x7x24xf32>
  return %3 : tensor<1x7x7x24xf32>
}"""
KERNELS = {  # name → (text, shapes of the operands)
    "matmul": (MATMUL.format(m=19, k=70, n=37), [(19, 70), (70, 37), (37,)]),
    "deep": (MATMUL.format(m=7, k=1100, n=40), [(7, 1100), (1100, 40), (40,)]),
    "conv": (CONV.format(h=7, c=20, f="20x24", m=24, g=1), [(1, 7, 7, 20), (3, 3, 20, 24)]),
    "groups": (CONV.format(h=7, c=40, f="20x48", m=48, g=2), [(1, 7, 7, 40), (3, 3, 20, 48)]),
    "gelu": (GELU, [(19, 70), (70, 37)]),
    "swish": (SWISH, [(1, 7, 7, 20), (1, 1, 20, 24), (1, 7, 1, 24)]),
    "patch": (CONV.format(h=9, c=3, f="3x20", m=20, g=1), [(1, 9, 9, 3), (3, 3, 3, 20)]),
    "depthwise": (CONV.format(h=9, c=24, f="1x24", m=24, g=24), [(1, 9, 9, 24), (3, 3, 1, 24)]),
    "planes": (PLANES, [(1, 3, 18, 50), (8, 3, 3, 3)]),
}
VALUES = {"rows": range(1, 15), "vectors": range(1, 7), "lanes": (4, 8, 16), "group": (1, 2, 5), "packed": (0, 1),
          "prefetch": (0, 1, 16), "chunk": (0, 512, 1024), "copied": (0, 1), "pixels": range(1, 12),
          "run": (4, 9, 16, 32, 50), "deep": (1, 2, 4, 16)}  # fmt: skip
LOOPS = {"unroll": (1, 2, 4), "order": ("rows", "columns"), "apart": (0, 1)}  # of those with `prefetch`


def judge(text: str, change: dict, constants=(1,), mcpu: str = "native") -> str | None:
    """What the rules say of the heuristic's schedule with some entries changed (None: without the entry)."""
    target = target_for(mcpu)
    with onnx.new_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        function = module.body.operations[0]
        function.attributes["kernel.constants"] = ir.DenseI64ArrayAttr.get(list(constants))
        kernel = KernelFunction.of(function)
        schedule = {**KINDS[kernel.kind].choose(kernel, target), **change}
        return refusal(kernel, {k: v for k, v in schedule.items() if v is not None}, target)


@pytest.mark.parametrize("name", KERNELS)
def test_what_is_accepted_gives_the_same_bits(name: str) -> None:
    text, shapes = KERNELS[name]
    rng, dice = np.random.default_rng(1), random.Random(name)
    inputs = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    plain = compile_kernel(text, constants={1})
    (expected,) = plain(*inputs)
    tried = 0
    while tried < 4:
        values = VALUES | (LOOPS if "prefetch" in plain.schedule else {})
        change = {k: dice.choice(values[k]) for k in values if k in plain.schedule or k in LOOPS}
        if judge(text, change) is None:
            tried += 1
            (result,) = compile_kernel(text, constants={1}, schedule=change)(*inputs)
            assert result.tobytes() == expected.tobytes(), change


@pytest.mark.parametrize(
    ("name", "change", "why"),
    [
        ("matmul", {}, None),
        ("matmul", {"rows": 2, "vectors": 2}, None),
        ("matmul", {"tiles": 3}, "no entry 'tiles'"),
        ("matmul", {"group": None}, "the entry 'group' is missing"),
        ("matmul", {"rows": 14, "vectors": 4}, "does not fit into 32 registers"),
        ("matmul", {"rows": 0}, "rows = 0"),
        ("matmul", {"rows": "six"}, "is no number"),
        ("matmul", {"lanes": 32}, "lanes = 32"),
        ("matmul", {"lanes": 1}, "lanes = 1"),
        ("deep", {"chunk": 700}, "chunk = 700"),
        ("deep", {"chunk": 512, "group": 1 << 12}, "too large for the stack"),
        ("deep", {"chunk": 512, "group": None}, "the entry 'group' is missing"),
        ("deep", {"chunk": 512, "group": "six"}, "group = 'six' is no number"),
        ("matmul", {"packed": 0, "copied": 1}, None),
        ("matmul", {"packed": 1, "copied": 1}, "copied = 1"),
        ("matmul", {"unroll": 4, "order": "columns", "apart": 1}, None),
        ("matmul", {"unroll": 3}, "unroll = 3 is not possible"),
        ("matmul", {"order": "diagonal"}, "order = diagonal is not possible"),
        ("conv", {"apart": 2}, "apart = 2 is not possible"),
        ("depthwise", {"unroll": 2}, "no entry 'unroll'"),
        ("conv", {"algorithm": "fancy"}, "the algorithm 'fancy' is not possible here"),
        ("conv", {"algorithm": "depthwise"}, "is for one channel and one filter a group"),
        ("conv", {"algorithm": "patch", "run": 8}, "is for few channels"),
        ("conv", {"prefetch": -1}, "prefetch = -1"),
        ("patch", {"run": 10**6}, "too large for the stack"),
        ("depthwise", {"pixels": 40}, "pixels = 40"),
        ("planes", {"run": 48, "deep": 17}, "deep = 17"),
        ("planes", {"run": 30}, "neither whole vectors nor a whole row"),
    ],
)  # fmt: skip
def test_refusals(name: str, change: dict, why: str | None) -> None:
    said = judge(KERNELS[name][0], change, mcpu="x86-64-v4")
    assert said is None if why is None else why in said


def test_weights_that_are_computed_cannot_be_packed() -> None:
    assert "packed = 1" in judge(KERNELS["conv"][0], {"packed": 1}, constants=())


def test_a_narrower_machine_has_fewer_registers() -> None:
    assert "16 registers" in judge(KERNELS["matmul"][0], {"rows": 12, "vectors": 2, "lanes": 8}, mcpu="x86-64-v3")


def test_other_loops_are_candidates() -> None:
    """Steps of several terms, panels outermost, and a long epilogue by itself with tiles as large as without it."""
    target = target_for("x86-64-v4")
    for name in ("gelu", "swish", "deep"):
        with onnx.new_context(), ir.Location.unknown():
            module = ir.Module.parse(KERNELS[name][0])
            function = module.body.operations[0]
            function.attributes["kernel.constants"] = ir.DenseI64ArrayAttr.get([1])
            kernel = KernelFunction.of(function)
            first, *others = KINDS[kernel.kind].candidates(kernel, target)
            assert set(LOOPS) & set(first) == {"unroll"}
            assert {s.get("unroll") for s in others} >= {1, 4}
            assert all(refusal(kernel, s, target) is None for s in others)
            tiles = [s["rows"] * s["vectors"] for s in others if s.get("apart")]
            assert tiles and (name == "deep" or first["rows"] * first["vectors"] <= 16 < max(tiles))
