"""Schedules of direct convolutions with few pixels and large weights, by what L2 has room for."""

import pytest
from mlir import ir

from onnxc.dialects import onnx
from onnxc.passes.kernels import conv
from onnxc.passes.kernels.kernel_function import KernelFunction, schedule_attribute
from onnxc.targets import target_for


def chosen(side: int, channels: int, filters: int, window: int, cpu: str, *, shorter: bool = False) -> tuple[dict, int]:
    """The heuristic's schedule, or the one with shorter units that it may have, and the target's L2 bytes."""
    x, w = f"tensor<1x{side}x{side}x{channels}xf32>", f"tensor<{window}x{window}x{channels}x{filters}xf32>"
    y = f"tensor<1x{side}x{side}x{filters}xf32>"
    pads = ", ".join([str(window // 2)] * 4)
    attributes = f"strides = array<i64: 1, 1>, dilations = array<i64: 1, 1>, pads = array<i64: {pads}>"
    text = f"""func.func private @k(%x: {x}, %w: {w}) -> {y}
        attributes {{kernel.kind = "conv", kernel.root = "kernel.conv", kernel.constants = array<i64: 1>}} {{
      %0 = "kernel.conv"(%x, %w) {{{attributes}, group = 1 : i64}} : ({x}, {w}) -> {y}
      return %0 : {y} }}"""
    target = target_for(cpu, "x86_64")
    with onnx.new_context(), ir.Location.unknown():
        module = ir.Module.parse(text)
        function = module.body.operations[0]
        schedule = dict(conv.choose(KernelFunction.of(function), target))
        if shorter:
            function.attributes["kernel.schedule"] = schedule_attribute(schedule)
            schedule = dict(conv.finer(KernelFunction.of(function), target) or schedule)
        return schedule, target.l2_bytes


@pytest.mark.parametrize("cpu", ["emeraldrapids", "znver5", "icelake-server"])
@pytest.mark.parametrize("side, channels, filters, window", [(7, 512, 512, 3), (7, 160, 160, 5), (7, 1024, 1024, 3)])
def test_two_panels_fit_where_several_tiles_read_them(side, channels, filters, window, cpu):
    schedule, l2 = chosen(side, channels, filters, window, cpu)
    panel = 4 * window * window * channels * schedule["vectors"] * schedule["lanes"]
    one, room = panel // schedule["vectors"], l2 * 3 // 4
    assert 2 * panel <= room or 2 * one > room  # not even one vector a row


@pytest.mark.parametrize(
    "side, channels, filters, window, once",
    [
        (7, 256, 512, 3, True),
        (7, 160, 160, 5, True),
        (14, 256, 256, 3, True),
        (28, 64, 64, 3, False),
        (56, 256, 512, 3, False),
    ],
)
def test_weights_that_leave_cache_are_read_once(side, channels, filters, window, once):
    """Each panel by all pixels before the next: in one unit, or in units that follow each other."""
    schedule, l2 = chosen(side, channels, filters, window, "emeraldrapids")
    assert (schedule["group"] * schedule["rows"] >= side * side or schedule.get("order") == "columns") == once
    if once:
        assert 4 * window * window * channels * filters > l2


@pytest.mark.parametrize("side, channels, filters", [(112, 16, 96), (112, 32, 16), (56, 144, 24), (56, 24, 144)])
def test_shorter_units_are_whole_rows_where_tiles_end_with_them(side, channels, filters):
    schedule, _ = chosen(side, channels, filters, 1, "znver4", shorter=True)
    assert schedule["group"] * schedule["rows"] % side == 0
    assert 8 <= schedule["group"] <= 16
