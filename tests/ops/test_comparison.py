"""Comparisons, logic and selection against onnxruntime."""

from __future__ import annotations

import numpy as np

from tests.ops.oracle import Batch, Const, Sym, f32, ints, special


def test_comparisons():
    batch = Batch()
    for op in ["Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual"]:
        batch.add(op, [special(18, 1), special(1, 18)])
        for dtype in (np.float64, np.int32, np.int64):
            batch.add(op, [ints(9, 1, dtype=dtype), ints(1, 9, dtype=dtype)])
    large = np.array([0, 5, 2**31, 2**32 - 1], np.uint32)
    batch.add("Less", [large, large[::-1].copy()])
    batch.add("Greater", [large.astype(np.uint64) << 31, large[::-1].astype(np.uint64) << 31])
    batch.add("Equal", [ints(9, low=0, high=2, dtype=bool), ints(9, low=0, high=2, dtype=bool)])
    batch.add("Less", [f32(3, 4), Const(np.float32(0.1))])
    batch.check()


def test_logic():
    batch = Batch()
    a, b = ints(4, 1, low=0, high=2, dtype=bool), ints(5, low=0, high=2, dtype=bool)
    for op in ["And", "Or", "Xor"]:
        batch.add(op, [a, b])
    batch.add("Not", [a])
    batch.add("IsNaN", [special(40)])
    for positive in (0, 1):
        for negative in (0, 1):
            batch.add("IsInf", [special(40)], detect_positive=positive, detect_negative=negative)
    batch.add("IsNaN", [special(40).astype(np.float64)])
    batch.check()


def test_where():
    batch = Batch()
    condition = ints(3, 4, low=0, high=2, dtype=bool)
    for dtype in (np.float32, np.float64, np.int32, np.int64, np.uint8):
        batch.add(
            "Where",
            [condition, ints(3, 4, low=0, dtype=dtype), ints(3, 4, low=0, dtype=dtype)],
            label=f"Where {dtype.__name__}",
        )
    batch.add("Where", [condition, f32(4), f32(2, 1, 1)])
    batch.add("Where", [np.array(True), f32(4), f32(2, 1)])
    sizes = [0, 1, 7]
    batch.add(
        "Where",
        [Sym(("N", 1), [f32(n, 1) > 0 for n in sizes]), Sym(("N", 5), [f32(n, 5) for n in sizes]), Const(f32(5))],
    )
    batch.check()


def test_chain_of_comparisons():
    """A fused chain in which bools are intermediate values only."""
    from onnx import helper as h

    batch = Batch()
    nodes = [
        h.make_node("Greater", ["x", "y"], ["a"]),
        h.make_node("Not", ["a"], ["b"]),
        h.make_node("Equal", ["x", "y"], ["c"]),
        h.make_node("Or", ["b", "c"], ["d"]),
        h.make_node("Where", ["d", "x", "y"], ["e"]),
        h.make_node("Cast", ["d"], ["f"], to=1),
        h.make_node("Mul", ["e", "f"], ["g"]),
    ]
    batch.chain("chain", nodes, ["g", "d"], x=special(3, 20), y=special(20))
    batch.check()
