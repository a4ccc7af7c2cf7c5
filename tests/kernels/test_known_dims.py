"""What kernels make of sizes of which something is known: right values at the limits, and no code for what cannot be."""

from __future__ import annotations

import itertools
from math import erf

import numpy as np
import pytest
from mlir import ir

from onnxc.dialects import dims
from onnxc.dialects.onnx import new_context
from onnxc.passes.kernels.kernel_function import KernelFunction
from onnxc.passes.signatures import kernel_signature

from .harness import compile_kernel
from .test_matmul import close, kernel, numbers, spell


def loops(llvm_ir: str) -> int:
    """How many loops the kernel has: a back edge each."""
    return llvm_ir.count("br i1")


CPUS = ["haswell", "znver3", "znver4", "emeraldrapids"]


def matmul(rows, columns, mcpu="native"):
    text = kernel("MatMul", [spell((rows, 40)), f"40x{columns}xf32"], spell((rows, columns)), more=[("Relu", None)])
    return compile_kernel(text, constants={1}, mcpu=mcpu)


@pytest.mark.parametrize(("cpu", "shorter"), [*zip(CPUS, (1.6, 1.6, 2, 2), strict=True)])
def test_a_multiple_of_rows_has_no_tile_left_over(cpu, shorter):
    free, known = matmul("M", 48, cpu), matmul("64*m", 48, cpu)
    assert 64 % known.schedule["rows"] == 0
    assert loops(known.llvm_ir) < loops(free.llvm_ir) // 2 + (shorter < 2)
    assert shorter * len(known.llvm_ir) < len(free.llvm_ir)


@pytest.mark.parametrize("height", [64, 128, 192])
def test_matmul_of_a_multiple_of_rows(height):
    free, known = matmul("M", 48), matmul("64*m", 48)
    rng = np.random.default_rng(0)
    x, w = numbers(rng, (height, 40)), numbers(rng, (40, 48))
    (result,) = known(x, w)
    close(result, np.maximum(x.astype(np.float64) @ w, 0), k=40)
    assert result.tobytes() == free(x, w)[0].tobytes()


@pytest.mark.parametrize(
    ("limit", "cpu"), [*itertools.product((4, 8, 32), CPUS), (64, "znver4"), (64, "emeraldrapids")]
)
def test_a_limit_of_the_rows_chooses_the_tile(limit, cpu):
    free, known = matmul("M", 48, cpu), matmul(f"m:0..{limit}", 48, cpu)
    assert known.schedule["rows"] <= limit
    assert known.schedule["group"] == -(-limit // known.schedule["rows"]) < free.schedule["group"]


@pytest.mark.parametrize(("limit", "height"), [(4, 4), (8, 5), (32, 21), (64, 37)])
def test_matmul_of_limited_rows(limit, height):
    free, known = matmul("M", 48), matmul(f"m:0..{limit}", 48)
    rng = np.random.default_rng(0)
    x, w = numbers(rng, (height, 40)), numbers(rng, (40, 48))
    assert known(x, w)[0].tobytes() == free(x, w)[0].tobytes()


def test_signatures_tell_what_is_known_of_sizes():
    def signature(rows):
        with new_context(), ir.Location.unknown():
            types = [spell((rows, 40)), "40x48xf32"]
            module = ir.Module.parse(kernel("MatMul", types, spell((rows, 48))))
            return kernel_signature(KernelFunction.of(module.body.operations[0]))

    found = {rows: signature(rows) for rows in ("M", "m:0..64", "m:65..", "32*m")}
    assert found["M"] == "matmul(f32[d0,40], f32[40,48]) -> f32[d0,48]: MatMul(a0,a1)"
    known = {"M": "d0", "m:0..64": "d0:0..64", "m:65..": "d0:65..", "32*m": "d0%32"}
    assert found == {rows: found["M"].replace("d0", size) for rows, size in known.items()}


def test_matmul_of_a_multiple_of_columns_has_no_masks():
    def product(columns):
        text = kernel("MatMul", [spell((5, 40)), spell((40, columns))], spell((5, columns)))
        return compile_kernel(text)

    free, known = product("n"), product("64*n")
    assert "masked" in free.llvm_ir
    assert "masked" not in known.llvm_ir
    rng = np.random.default_rng(0)
    for columns in (64, 128):
        x, w = numbers(rng, (5, 40)), numbers(rng, (40, columns))
        close(known(x, w)[0], x.astype(np.float64) @ w, k=40)


@pytest.mark.parametrize("rows", range(1, 20))
def test_every_small_number_of_rows(rows):
    compiled = matmul("M", 50)
    rng = np.random.default_rng(rows)
    x, w = numbers(rng, (rows, 40)), numbers(rng, (40, 50))
    close(compiled(x, w)[0], np.maximum(x.astype(np.float64) @ w, 0), k=40)


def test_a_long_epilogue_is_a_loop_over_the_rows():
    def product(*more):
        text = kernel("MatMul", [spell(("M", 40)), "40x48xf32"], spell(("M", 48)), more=more)
        return compile_kernel(text, constants={1})

    short, long = product(("Relu", None)), product(("Gelu", None))
    assert len(long.llvm_ir) < 3 * len(short.llvm_ir)
    rng = np.random.default_rng(0)
    for rows in (1, 7, 12):
        x, w = numbers(rng, (rows, 40)), numbers(rng, (40, 48))
        y = x.astype(np.float64) @ w
        close(long(x, w)[0], 0.5 * y * (1 + np.vectorize(erf)(y / np.sqrt(2))), k=40)


def test_one_row_is_split_over_columns_and_many_over_rows():
    compiled = matmul("M", 400)
    panels = dims.evaluate(compiled.extent, {"M": 1})
    assert panels >= 4
    assert dims.evaluate(compiled.extent, {"M": 4000}) >= 4 * panels
