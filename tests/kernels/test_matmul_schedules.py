"""Schedules of products: code for a known number of rows never chooses worse than code for any number does at run time."""

import re

import numpy as np
import onnx
import pytest
from mlir import ir
from onnx import TensorProto, helper, numpy_helper

import onnxc
from onnxc.dialects import onnx as dialect
from onnxc.passes.kernels import contraction, matmul, prefetching
from onnxc.passes.kernels.kernel_function import KernelFunction
from onnxc.targets import target_for

from .harness import compile_kernel

CPUS = ["znver4", "znver3", "emeraldrapids", "haswell"]
L1, L2 = "3", "2"  # how near llvm.prefetch brings a line
modules: list[ir.Module] = []  # alive as long as their kernels


def kernel(rows: int | str, terms: int, columns: int, constant: int) -> KernelFunction:
    """A product whose operand `constant` is one (-1: none); rows of another number than an integer are free."""
    free = not isinstance(rows, int)
    m, tail = ("?", f', ["{rows}", {{}}]') if free else (rows, "")
    x, y = f"tensor<{m}x{terms}xf32{tail.format(terms)}>", f"tensor<{m}x{columns}xf32{tail.format(columns)}>"
    w, constants = f"tensor<{terms}x{columns}xf32>", "" if constant < 0 else f": {constant}"
    text = f"""func.func private @k(%x: {x}, %w: {w}) -> {y}
        attributes {{kernel.kind = "matmul", kernel.root = "onnx.MatMul", kernel.constants = array<i64{constants}>}} {{
      %0 = "onnx.MatMul"(%x, %w) : ({x}, {w}) -> {y}
      return %0 : {y} }}"""
    modules.append(ir.Module.parse(text))
    return KernelFunction.of(modules[-1].body.operations[0])


@pytest.fixture(autouse=True)
def context():
    with dialect.new_context(), ir.Location.unknown():
        yield
    modules.clear()


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("terms, columns", [(256, 256), (768, 3072), (4096, 4096)])
def test_few_rows_are_asked_for_alike(terms, columns, cpu):
    """What is left over, or a lone tile, asks as far ahead as code for just so many rows does."""
    target = target_for(cpu, "x86_64")
    free = kernel("M", terms, columns, 1)
    height, width = (matmul.choose(free, target)[name] for name in ("rows", "vectors"))
    line = 4 * width * target.vector_bits // 32
    for rows in range(1, height + 1):
        exact = matmul.choose(kernel(rows, terms, columns, 1), target)
        found = prefetching.distances(1, rows, height, True, line, free, target)[0][0]
        assert (exact["rows"], exact["prefetch"]) == (rows, found)


def test_a_core_that_reads_ahead_is_asked_where_multiply_adds_bind():
    found = {rows: matmul.choose(kernel(rows, 4096, 4096, 1), target_for("znver4", "x86_64")) for rows in (2, 4, 6, 8)}
    assert [schedule["prefetch"] for schedule in found.values()] == [0, 0, 0, prefetching.EARLY]
    found = [matmul.choose(kernel(rows, 4096, 4096, 1), target_for(cpu, "x86_64"))["prefetch"]
             for cpu in ("emeraldrapids", "znver3") for rows in (2, 3)]  # fmt: skip
    assert found == [16, 16, 0, 16]


def test_one_row_asks_for_what_comes_from_memory_where_hardware_does_not():
    product = kernel(1, 4096, 4096, 1)
    assert not any(matmul.choose(product, target_for(cpu, "x86_64"))["prefetch"] for cpu in CPUS)
    product.func.attributes["kernel.streams_weights"] = ir.UnitAttr.get()
    cpus = [*CPUS, "graniterapids"]
    found = [matmul.choose(product, target_for(cpu, "x86_64"))["prefetch"] > 0 for cpu in cpus]
    assert found == [cpu not in ("znver3", "graniterapids") for cpu in cpus]


@pytest.mark.parametrize(
    "cpu, streamed, level",
    [
        ("graniterapids", True, L2),
        ("graniterapids", False, L1),
        ("emeraldrapids", True, L2),
        ("znver3", True, L1),
        ("znver4", True, L2),
        ("znver4", False, L2),
    ],
)
def test_which_cache_streams_are_asked_into(cpu, streamed, level):
    """L1 waits for few lines, but only it gains where weights are in L2."""
    streams = ", kernel.streams_weights" if streamed else ""
    text = f"""func.func private @k(%x: tensor<8x256xf32>, %w: tensor<256x1024xf32>) -> tensor<8x1024xf32>
        attributes {{kernel.kind = "matmul", kernel.root = "onnx.MatMul"{streams}}} {{
      %0 = "onnx.MatMul"(%x, %w) : (tensor<8x256xf32>, tensor<256x1024xf32>) -> tensor<8x1024xf32>
      return %0 : tensor<8x1024xf32> }}"""
    code = compile_kernel(text, constants={1}, schedule={"prefetch": 32}, mcpu=cpu).llvm_ir
    assert set(re.findall(r"call void @llvm.prefetch.p0\(ptr [^,]+, i32 0, i32 (\d)", code)) == {level}


def test_the_tiles_that_are_there_ask_for_all_of_the_next_panel():
    """Two of them, each for half of its 48 columns: 3 lines in two terms, however many a unit may have."""
    text = """func.func private @k(%x: tensor<16x256xf32>, %w: tensor<256x960xf32>) -> tensor<16x960xf32>
        attributes {kernel.kind = "matmul", kernel.root = "onnx.MatMul"} {
      %0 = "onnx.MatMul"(%x, %w) : (tensor<16x256xf32>, tensor<256x960xf32>) -> tensor<16x960xf32>
      return %0 : tensor<16x960xf32> }"""
    for group in (2, 16):
        schedule = {"rows": 8, "vectors": 3, "lanes": 16, "group": group, "prefetch": 1, "unroll": 2}
        code = compile_kernel(text, constants={1}, schedule=schedule, mcpu="graniterapids").llvm_ir
        assert code.count("call void @llvm.prefetch") == 3


@pytest.mark.parametrize(
    "cpu, terms, epilogue, asks",
    [
        ("graniterapids", 384, "onnx.Relu", True),
        ("graniterapids", 384, "onnx.Erf", False),
        ("graniterapids", 1024, "onnx.Relu", False),
        ("graniterapids", 256, "onnx.Relu", False),
        ("znver4", 384, "onnx.Relu", False),
        ("x86-64-v3", 384, "onnx.Relu", False),
    ],
)
@pytest.mark.parametrize("rows", [100, "M"])
def test_results_of_short_sums_are_asked_for_where_weights_push_them_out_of_l2(cpu, rows, terms, epilogue, asks):
    m, tail = (rows, "") if isinstance(rows, int) else ("?", ', ["M", {}]')
    x, y = f"tensor<{m}x{terms}xf32{tail.format(terms)}>", f"tensor<{m}x1536xf32{tail.format(1536)}>"
    w = f"tensor<{terms}x1536xf32>"
    text = f"""func.func private @k(%x: {x}, %w: {w}) -> {y}
        attributes {{kernel.kind = "matmul", kernel.root = "onnx.MatMul"}} {{
      %0 = "onnx.MatMul"(%x, %w) : ({x}, {w}) -> {y}
      %1 = "{epilogue}"(%0) : ({y}) -> {y}
      return %1 : {y} }}"""
    code = compile_kernel(text, constants={1}, mcpu=cpu).llvm_ir
    assert bool(re.search(r"call void @llvm.prefetch.p0\(ptr [^,]+, i32 1,", code)) == asks


def test_two_tiles_ask_far_ahead_of_a_core_that_reads_ahead():
    """More ask for shares of the next panel, on any core."""
    cases = [("znver3", 8), *((cpu, rows) for cpu in ("znver4", "znver3", "emeraldrapids") for rows in (16, 28, 32))]
    found = {(cpu, rows): matmul.choose(kernel(rows, 768, 3072, 1), target_for(cpu, "x86_64")) for cpu, rows in cases}
    two = {key for key, s in found.items() if s["group"] == 2}
    assert two >= {("znver4", 16), ("znver3", 8), ("emeraldrapids", 16)} and len(two) < len(found)
    for (cpu, rows), schedule in found.items():
        far = cpu == "znver4" and (cpu, rows) in two
        assert schedule["prefetch"] == (2 * prefetching.EARLY if far else 1)


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("side", [5, 7, 10, 14, 28, 56])
@pytest.mark.parametrize("channels, filters", [(128, 128), (256, 512), (64, 256)])
def test_panels_are_copied_no_more_often_than_by_code_for_any_number(channels, filters, side, cpu):
    """Of a 1×1 convolution of planes, as long as half of L2 holds the rows; but for an odd number of few panels, which two
    threads could not share."""
    target = target_for(cpu, "x86_64")
    exact = matmul.choose(kernel(filters, channels, side * side, 0), target)
    free = matmul.choose(kernel("M", channels, side * side, 0), target)
    tiles, most = (contraction.tile_count(filters, s["rows"]) for s in (exact, free))
    panels = -(-(side * side) // (exact["vectors"] * exact["lanes"]))
    copies = -(-tiles // exact["group"])
    if exact["copied"] and (panels % 2 == 0 or panels >= contraction.EVEN):
        tile = 4 * channels * exact["rows"]
        fit = -(-4 * channels * filters // (target.l2_bytes // 2 - tile))
        assert copies <= max(fit, -(-most // free["group"]))
    else:
        assert copies * panels >= 2


@pytest.mark.parametrize("rows", [196, 384, 512, 1000])
def test_passes_over_the_weights_are_as_long_as_each_other(rows):
    """12, 12 and 4 tiles of 384 rows would read 9 MB of weights a third time for few rows."""
    found = matmul.choose(kernel(rows, 768, 3072, 1), target_for("emeraldrapids", "x86_64"))
    tiles = contraction.tile_count(rows, found["rows"])
    passes = -(-tiles // found["group"])
    assert passes * found["group"] - tiles < passes


@pytest.mark.parametrize("weights", [2, 3])
def test_weights_of_large_models_are_a_stream_from_memory(weights, tmp_path):
    """Only where all together do not stay in the last cache is a single row's asked for."""
    names = [f"w{i}" for i in range(weights)]
    arrays = [np.full((1536, 2048), i, np.float32) for i in range(weights)]  # 12.6 MB each
    nodes = [helper.make_node("MatMul", ["x", name], [f"y{name}"]) for name in names]
    infos = [helper.make_tensor_value_info(f"y{name}", TensorProto.FLOAT, [1, 2048]) for name in names]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1536])
    constants = [numpy_helper.from_array(array, name) for array, name in zip(arrays, names, strict=True)]
    graph = helper.make_graph(nodes, "g", [x], infos, constants)
    onnx.save(helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 20)]), tmp_path / "m.onnx")
    onnxc.compile(tmp_path / "m.onnx", tmp_path / "m.mlir", emit="kernels", mcpu="znver4")
    text = (tmp_path / "m.mlir").read_text()
    distances = {int(found) for found in re.findall(r"prefetch = (\d+)", text)}
    assert distances == ({0} if weights == 2 else {prefetching.STREAM_BYTES // 256})
    assert ("kernel.streams_weights" in text) == (weights > 2)


@pytest.mark.parametrize("cpu", CPUS)
def test_rows_of_b_in_place_that_lie_far_apart_are_read_in_long_pieces(cpu):
    """Each row of a panel begins anew; 4 KB apart, all in one set of L1, narrow panels took 2 to 6 times as long."""
    target = target_for(cpu, "x86_64")
    for rows, least in [(1, 7), (2, 5), (4, 3)]:
        found = matmul.choose(kernel(rows, 256, 1024, 0), target)
        assert (found["packed"], found["copied"]) == (0, 0) and found["vectors"] >= least
    packed = matmul.choose(kernel(8, 256, 1024, 1), target)
    assert matmul.choose(kernel(8, 256, 1024, 0), target)["vectors"] >= packed["vectors"]


def test_rows_of_b_in_place_that_lie_close_are_one_stream():
    found = matmul.choose(kernel(12, 64, 49, 0), target_for("znver4", "x86_64"))
    assert (found["rows"], found["vectors"], found["lanes"]) == (3, 7, 8)


@pytest.mark.parametrize(
    ("cpu", "rows", "columns", "copied"),
    [
        *(("emeraldrapids", 16, 1024, 0), ("emeraldrapids", 20, 1024, 1), ("emeraldrapids", 12, 256, 0)),
        *(("haswell", 8, 1024, 0), ("haswell", 14, 1024, 1), ("haswell", 16, 1024, 1), ("haswell", 16, 200, 0)),
        *(("znver3", 16, 1024, 1), ("znver3", 24, 64, 1), ("emeraldrapids", 24, 64, 1)),
    ],
)
def test_an_input_is_copied_where_many_tiles_would_read_it(cpu, rows, columns, copied):
    assert matmul.choose(kernel(rows, 1024, columns, -1), target_for(cpu, "x86_64"))["copied"] == copied
