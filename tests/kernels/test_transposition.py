"""Transpositions that move the innermost axis, alone and followed by element-wise ops."""

import itertools

import ml_dtypes
import numpy as np
import pytest

from .harness import run
from .test_matmul import spell


def text(shape, perm, elem="f32", epilogue=None, names=None):
    names = names or {}
    source = [names.get(i, d) for i, d in enumerate(shape)]
    x, y = f"tensor<{spell(source, elem)}>", f"tensor<{spell([source[p] for p in perm], elem)}>"
    last = f"tensor<{spell([source[perm[-1]]], elem)}>"
    lines = [f'%0 = "onnx.Transpose"(%x) {{perm = array<i64: {", ".join(map(str, perm))}>}} : ({x}) -> {y}']
    result = "%0"
    if epilogue:
        lines += [
            f'%1 = "onnx.Relu"(%0) : ({y}) -> {y}',
            f'%2 = "onnx.Add"(%1, %b) : ({y}, {last}) -> {y}',
            f'%3 = "onnx.Add"(%2, %r) : ({y}, {y}) -> {y}',
        ]
        result = "%3"
    arguments = f"%x: {x}" + (f", %b: {last}, %r: {y}" if epilogue else "")
    body = "\n  ".join([*lines, f"return {result} : {y}"])
    return f'func.func private @k({arguments}) -> {y} attributes {{kernel.kind = "map"}} {{\n  {body}\n}}'


def numbers(shape, dtype=np.float32):
    return np.random.default_rng(0).integers(-100, 100, shape).astype(dtype)


@pytest.mark.parametrize("shape", [(5, 7), (16, 16), (33, 70), (1, 9), (9, 1), (0, 4), (3, 0), (100, 3)])
def test_matrix(shape):
    x = numbers(shape)
    (result,) = run(text(shape, (1, 0)), x)
    np.testing.assert_array_equal(result, x.T)
    (dynamic,) = run(text(shape, (1, 0), names={0: "N", 1: "M"}), x)
    np.testing.assert_array_equal(dynamic, x.T)


@pytest.mark.parametrize("few", [2, 3, 4, 5, 8, 9])
@pytest.mark.parametrize("elem", ["f32", "i8", "f64"])
def test_few_channels_to_the_back(few, elem):
    """Whole vectors and what is left, of several images."""
    x = numbers((2, few, 7, 23), {"f32": np.float32, "i8": np.int8, "f64": np.float64}[elem])
    (result,) = run(text(x.shape, (0, 2, 3, 1), elem), x)
    np.testing.assert_array_equal(result, x.transpose(0, 2, 3, 1))


@pytest.mark.parametrize("perm", list(itertools.permutations(range(4))))
def test_every_order(perm):
    x = numbers((2, 17, 3, 20))
    (result,) = run(text(x.shape, perm), x)
    np.testing.assert_array_equal(result, x.transpose(perm))


@pytest.mark.parametrize(
    "dtype, elem",
    [
        (np.float64, "f64"),
        (np.int8, "i8"),
        (np.float16, "f16"),
        (np.int64, "i64"),
        (np.bool_, "i1"),
        (np.uint8, "ui8"),
        (ml_dtypes.bfloat16, "bf16"),
    ],
)
@pytest.mark.parametrize("mcpu", ["native", "x86-64-v3", "x86-64"])
def test_element_types(dtype, elem, mcpu):
    x = numbers((2, 33, 21), dtype)
    (result,) = run(text(x.shape, (0, 2, 1), elem), x, mcpu=mcpu)
    assert result.tobytes() == np.ascontiguousarray(x.transpose(0, 2, 1)).tobytes()


@pytest.mark.parametrize(
    "shape, perm", [((2, 20, 7, 9), (0, 2, 3, 1)), ((2, 7, 9, 20), (0, 3, 1, 2)), ((40, 33), (1, 0))]
)
def test_followed(shape, perm):
    x = numbers(shape)
    y = x.transpose(perm)
    b, r = numbers(y.shape[-1:]), numbers(y.shape)
    (result,) = run(text(shape, perm, epilogue=True), x, b, r)
    np.testing.assert_array_equal(result, np.maximum(y, 0) + b + r)
