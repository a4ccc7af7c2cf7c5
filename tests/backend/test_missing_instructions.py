"""Conversions from and to half, comparisons of halves, roundings, without the instructions: exact, over the whole range."""

import numpy as np
import pytest

from onnxc.emit_object import emit
from onnxc.targets import target_for

from .test_emit_object import library, llvm_ir, pointers


def convert(op, source, to, width):
    return each(f"%w = arith.{op} %v : {{a}} to {{b}}", source, to, width)


def each(computation, source, to, width):
    """A function that computes %w of type b from %v of type a for each element, or for `width` at once."""
    a, b = (source, to) if width == 1 else (f"vector<{width}x{source}>", f"vector<{width}x{to}>")
    load, store = ("memref.load", "memref.store") if width == 1 else ("vector.load", "vector.store")
    more_a, more_b = ("", "") if width == 1 else (f", {a}", f", {b}")
    return f"""
    func.func @k(%x: memref<{source}>, %y: memref<{to}>, %n: index) {{
      %c0 = arith.constant 0 : index
      %step = arith.constant {width} : index
      %X = memref.reinterpret_cast %x to offset: [0], sizes: [%n], strides: [1] : memref<{source}> to memref<?x{source}>
      %Y = memref.reinterpret_cast %y to offset: [0], sizes: [%n], strides: [1] : memref<{to}> to memref<?x{to}>
      scf.for %i = %c0 to %n step %step {{
        %v = {load} %X[%i] : memref<?x{source}>{more_a}
        {computation.format(a=a, b=b)}
        {store} %w, %Y[%i] : memref<?x{to}>{more_b}
      }}
      return
    }}"""


def run(tmp_path, text, x, dtype, mcpu):
    y = np.zeros(x.shape, dtype)
    library(text, tmp_path, "k", mcpu=mcpu).k(*pointers(x, y, x.size))
    return y


@pytest.mark.parametrize("width", [1, 8])
@pytest.mark.parametrize("mcpu", ["x86-64-v2", "x86-64-v3"])
def test_every_half_to_float(tmp_path, mcpu, width):
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    y = run(tmp_path, convert("extf", "f16", "f32", width), x, np.float32, mcpu)
    np.testing.assert_array_equal(y, x.astype(np.float32))
    np.testing.assert_array_equal(np.signbit(y), np.signbit(x))


def interesting(dtype):
    """All halves, the points between them, their neighbours, and random bits."""
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float64)
    finite = np.sort(halves[np.isfinite(halves)])
    middles = ((finite[1:] + finite[:-1]) / 2).astype(dtype)
    near = [np.nextafter(middles, dtype(np.inf)), np.nextafter(middles, dtype(-np.inf))]
    size = np.dtype(dtype).itemsize
    noise = np.frombuffer(np.random.default_rng(2).bytes(size << 16), dtype)
    limits = np.array([65519.99, 65520, 65536, 1e30, -1e30, np.inf, -np.inf, np.nan], dtype)
    with np.errstate(invalid="ignore"):
        halves = halves.astype(dtype)
    x = np.concatenate([halves, middles, *near, noise, limits])
    return np.resize(x, -(-x.size // 8) * 8)


@pytest.mark.parametrize("width", [1, 8])
@pytest.mark.parametrize("mcpu", ["x86-64-v2", "x86-64-v3"])
@pytest.mark.parametrize("source", ["f32", "f64"])
def test_to_half_rounds_once(tmp_path, source, mcpu, width):
    dtype = {"f32": np.float32, "f64": np.float64}[source]
    x = interesting(dtype)
    y = run(tmp_path, convert("truncf", source, "f16", width), x, np.float16, mcpu)
    with np.errstate(over="ignore", invalid="ignore"):
        np.testing.assert_array_equal(y, x.astype(np.float16))
    finite = ~np.isnan(x)
    np.testing.assert_array_equal(np.signbit(y[finite]), np.signbit(x[finite]))


@pytest.mark.parametrize("triple", ["aarch64", "riscv64"])
def test_other_architectures_convert_by_themselves(triple):
    for op, source, to in (("extf", "f16", "f32"), ("truncf", "f32", "f16"), ("truncf", "f64", "f16")):
        assert emit(llvm_ir(convert(op, source, to, 1)), target_for(None, triple))


ROUNDINGS = {"floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "roundeven": np.round}


@pytest.mark.parametrize("width", [1, 8])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("how", ROUNDINGS)
def test_roundings(tmp_path, how, dtype, width):
    """The signs of zeros, too."""
    kind, bits = ("f32", 23) if dtype is np.float32 else ("f64", 52)
    near = np.array([0, 0.25, 0.5, 0.75, 1, 1.5, 2.5, 3.5, 1e-40, 7.999999], dtype)
    large = np.ldexp(dtype(1), np.arange(bits - 3, bits + 4)).astype(dtype)
    odd = np.concatenate(
        [large + dtype(0.5), large - dtype(0.5), np.nextafter(large, dtype(0)), [3e38, np.inf, np.nan]]
    )
    noise = np.random.default_rng(3).standard_normal(998).astype(dtype) * dtype(1000)
    x = np.concatenate([near, large, odd, noise]).astype(dtype)
    x = np.resize(np.concatenate([x, -x]), 2400)
    y = run(tmp_path, each(f"%w = math.{how} %v : {{a}}", kind, kind, width), x, dtype, "x86-64")
    np.testing.assert_array_equal(y, ROUNDINGS[how](x))
    np.testing.assert_array_equal(np.signbit(y[~np.isnan(x)]), np.signbit(x[~np.isnan(x)]))


@pytest.mark.parametrize("width", [1, 8])
@pytest.mark.parametrize("mcpu", ["x86-64", "x86-64-v2", "x86-64-v3"])
def test_halves_compare(tmp_path, mcpu, width):
    one = "arith.constant 1.0 : f16" if width == 1 else f"arith.constant dense<1.0> : vector<{width}xf16>"
    text = f"%one = {one}\n %t = arith.cmpf olt, %v, %one : {{a}}\n %w = arith.extui %t : {{t}} to {{b}}"
    text = text.replace("{t}", "i1" if width == 1 else f"vector<{width}xi1>")
    x = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    y = run(tmp_path, each(text, "f16", "i8", width), x, np.uint8, mcpu)
    np.testing.assert_array_equal(y, x < 1)
