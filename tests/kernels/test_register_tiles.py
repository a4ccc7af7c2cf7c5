"""Register tiles stay in registers: no spill in the innermost loops of contractions, whatever the instruction set."""

import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnxc
from onnxc.passes.kernels.register_tiles import Product, best_tile, tile_registers
from onnxc.targets import target_for

SHAPES = {
    "matmul": ("MatMul", (196, 96), (96, 256), (196, 256), {}),
    "conv 3×3": ("Conv", (1, 64, 28, 28), (96, 64, 3, 3), (1, 96, 28, 28), {"pads": [1] * 4}),
    "24 filters": ("Conv", (1, 64, 28, 28), (24, 64, 3, 3), (1, 24, 28, 28), {"pads": [1] * 4}),
    "conv of planes": ("Conv", (1, 64, 28, 28), (48, 64, 1, 1), (1, 48, 28, 28), {}),
    "few channels": ("Conv", (1, 3, 64, 64), (32, 3, 7, 7), (1, 32, 32, 32), {"pads": [3] * 4, "strides": [2, 2]}),
}
TARGETS = {
    "AVX2": {"mcpu": "x86-64-v3"},
    "AVX-512": {"mcpu": "x86-64-v4"},
    "Zen 4": {"mcpu": "znver4"},
    "NEON": {"target": "aarch64-linux-gnu"},
}
X86_STACK = r"\(%rsp\).*%[xyz]mm|%[xyz]mm.*\(%rsp\)"  # with an index it is a patch or a copied panel
ON_STACK = {"AVX2": X86_STACK, "AVX-512": X86_STACK, "Zen 4": X86_STACK, "NEON": r"\bq\d+,.*\[sp"}


@pytest.mark.parametrize("isa", TARGETS)
@pytest.mark.parametrize("case", SHAPES)
def test_no_spill_in_a_loop_of_products(case, isa, tmp_path):
    op, given, constant, result, attributes = SHAPES[case]
    weights = np.random.default_rng(0).standard_normal(constant, dtype=np.float32)
    node = helper.make_node(op, ["x", "w"], ["y"], **attributes)
    assert not spilled(node, {"x": given}, {"y": result}, {"w": weights}, isa, tmp_path)


@pytest.mark.parametrize("isa", TARGETS)
@pytest.mark.parametrize("columns", [192, 200, 512])
def test_no_spill_where_b_is_an_input(isa, columns, tmp_path):
    """Masks of the last panel's columns take vector registers with AVX2."""
    node = helper.make_node("MatMul", ["a", "b"], ["y"])
    given = {"a": (8, 512), "b": (512, columns)}
    assert not spilled(node, given, {"y": (8, columns)}, {}, isa, tmp_path)


def spilled(node, given: dict, results: dict, constants: dict, isa: str, folder) -> list[str]:
    """The innermost loops of products in the node's code that use the stack for vectors."""
    infos = [[helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in d.items()] for d in (given, results)]
    graph = helper.make_graph([node], "g", *infos, [numpy_helper.from_array(w, n) for n, w in constants.items()])
    onnx.save(helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 20)]), folder / "m.onnx")
    onnxc.compile(folder / "m.onnx", folder / "m.s", strict=True, threads=1, **TARGETS[isa])
    loops = innermost_loops((folder / "m.s").read_text())
    products = [loop for loop in loops if len(re.findall(r"\bvfmadd|\bfmla\b", loop)) >= 8]
    assert products
    return [loop for loop in products if re.search(ON_STACK[isa], loop)]


def innermost_loops(assembly: str) -> list[str]:
    """What lies between a label and the last branch back to it, with no such loop between."""
    labels = {found[1]: found.end() for found in re.finditer(r"^(\.L\w+):.*$", assembly, re.M)}
    branches = [(found[1], found.start()) for found in re.finditer(r"\s(\.L\w+)$", assembly, re.M)]
    ends = {labels[label]: at for label, at in branches if labels.get(label, at) < at}
    loops = [span for span in ends.items() if not any(span[0] < start and end < span[1] for start, end in ends.items())]
    return [assembly[start:end] for start, end in loops]


@pytest.mark.parametrize(
    "columns, lanes", [(16, 16), (24, 8), (32, 16), (40, 8), (72, 8), (144, 16), (120, 8), (168, 16), (1000, 16)]
)
def test_vectors_are_narrow_where_wide_ones_are_halved_and_not_filled(columns, lanes):
    """24 filters are three vectors of 8, not one and a half of 16; a whole unit takes as long for either elsewhere."""
    for cpu, widest in (("znver4", lanes), ("emeraldrapids", 16), ("x86-64-v4", 16)):
        target = target_for(cpu, "x86_64")
        rows, vectors, chosen = best_tile(Product(3136, columns, 16, 96), target)
        assert chosen == widest
        assert tile_registers(rows, vectors, target) <= 32
        assert best_tile(Product(1, columns, 16, 96), target)[2] == 16  # one row: as many bytes a step as possible
        assert best_tile(Product(3136, columns, 16, 96, panel=128), target)[2] == 16  # they lie there already
        if cpu == "znver4":
            assert [best_tile(Product(rows, columns, 16, 96, panel=24), target)[2] for rows in (1, 3136)] == [8, 8]
    assert best_tile(Product(3136, columns, 8, 96), target_for("x86-64-v3", "x86_64"))[2] == 8


def test_narrow_vectors_make_wide_tiles_or_none():
    """A tile of one narrow vector loads as much as it multiplies: 13×1 over 7² took 1.17 of the time of 3×7."""
    zen = target_for("znver4", "x86_64")
    assert best_tile(Product(128, 49, 16, 128), zen) == (3, 7, 8)
    assert best_tile(Product(784, 88, 16, 24), zen)[2] == 16
    assert best_tile(Product(128, 49, 16, 512, most=2), zen)[2] == 16  # two vectors at most


@pytest.mark.parametrize("rows, columns, terms", [(12544, 96, 16), (197, 768, 192), (49, 960, 160), (1024, 1024, 1024)])
def test_tiles_are_small_where_wide_vectors_are_halved(rows, columns, terms):
    """Eight products of a halved vector hide the latency of one; elsewhere it takes sixteen or more."""
    zen, emerald = (target_for(cpu, "x86_64") for cpu in ("znver4", "emeraldrapids"))
    height, vectors, _ = best_tile(Product(rows, columns, 16, terms), zen)
    assert vectors == 1 and 7 <= height <= 14
    wide = best_tile(Product(rows, columns, 16, terms), emerald)
    assert wide[0] * wide[1] >= 24
    assert best_tile(Product(rows, columns, 16, terms, pointers=True), zen) == wide


@pytest.mark.parametrize("width", [7, 14, 28, 56, 112])
def test_tiles_end_with_rows_of_the_image_where_wide_vectors_are_halved(width):
    for columns in (24, 96, 160):
        height, _, _ = best_tile(Product(width * width, columns, 16, 144, period=width), target_for("znver4", "x86_64"))
        assert width % height == 0
