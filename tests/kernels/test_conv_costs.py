"""Which algorithm the estimates choose for a convolution, by its shape and the target's core."""

import re
from math import prod

import numpy as np
import pytest
from mlir import ir

from onnxc import targets
from onnxc.cores import CORES
from onnxc.dialects import dims, onnx
from onnxc.dialects.weights import WeightStore
from onnxc.passes import conv_costs
from onnxc.passes.contract import Options, Program
from onnxc.passes.conv_costs import Machine, Shape
from onnxc.passes.kernels.fft_points import FftTile
from onnxc.passes.use_fft import use_fft
from onnxc.passes.use_im2col import use_im2col
from onnxc.passes.use_winograd import use_winograd
from onnxc.targets import cpu_names, target_for

CPUS = [("znver4", "x86_64"), ("emeraldrapids", "x86_64"), ("x86-64-v3", "x86_64"), (None, "aarch64")]

# size, channels, filters, window, stride → what each of CPUS chooses, or all
CHOICES = [
    (("256", "256"), 16, 16, (3, 3), 1, ["winograd4"]),
    (("320", "320"), 8, 8, (3, 3), 1, ["winograd4"]),
    (("320", "320"), 6, 8, (3, 3), 1, ["winograd4", "winograd4", "direct", "winograd4"]),
    (("56", "56"), 64, 64, (3, 3), 1, ["winograd4"]),
    (("7", "7"), 512, 512, (3, 3), 1, ["winograd2"]),
    (("10", "10"), 128, 128, (3, 3), 1, ["winograd4", "winograd2", "winograd4", "winograd4"]),
    (("56", "56"), 64, 256, (1, 1), 1, ["direct"]),
    (("256", "256"), 3, 16, (3, 3), 1, ["direct"]),
    (("28", "28"), 128, 256, (3, 3), 2, ["direct"]),
    (("28", "28"), 64, 64, (7, 7), 1, ["fft"]),
    (("7", "7"), 64, 64, (5, 5), 1, ["fft", "direct", "fft", "fft"]),
    (("1000",), 128, 128, (11,), 1, ["fft"]),
    (("64", "64"), 3, 64, (15, 15), 2, ["im2col"]),
    (("h", "w"), 64, 64, (3, 3), 1, ["winograd4"]),
    (("h//32", "w//32"), 64, 64, (3, 3), 1, ["winograd4", "winograd4", "winograd2", "winograd4"]),
    (("h//128", "w//128"), 64, 64, (3, 3), 1, ["direct"]),
    (("h", "w"), 32, 64, (5, 5), 1, ["fft"]),
    (("t",), 128, 128, (11,), 1, ["fft"]),
]


def program_of(size, channels, filters, window, stride, target, strict=False) -> Program:
    """A convolution of one image with padding that keeps its size (before strides), channels last."""
    extents = [int(d) if d.isdecimal() else dims.parse(d) for d in size]
    result = [-(-d // stride) if isinstance(d, int) else dims.floordiv(d + (stride - 1), stride) for d in extents]
    weights = WeightStore()
    weights.add(np.zeros((*window, channels, filters), np.float32), "w")
    rank = len(size)

    def tensor(shape) -> str:
        text = "x".join(str(d) if isinstance(d, int) else "?" for d in shape)
        known = ", ".join(str(d) if isinstance(d, int) else f'"{d}"' for d in shape)
        return f"tensor<{text}xf32" + (f", [{known}]>" if "?" in text else ">")

    x, y, w = tensor((1, *extents, channels)), tensor((1, *result, filters)), tensor((*window, channels, filters))
    numbers = {"strides": [stride] * rank, "dilations": [1] * rank, "pads": [*(k // 2 for k in window)] * 2}
    given = ", ".join(f"{name} = array<i64: {', '.join(map(str, values))}>" for name, values in numbers.items())
    text = f"""func.func @main(%x: {x}) -> {y} {{
      %w = "onnx.Constant"() {{weight = "w"}} : () -> {w}
      %0 = "kernel.conv"(%x, %w) {{{given}, group = 1 : i64}} : ({x}, {w}) -> {y}
      return %0 : {y} }}"""
    return Program(ir.Module.parse(text), weights, Options(target=target, strict=strict))


def choice(*shape, **options) -> str:
    with onnx.new_context(), ir.Location.unknown():
        program = program_of(*shape, **options)
        for convert in (use_winograd, use_fft, use_im2col):
            convert(program)
        log = [(name.removeprefix("use_"), text) for name, text in program.log if name.startswith("use_")]
        return next((name + (re.findall(r"F\((\d)", text) or [""])[0] for name, text in log), "direct")


@pytest.mark.parametrize("size, channels, filters, window, stride, expected", CHOICES)
def test_choices(size, channels, filters, window, stride, expected):
    made = [choice(size, channels, filters, window, stride, target=target_for(*cpu)) for cpu in CPUS]
    assert made == (expected if len(expected) > 1 else expected * len(CPUS))


@pytest.mark.parametrize("size, window", [(("256", "256"), (3, 3)), (("h", "w"), (3, 3)), (("h", "w"), (7, 7))])
def test_strict_leaves_the_sum_as_it_is(size, window):
    assert choice(size, 64, 64, window, 1, target=target_for("znver4", "x86_64"), strict=True) == "direct"


@pytest.mark.parametrize("size, expected", [
    ("h", 224), ("h:1..100", 100), ("h:300..", 300), ("32*'h/32'", 224), ("h//2 - 3", 109), ("a//(b - 224)", 224),
])  # fmt: skip
def test_usual_sizes(size, expected):
    assert dims.usual(dims.parse(size), 224) == expected


@pytest.mark.parametrize("size, channels, window, extents, grouped", [
    (14, 32, 5, (8, 8), True), (7, 32, 5, (8, 8), False), (56, 16, 9, (16, 32), True), (14, 128, 5, (16, 16), False),
    (56, 128, 5, (16, 16), False), (224, 128, 5, (16, 16), True),
])  # fmt: skip
def test_fourier_tiles_go_in_groups_beside_weights_that_l2_holds(size, channels, window, extents, grouped):
    """Over 7×7 there are 4 tiles, and a group would be one of them; spectra over 224×224 leave every cache."""
    shape = Shape(1, (size, size), (window, window), channels, channels)
    tile = FftTile(extents, (window, window))
    assert bool(conv_costs.fft_group(shape, tile, target_for("emeraldrapids", "x86_64"))) == grouped


def test_fourier_tiles_of_large_images_are_those_of_free_sizes():
    """Whose weights are read anew by each group: larger ones than those have no more than a few tiles."""
    for cpu, extents in (("znver4", (16, 16)), ("emeraldrapids", (8, 16))):
        machine = conv_costs.Machine(target_for(cpu, "x86_64"), 0)
        shapes = [Shape(1, (224, 224), (5, 5), 32, 32, free) for free in (False, True)]
        assert [conv_costs.best_fft(shape, machine)[1].extents for shape in shapes] == [extents] * 2


def test_scratch_does_not_grow_with_images_of_free_sizes():
    """Whatever is chosen: a piece holds a group of tiles, about as much as L2 has room for."""
    with onnx.new_context(), ir.Location.unknown():
        for window in ((3, 3), (5, 5), (9, 9)):
            target = target_for("x86-64-v3", "x86_64")
            program = program_of(("h", "w"), 64, 64, window, 1, target)
            for convert in (use_winograd, use_fft):
                convert(program)
            scratch = next(op for op in program.module.body.operations[0].body.blocks[0] if op.name == "kernel.scratch")
            pieces, size = scratch.results[0].type.shape
            assert pieces == 16 and 4 * size <= 2 * target.l2_bytes


def test_estimates_are_near_what_zen4_takes():
    """Of rows of docs/heuristics.md, measured: the direct sum within a sixth, others within 45 %."""
    machine = Machine(target_for("znver4", "x86_64"), 1 << 20)
    measured = [  # side, channels, filters, window: µs of the direct sum, F(4×4), FFT
        (56, 16, 16, 3, 142, 64, 73), (56, 64, 64, 3, 2167, 824, 1087), (28, 32, 64, 5, 744, None, 165),
        (28, 64, 64, 7, 2887, None, 448), (56, 32, 32, 9, 4722, None, 743), (28, 32, 32, 15, 3282, None, 292),
    ]  # fmt: skip
    for side, channels, filters, window, direct, winograd, fft in measured:
        shape = Shape(1, (side, side), (window, window), channels, filters)
        assert conv_costs.direct(shape, machine) / 1e3 == pytest.approx(direct, rel=1 / 6)
        assert conv_costs.best_fft(shape, machine)[0] / 1e3 == pytest.approx(fft, rel=0.45)
        if winograd is not None:
            assert conv_costs.winograd(shape, 4, machine) / 1e3 == pytest.approx(winograd, rel=0.45)


def test_the_compiling_machine_is_not_asked_about_another_cpu(monkeypatch):
    def refuse(*_):
        raise AssertionError("the machine was asked")

    for name in ("get_host_cpu_name", "get_host_cpu_features"):
        monkeypatch.setattr(targets.llvm, name, refuse)
    monkeypatch.setattr(targets, "_cache_sizes", refuse)
    zen = target_for("znver4", "x86_64")
    assert (zen.l2_bytes, zen.core.fma_bits) == (1 << 20, 512)  # 512-bit code in halves
    assert target_for("sapphirerapids", "x86_64").core.fma_bits == 1024
    assert target_for("neoverse-v1", "aarch64").core.gigaflops > target_for("neoverse-n1", "aarch64").core.gigaflops
    assert choice(("56", "56"), 64, 64, (3, 3), 1, target=zen) == "winograd4"


def test_llvm_knows_the_cores():
    known = {*cpu_names("x86_64"), *cpu_names("aarch64")}
    assert set(CORES) <= known
    assert all(prod((core.fma_bits, core.gigahertz, core.far, core.memory)) > 0 for core in CORES.values())


@pytest.mark.parametrize(
    ("cpu", "side", "channels", "group"),
    [("znver3", 14, 64, 16), ("znver3", 20, 64, 0), ("znver3", 7, 64, 0), ("znver3", 14, 96, 0)]
    + [("haswell", 14, 64, 0), ("emeraldrapids", 14, 128, 0)],
)
def test_winograd_takes_a_few_tiles_together_where_their_weights_are_near(cpu, side, channels, group):
    shape = Shape(1, (side, side), (3, 3), channels, channels)
    assert conv_costs.winograd_group(shape, 4, target_for(cpu, "x86_64")) == group
