"""Quantised operators against onnxruntime."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.oracle import Batch, Const, Sym, f32, ints


def scalar(value: float, dtype: type = np.float32) -> Const:
    return Const(np.array(value, dtype))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_quantize_and_dequantize(dtype):
    low = 0 if dtype == np.uint8 else -128
    batch = Batch(opset=21)
    x = f32(3, 4, 5) * 40
    zeros = ints(4, low=max(low, -5), high=9, dtype=dtype)
    batch.add("QuantizeLinear", [x, scalar(0.5), scalar(3, dtype)])
    batch.add("QuantizeLinear", [x, np.array(0.3, np.float32), np.array(7, dtype)], label="at run time")
    batch.add("QuantizeLinear", [x, Const(np.abs(f32(4)) + 0.1), Const(zeros)], axis=1)
    batch.add("QuantizeLinear", [np.array([2.5, 3.5, -0.5, 1e9, -1e9, 0.0], np.float32), scalar(1), scalar(0, dtype)])
    q = ints(3, 4, 5, low=low, high=low + 255, dtype=dtype)
    batch.add("DequantizeLinear", [q, scalar(0.5), scalar(3, dtype)])
    batch.add("DequantizeLinear", [q, Const(f32(4)), Const(zeros)], axis=1)
    batch.add("DequantizeLinear", [q, Const(f32(5))], axis=-1)
    batch.add(
        "DequantizeLinear",
        [Sym(("N", 4), [ints(n, 4, low=low, high=low + 255, dtype=dtype) for n in (3, 0, 9)]), scalar(0.5)],
    )
    batch.check()


def test_quantize_without_zero_point():
    batch = Batch(opset=21)
    batch.add("QuantizeLinear", [np.abs(f32(30)) * 50, scalar(0.5)])
    batch.add("DynamicQuantizeLinear", [f32(3, 40)], outputs=3)
    batch.add("DynamicQuantizeLinear", [np.abs(f32(3, 40))], outputs=3)
    batch.check()


def test_integer_matmul():
    batch = Batch(opset=21)
    a, b = ints(2, 5, 30, low=0, high=255, dtype=np.uint8), ints(30, 7, low=-128, high=127, dtype=np.int8)
    batch.add("MatMulInteger", [a, b])
    batch.add("MatMulInteger", [a, Const(b), scalar(12, np.uint8), scalar(-3, np.int8)])
    batch.add(
        "MatMulInteger",
        [a, Const(b), scalar(12, np.uint8), Const(ints(7, dtype=np.int8))],
        label="a zero point a column",
    )
    quantised = [
        a,
        scalar(0.1),
        scalar(12, np.uint8),
        Const(b),
        scalar(0.05),
        scalar(-3, np.int8),
        scalar(0.7),
        scalar(9, np.uint8),
    ]
    batch.add("QLinearMatMul", quantised)
    batch.check()


def test_integer_conv():
    batch = Batch(opset=21)
    x, w = ints(1, 3, 8, 9, low=0, high=255, dtype=np.uint8), ints(4, 3, 3, 3, low=-128, high=127, dtype=np.int8)
    batch.add("ConvInteger", [x, Const(w)])
    unsigned = Const((w.astype(np.int16) + 128).astype(np.uint8))
    batch.add(
        "ConvInteger", [x, unsigned, scalar(7, np.uint8), scalar(128, np.uint8)], pads=[1, 1, 1, 1], strides=[2, 1]
    )
    quantised = [
        x,
        scalar(0.1),
        scalar(12, np.uint8),
        Const(w),
        Const(np.abs(f32(4)) + 0.01),
        Const(np.zeros(4, np.int8)),
        scalar(3),
        scalar(9, np.uint8),
    ]
    batch.add("QLinearConv", quantised, pads=[1, 1, 1, 1])
    batch.add(
        "QLinearConv",
        [*quantised, Const(ints(4, low=-999, high=999, dtype=np.int32))],
        pads=[1, 1, 1, 1],
        label="with bias",
    )
    batch.check()
