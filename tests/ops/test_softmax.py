"""Softmax, LogSoftmax and Hardmax against onnxruntime."""

from __future__ import annotations

import numpy as np

from tests.ops.oracle import Batch, Sym, f32, special


def test_axes_and_lengths():
    batch = Batch(tolerance=3e-6)
    for op in ("Softmax", "LogSoftmax", "Hardmax"):
        for axis in (0, 1, -1):
            batch.add(op, [f32(3, 4, 5)], axis=axis)
        for n in (1, 7, 64, 65, 300):
            batch.add(op, [f32(2, n) * 5])
        batch.add(op, [f32(9)], axis=0)
    batch.add("Softmax", [f32(3, 70).astype(np.float64)])
    batch.add("Softmax", [f32(3, 70, 2).astype(np.float64)], axis=1)
    batch.check()


def test_symbolic():
    batch = Batch(tolerance=3e-6)
    shapes = [(3, 5), (1, 1), (0, 4), (4, 130)]
    for op in ("Softmax", "LogSoftmax"):
        for axis in (0, 1):
            batch.add(op, [Sym(("N", "M"), [f32(n, m) for n, m in shapes])], axis=axis, label=f"{op} {axis} symbolic")
    batch.check()


def test_special_values():
    batch = Batch(tolerance=3e-6)
    rows = np.array(
        [[0, -200, 1, 3], [3e38, 0, -3e38, 1], [-np.inf, 0, 1, 2], [np.nan, 0, 1, 2], [1000, 1000, 999, -1000]],
        np.float32,
    )
    batch.add("Softmax", [rows])
    batch.add("LogSoftmax", [rows[[0, 2, 3, 4]]])
    masked = np.where(special(3, 40) > 0, f32(3, 40), np.float32(-3.4028235e38)).astype(np.float32)
    batch.add("Softmax", [masked], label="masked")
    batch.check()
