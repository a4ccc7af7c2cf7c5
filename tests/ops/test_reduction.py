"""Reductions against onnxruntime: axes, keepdims, element types, symbolic and empty shapes, special values."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.oracle import Batch, Const, Sym, f32, ints, run_compiled, special

REDUCTIONS = [
    "ReduceSum",
    "ReduceMean",
    "ReduceMax",
    "ReduceMin",
    "ReduceProd",
    "ReduceL1",
    "ReduceL2",
    "ReduceSumSquare",
    "ReduceLogSum",
    "ReduceLogSumExp",
]


def axes(*values: int) -> Const:
    return Const(np.array(values, np.int64))


@pytest.mark.parametrize("op", REDUCTIONS)
def test_axes(op):
    batch = Batch(tolerance=2e-5)
    x = np.abs(f32(3, 5, 7)) + np.float32(0.1)
    for over in [(0,), (1,), (2,), (-1, 0), (1, 2), (0, 1), (0, 1, 2)]:
        batch.add(op, [x, axes(*over)], keepdims=sum(over) % 2, label=f"{op} {over}")
    batch.add(op, [x])
    batch.add(op, [x], noop_with_empty_axes=1)
    batch.add(op, [np.abs(f32(2, 300)), axes(1)], label=f"{op} long")
    batch.add(op, [np.abs(f32(64, 33)) + np.float32(0.9), axes(0)], label=f"{op} columns")
    batch.check()


def test_lengths():
    batch = Batch(tolerance=2e-5)
    for n in (1, 7, 63, 64, 65, 128, 200):
        batch.add("ReduceSum", [f32(2, n), axes(1)], label=f"rows {n}")
        batch.add("ReduceMax", [f32(n, 17), axes(0)], label=f"columns {n}")
        batch.add("ReduceMean", [f32(2, 3, n, 2), axes(1, 2)], label=f"middle {n}")
    batch.check()


def test_symbolic():
    batch = Batch(tolerance=2e-5)
    shapes = [(3, 5), (1, 1), (4, 130), (70, 3), (0, 4), (4, 0)]
    for op in ["ReduceSum", "ReduceMean", "ReduceMax", "ReduceL2"]:
        # onnxruntime refuses the maximum of nothing, and its mean of nothing is not the standard's
        some = shapes if op in ("ReduceSum", "ReduceL2") else shapes[:4]
        grids = [f32(n, m) for n, m in some]
        for over in [(0,), (1,), (0, 1)]:
            batch.add(op, [Sym(("N", "M"), grids), axes(*over)], keepdims=0, label=f"{op} {over} symbolic")
        batch.add(op, [Sym(("N", 3, "M"), [f32(n, 3, m) for n, m in some]), axes(0, 2)], label=f"{op} N3M")
    batch.check()


@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.int64])
def test_element_types(dtype):
    batch = Batch(tolerance=1e-12)
    for op in ["ReduceSum", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceMean", "ReduceL1", "ReduceSumSquare"]:
        if dtype == np.int64 and op in ("ReduceMean", "ReduceL1", "ReduceSumSquare"):
            continue  # onnxruntime has no such kernel
        for axis in (0, 1):
            batch.add(
                op,
                [ints(5, 70 if op != "ReduceProd" else 6, dtype=dtype), axes(axis)],
                label=f"{op} {axis} {dtype.__name__}",
            )
    batch.check()


def test_small_integers_and_bool():
    batch = Batch()
    for dtype, low in ((np.int8, -100), (np.uint8, 0)):
        for op in ["ReduceMax", "ReduceMin"]:
            batch.add(op, [ints(5, 70, low=low, high=120, dtype=dtype), axes(1)])
            batch.add(op, [ints(5, 70, low=low, high=120, dtype=dtype), axes(0)])
    for op in ["ReduceMax", "ReduceMin"]:
        batch.add(op, [ints(5, 3, low=0, high=2, dtype=bool), axes(1)])
    batch.check()


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint32, np.uint64])
def test_integers(dtype):
    """Against the mathematics, since onnxruntime has few of them: unsigned elements up to the top of their range, and
    roots and logarithms truncated once."""
    high = 1 if np.dtype(dtype).kind == "i" else 1 << 31
    x = (np.arange(1, 7).reshape(2, 3) * [[1], [-1 if high == 1 else 1]]).astype(dtype)
    x[0, 0] = high
    wide = x.astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        expected = {
            "ReduceMean": np.trunc(x.sum(1) / 3),
            "ReduceL1": np.abs(wide).sum(1),
            "ReduceL2": np.trunc(np.sqrt((wide**2).sum(1))),
            "ReduceLogSum": np.trunc(np.log(np.abs(wide).sum(1))),
            "ReduceLogSumExp": np.trunc(wide.max(1) + np.log(np.exp(wide - wide.max(1, keepdims=True)).sum(1))),
        }
    batch = Batch()
    for op in expected:
        batch.add(op, [np.abs(x) if op == "ReduceLogSum" else x, axes(1)], keepdims=0)
    (results,) = run_compiled(batch.model(), [{name: runs[0] for name, runs in batch.feeds.items()}])
    for op, got in zip(expected, results, strict=True):
        np.testing.assert_array_equal(got, expected[op].astype(dtype), op)


def test_special_values():
    batch = Batch()
    x = special(18)
    rows = np.stack(
        [
            np.roll(np.where(np.isnan(x), np.float32(2), x), 3),
            np.full(18, -np.inf, np.float32),
            np.full(18, np.inf, np.float32),
        ]
    )
    for op in ["ReduceSum", "ReduceMax", "ReduceMin", "ReduceLogSumExp"]:
        batch.add(op, [rows, axes(1)])
    nan = np.array([[1, np.nan, 3], [4, 5, 6]], np.float32)
    for op in ["ReduceSum", "ReduceMean"]:
        batch.add(op, [nan, axes(1)])
        batch.add(op, [nan, axes(0)])
    batch.add("ReduceLogSumExp", [np.array([[1000.0, 1000], [-1000, -1000.5]], np.float32), axes(1)])
    batch.check()


def test_fused_around():
    """Element-wise ops before and after a reduction are computed in its kernel."""
    from onnx import helper as h

    batch = Batch(tolerance=2e-5)
    for name, over in (("a", 1), ("b", 0)):
        nodes = [
            h.make_node("Mul", [f"{name}x", f"{name}x"], [f"{name}s"]),
            h.make_node("Sub", [f"{name}s", f"{name}k"], [f"{name}d"]),
            h.make_node("ReduceMean", [f"{name}d", f"{name}axes"], [f"{name}m"], keepdims=1),
            h.make_node("Add", [f"{name}m", f"{name}k"], [f"{name}e"]),
            h.make_node("Sqrt", [f"{name}e"], [f"{name}r"]),
        ]
        batch.chain(
            f"axis {over}",
            nodes,
            [f"{name}r"],
            **{
                f"{name}x": Sym(("N", "M"), [f32(5, 70), f32(1, 3), f32(80, 33)]),
                f"{name}k": Const(np.float32(0.5)),
                f"{name}axes": axes(over),
            },
        )
    batch.check()
