"""Convolution of planes, against the channels-last reference."""

import numpy as np
import pytest
from mlir import ir

from onnxc.dialects import onnx
from onnxc.passes.kernels import conv_planes
from onnxc.passes.kernels.kernel_function import KernelFunction
from onnxc.targets import target_for

from .harness import compile_kernel, run
from .test_conv import reference
from .test_matmul import close, numbers, spell

CASES = [
    dict(size=(9, 20), c=3, m=7, window=(7, 7), strides=[2, 2], pads=[3, 3, 3, 3]),
    dict(size=(9, 112), c=3, m=20, window=(3, 3), pads=[1, 1, 1, 1], images=2),
    dict(size=(7, 150), c=6, m=4, window=(5, 3), strides=[2, 3], dilations=[2, 1], pads=[2, 0, 1, 3], group=2),
    dict(size=(20, 40), c=5, m=10, window=(3, 5), strides=[3, 4], dilations=[1, 3], pads=[0, 4, 0, 9], group=5),
    dict(size=(150, 20), c=2, m=3, window=(5, 3), strides=[2, 1], pads=[2, 1, 2, 1]),
    dict(size=(5, 530), c=32, m=2, window=(3, 3), pads=[0, 0, 0, 0]),
    dict(size=(6, 33), c=64, m=5, window=(1, 1), strides=[2, 2]),
    dict(size=(7, 7), c=40, m=70, window=(1, 1), strides=[2, 2], images=2),
    dict(size=(11, 9), c=34, m=6, window=(1, 1), strides=[3, 2], group=2),
    dict(size=(40, 13), c=3, m=4, window=(1, 1), strides=[1, 4]),
    dict(size=(5, 4, 9), c=18, m=3, window=(1, 1, 1), strides=[2, 3, 2], images=2),
    dict(size=(1, 1), c=2, m=3, window=(3, 3), pads=[1, 1, 1, 1]),
    dict(size=(100,), c=4, m=9, window=(7,), strides=[2], pads=[3, 3]),
    dict(size=(4, 5, 18), c=2, m=3, window=(2, 3, 3), pads=[1, 1, 1, 0, 1, 1], bias=False),
    # many rows that share some of x's: the patch is a ring of 9 rows, 4, 6, 5, 9 and 4
    dict(size=(150, 20), c=3, m=7, window=(7, 7), strides=[2, 2], pads=[3, 3, 3, 3]),
    dict(size=(83, 17), c=2, m=3, window=(3, 3), pads=[1, 1, 1, 1]),
    dict(size=(150, 16), c=1, m=5, window=(4, 3), strides=[2, 1], pads=[1, 1, 2, 1], images=2),
    dict(size=(90, 33), c=4, m=2, window=(4, 2), strides=[1, 2], pads=[0, 0, 3, 0], group=2),
    dict(size=(301, 16), c=2, m=3, window=(5, 1), strides=[4, 1]),
    dict(size=(3, 65, 18), c=2, m=3, window=(2, 3, 3), pads=[0, 1, 1, 1, 0, 1]),
]


def check(
    size,
    c,
    m,
    window,
    strides=None,
    dilations=None,
    pads=None,
    group=1,
    images=1,
    bias=True,
    elem="f32",
    dynamic=False,
    mcpu="native",
    schedule=None,
):
    rank = len(size)
    strides, dilations, pads = strides or [1] * rank, dilations or [1] * rank, pads or [0] * 2 * rank
    rng = np.random.default_rng(0)
    x, w, offset = (
        numbers(rng, (images, c, *size), elem),
        numbers(rng, (m, *window, c // group), elem),
        numbers(rng, (m,), elem),
    )
    last = reference(
        np.moveaxis(x, 1, -1),
        np.moveaxis(w, 0, -1),
        offset.astype(np.float64) if bias else None,
        strides,
        dilations,
        pads,
        group,
    )
    expected = np.maximum(np.moveaxis(last, -1, 1), 0)
    names = [f"O{i}" for i in range(rank)]
    source = ("N", c, *"DHW"[-rank:]) if dynamic else x.shape
    target = ("N", m, *names) if dynamic else expected.shape
    given, out, weights, each = (f"tensor<{spell(s, elem)}>" for s in (source, target, w.shape, (m,)))
    lists = ", ".join(
        f"{n} = array<i64: {', '.join(map(str, v))}>"
        for n, v in (("strides", strides), ("dilations", dilations), ("pads", pads))
    )
    operands, types = ("%x, %w, %b", f"{given}, {weights}, {each}") if bias else ("%x, %w", f"{given}, {weights}")
    text = f"""func.func private @k(%x: {given}, %w: {weights}{f", %b: {each}" if bias else ""}) -> {out}
        attributes {{kernel.kind = "conv_planes", kernel.root = "kernel.conv_planes"}} {{
      %0 = "kernel.conv_planes"({operands}) {{{lists}, group = {group} : i64}} : ({types}) -> {out}
      %1 = "onnx.Relu"(%0) : ({out}) -> {out}
      return %1 : {out} }}"""
    values = dict(zip(names, expected.shape[2:], strict=True)) if dynamic else {}
    (result,) = run(text, x, w, *([offset] if bias else []), schedule=schedule, mcpu=mcpu, **values)
    close(result, expected, elem, k=w[0].size)


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("mcpu", ["native", "x86-64-v3"])
def test_planes(case, dynamic, mcpu):
    check(**case, dynamic=dynamic, mcpu=mcpu)


@pytest.mark.parametrize("elem", ["f16", "f64"])
def test_other_elements(elem):
    check(**CASES[0], elem=elem)
    check(**CASES[5], elem=elem)


@pytest.mark.parametrize("deep", [1, 13, 16])
@pytest.mark.parametrize("case", [case for case in CASES if case["size"][-2:][0] > 60], ids=str)
def test_rings_that_turn_in_units_of_any_height(case, deep):
    check(**case, schedule={"deep": deep})
    check(**case, schedule={"deep": deep}, dynamic=True)


PLAIN = """func.func private @k(%x: {x}, %w: {w}) -> {y}
    attributes {{kernel.kind = "conv_planes", kernel.root = "kernel.conv_planes"}} {{
  %0 = "kernel.conv_planes"(%x, %w) {{strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>,
    pads = array<i64: {pads}>, group = {group} : i64}} : ({x}, {w}) -> {y}
  return %0 : {y} }}"""


@pytest.mark.parametrize("free", [False, True])
@pytest.mark.parametrize(
    "mcpu, side, window, asks",
    [
        ("graniterapids", 448, 7, True),
        ("graniterapids", 112, 7, False),
        ("graniterapids", 448, 3, False),
        ("znver4", 448, 7, False),
        ("x86-64-v3", 448, 7, False),
    ],
)
def test_lines_of_results_are_asked_for_where_stores_wait_for_them(mcpu, side, window, asks, free):
    """Results beyond L2, of any number of images, L3 far away, and more than one term a line."""

    def images(channels: int, side: int) -> str:
        names = f', ["N", {channels}, {side}, {side}]' if free else ""
        return f"tensor<{'?' if free else 1}x{channels}x{side}x{side}xf32{names}>"

    w, pads = f"tensor<64x{window}x{window}x3xf32>", ", ".join([str(window // 2)] * 4)
    text = PLAIN.format(x=images(3, side), w=w, y=images(64, side // 2), pads=pads, group=1)
    assert ("llvm.prefetch" in compile_kernel(text, mcpu=mcpu).llvm_ir) == asks


def test_large_results():
    check(size=(448, 448), c=1, m=14, window=(7, 7), strides=[2, 2], pads=[3, 3, 3, 3])


@pytest.mark.parametrize("channels, filters, group, window", [(3, 32, 1, 3), (96, 96, 96, 5), (128, 256, 1, 1)])
def test_widths_that_only_a_run_tells_are_usual_ones(channels, filters, group, window):
    """The tile and run of an image of just that width, not as many pixels as a patch holds."""

    def chosen(x: str, y: str) -> dict:
        w = f"tensor<{filters}x{window}x{window}x{channels // group}xf32>"
        pads = ", ".join([str(window // 2)] * 4)
        text = PLAIN.format(x=x, w=w, y=y, pads=pads, group=group)
        with onnx.new_context(), ir.Location.unknown():
            module = ir.Module.parse(text)
            kernel = KernelFunction.of(module.body.operations[0])
            found = conv_planes.choose(kernel, target_for("znver4", "x86_64"))
            return {name: found[name] for name in ("rows", "vectors", "lanes", "run")}

    sides = (f'1, {channels}, "H", "W"', f'1, {filters}, "h", "w"')
    free = [f"tensor<1x{c}x?x?xf32, [{s}]>" for c, s in zip((channels, filters), sides, strict=True)]
    side = conv_planes.USUAL
    known = [f"tensor<1x{c}x{n}x{n}xf32>" for c, n in ((channels, 2 * side), (filters, side))]
    assert chosen(*free) == chosen(*known)


def test_short_images_are_one_row_where_no_tap_reads_beside_a_pixel():
    """16 pixels in 4 rows fill a vector, unless something else tells columns apart."""
    text = """func.func private @k(%x: tensor<1x8x7x7xf32>, %w: tensor<16x1x1x8xf32>, %a: tensor<{shape}xf32>)
            -> tensor<1x16x4x4xf32> attributes {{kernel.kind = "conv_planes", kernel.root = "kernel.conv_planes"}} {{
          %0 = "kernel.conv_planes"(%x, %w) {{strides = array<i64: 2, 2>, dilations = array<i64: 1, 1>,
            pads = array<i64: 0, 0, 0, 0>, group = 1 : i64}}
            : (tensor<1x8x7x7xf32>, tensor<16x1x1x8xf32>) -> tensor<1x16x4x4xf32>
          %1 = "onnx.Add"(%0, %a) : (tensor<1x16x4x4xf32>, tensor<{shape}xf32>) -> tensor<1x16x4x4xf32>
          return %1 : tensor<1x16x4x4xf32> }}"""
    rng = np.random.default_rng(0)
    x, w = numbers(rng, (1, 8, 7, 7), "f32"), numbers(rng, (16, 1, 1, 8), "f32")
    product = np.einsum("nchw,mc->nmhw", x[:, :, ::2, ::2], w[:, 0, 0])
    for shape, run_ in (((1, 16, 4, 4), 16), ((16, 1, 1), 16), ((4,), 4), ((4, 1), 4)):
        added = numbers(rng, shape, "f32")
        spelt = text.format(shape="x".join(map(str, shape)))
        with onnx.new_context(), ir.Location.unknown():
            module = ir.Module.parse(spelt)
            kernel = KernelFunction.of(module.body.operations[0])
            assert conv_planes.choose(kernel, target_for("znver4", "x86_64"))["run"] == run_
        (result,) = run(spelt, x, w, added)
        close(result, product + added, "f32", k=8)
