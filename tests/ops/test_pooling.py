"""Pools against onnxruntime: every attribute, one to three spatial axes, symbolic sizes, element types."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.oracle import Batch, Sym, f32, ints, special

POOLS = ["MaxPool", "AveragePool"]


@pytest.mark.parametrize("op", POOLS)
def test_attributes(op):
    batch = Batch()
    x = f32(2, 5, 11, 13)
    batch.add(op, [x], kernel_shape=[3, 3])
    batch.add(op, [x], kernel_shape=[3, 2], strides=[2, 3])
    batch.add(op, [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 0, 1, 2])
    batch.add(op, [x], kernel_shape=[2, 2], dilations=[2, 3])
    batch.add(op, [x], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    batch.add(op, [x], kernel_shape=[3, 3], strides=[3, 3], pads=[1, 1, 1, 1], ceil_mode=1)
    batch.add(op, [x], kernel_shape=[3, 4], strides=[2, 2], auto_pad="SAME_UPPER")
    batch.add(op, [x], kernel_shape=[3, 4], strides=[2, 2], auto_pad="SAME_LOWER")
    batch.add(op, [x], kernel_shape=[3, 4], strides=[2, 2], auto_pad="VALID")
    batch.add(op, [x], kernel_shape=[11, 13])
    batch.add(op, [f32(2, 5, 17)], kernel_shape=[4], strides=[3], pads=[1, 2])
    batch.add(op, [f32(1, 3, 6, 7, 8)], kernel_shape=[2, 3, 2], strides=[1, 2, 2], pads=[0, 1, 1, 1, 0, 1])
    batch.add(op, [f32(1, 70, 6, 6)], kernel_shape=[2, 2], strides=[2, 2], label="many channels")
    if op == "AveragePool":
        batch.add(op, [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], count_include_pad=1)
        batch.add(op, [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], count_include_pad=1, ceil_mode=1)
    batch.check()


@pytest.mark.parametrize("op", POOLS)
def test_symbolic(op):
    batch = Batch()
    images = [f32(n, 3, h, w) for n, h, w in [(1, 7, 9), (2, 3, 3), (0, 5, 5), (3, 40, 21)]]
    batch.add(op, [Sym(("N", 3, "H", "W"), images)], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    batch.add(op, [Sym(("N", 3, "H", "W"), images)], kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1)
    batch.add(
        op,
        [Sym(("N", 3, "H", "W"), images)],
        kernel_shape=[3, 3],
        strides=[2, 2],
        auto_pad="SAME_UPPER",
        label="SAME symbolic",
    )
    batch.add(op, [Sym(("N", "C", "H", "W"), images)], kernel_shape=[2, 2], label="all symbolic")
    batch.check()


def test_max_pool_of_other_types():
    batch = Batch()
    batch.add("MaxPool", [f32(1, 3, 8, 8).astype(np.float64)], kernel_shape=[3, 3], strides=[2, 2], label="f64")
    for dtype in (np.int8, np.uint8):
        batch.add(
            "MaxPool",
            [ints(1, 20, 6, 7, low=0 if dtype == np.uint8 else -100, high=120, dtype=dtype)],
            kernel_shape=[3, 3],
            strides=[2, 2],
            pads=[1, 1, 1, 1],
        )
    batch.add("MaxPool", [np.where(np.isnan(s := special(1, 1, 6, 6)), np.float32(0), s)], kernel_shape=[2, 2])
    batch.check()


def test_max_pool_with_indices():
    batch = Batch()
    x = np.round(f32(2, 3, 7, 8) * 2)
    both = {"outputs": [True, True]}
    batch.add("MaxPool", [x], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], **both)
    batch.add("MaxPool", [x], kernel_shape=[2, 3], dilations=[2, 1], ceil_mode=1, strides=[2, 2], **both)
    batch.add("MaxPool", [x], kernel_shape=[3, 3], storage_order=1, **both)
    batch.add("MaxPool", [f32(1, 2, 9)], kernel_shape=[3], **both)
    batch.add(
        "MaxPool",
        [Sym(("N", 2, "H", "W"), [f32(n, 2, h, w) for n, h, w in [(1, 4, 5), (2, 3, 3), (0, 6, 4)]])],
        kernel_shape=[3, 3],
        auto_pad="SAME_LOWER",
        label="symbolic",
        **both,
    )
    batch.check()


def test_global_pools():
    batch = Batch()
    for op in ("GlobalAveragePool", "GlobalMaxPool"):
        batch.add(op, [f32(2, 5, 7, 9)])
        batch.add(op, [f32(2, 70, 9)])
        batch.add(op, [f32(1, 2, 3, 4, 5)])
        batch.add(
            op,
            [Sym(("N", 3, "H", "W"), [f32(n, 3, h, w) for n, h, w in [(1, 7, 9), (2, 1, 1), (0, 5, 5)]])],
            label=f"{op} symbolic",
        )
    batch.check()


def test_lp_pools():
    batch = Batch(opset=21)  # the last one that onnxruntime has them of
    for p in (1, 2, 3):
        batch.add("GlobalLpPool", [f32(2, 3, 4, 5)], p=p)
    batch.add("GlobalLpPool", [Sym(("N", 3, "L"), [f32(2, 3, 5), f32(0, 3, 2), f32(1, 3, 1)])], label="symbolic")
    for p in (1, 2, 3):
        batch.add("LpPool", [f32(2, 3, 7, 8)], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1], p=p)
    batch.add("LpPool", [f32(2, 3, 9)], kernel_shape=[2])
    batch.check()
