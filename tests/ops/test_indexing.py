"""Gather, GatherElements, GatherND, ScatterElements, ScatterND, OneHot … against onnxruntime; bad indices fail."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.oracle import Batch, Const, Sym, f32, ints, run_compiled


def test_gather():
    batch = Batch()
    x = f32(4, 5, 6)
    for axis in (0, 1, -1):
        batch.add("Gather", [x, ints(3, low=-4, high=4)], axis=axis)
        batch.add("Gather", [x, ints(2, 3, low=-4, high=4, dtype=np.int32)], axis=axis)
        batch.add("Gather", [x, np.array(2)], axis=axis, label="scalar")
        batch.add("Gather", [x, Const(np.array([1, -1]))], axis=axis, label="constant")
    batch.add("Gather", [ints(50, 3), ints(7, low=0, high=50)], label="i64")
    batch.add("Gather", [x > 0, ints(7, low=0, high=4)], label="bool")
    batch.add(
        "Gather",
        [Const(f32(30, 8)), Sym(("N", "M"), [ints(n, m, low=0, high=30) for n, m in [(2, 3), (0, 1), (1, 40)]])],
        label="table",
    )
    rows = [5, 1, 9]
    batch.add(
        "Gather",
        [
            Sym(("N", 4), [f32(n, 4) for n in rows]),
            Sym(("M",), [ints(m, low=-n, high=n) for n, m in zip(rows, (3, 0, 2), strict=True)]),
        ],
        label="symbolic",
    )
    batch.check()


def test_gather_elements():
    batch = Batch()
    x = f32(4, 5, 6)
    for axis in (0, 1, -1):
        batch.add("GatherElements", [x, ints(3, 4, 2, low=-4, high=4)], axis=axis)
    batch.add("GatherElements", [x, ints(4, 5, 6, low=0, high=4, dtype=np.int32)], axis=0)
    sizes = [(3, 4), (1, 1), (0, 3)]
    batch.add(
        "GatherElements",
        [
            Sym(("N", 6), [f32(max(n, 1), 6) for n, _ in sizes]),
            Sym(("A", "B"), [ints(n and 1, m, low=0, high=6) for n, m in sizes]),
        ],
        axis=1,
        label="symbolic",
    )
    batch.check()


def test_gather_nd():
    batch = Batch()
    x = f32(4, 5, 6)
    batch.add("GatherND", [x, ints(3, 1, low=-4, high=4)])
    batch.add("GatherND", [x, ints(2, 3, 2, low=0, high=4)])
    batch.add("GatherND", [x, ints(7, 3, low=-4, high=4)])
    batch.add("GatherND", [x, ints(4, 2, 1, low=0, high=5)], batch_dims=1)
    batch.add("GatherND", [x, ints(4, 5, 1, low=0, high=5)], batch_dims=2)
    batch.add(
        "GatherND",
        [Sym(("N", 5), [f32(n, 5) for n in (3, 1, 8)]), Sym(("M", 2), [ints(m, 2, low=0, high=1) for m in (4, 0, 1)])],
        label="symbolic",
    )
    batch.check()


@pytest.mark.parametrize("reduction", ["none", "add", "mul", "max", "min"])
def test_scatter(reduction):
    batch = Batch(opset=18)
    x, how = f32(4, 5, 6), {"reduction": reduction}
    for axis in (0, 1, -1) if reduction in ("none", "add") else (1,):
        # no index twice where the order is not the standard's
        places = (
            np.argsort(f32(4, 5, 6), axis=axis).astype(np.int64)
            if reduction == "none"
            else ints(3, 4, 5, low=-4, high=4)
        )
        places = np.take(places, range(3), axis=axis) if reduction == "none" else places
        batch.add("ScatterElements", [x, places, f32(*places.shape)], axis=axis, **how)
    once = np.random.default_rng(0).permutation(20)[:7]
    nd = np.stack([once // 5, once % 5], -1)
    batch.add("ScatterND", [x, nd, f32(7, 6)], **how)
    batch.add(
        "ScatterND", [x, nd.reshape(7, 1, 2)[:, :, :1][:2] * 0 + np.array([[[1]], [[3]]]), f32(2, 1, 5, 6)], **how
    )
    batch.add("ScatterND", [ints(9), np.array([[1], [-2], [4]]), ints(3)], label="i64", **how)
    batch.add(
        "ScatterND",
        [
            Sym(("N", 3), [f32(n, 3) for n in (5, 4, 9)]),
            Sym(("M", 1), [np.arange(m).reshape(m, 1) for m in (2, 0, 4)]),
            Sym(("M", 3), [f32(m, 3) for m in (2, 0, 4)]),
        ],
        label="symbolic",
        **how,
    )
    batch.check()


def test_one_hot():
    batch = Batch()
    values = np.array([-1, 5], np.float32)
    for axis in (0, 1, -1):
        batch.add("OneHot", [ints(3, 4, low=-6, high=6), Const(np.array(5)), values], axis=axis)
    batch.add(
        "OneHot", [ints(3, 4, low=-6, high=6, dtype=np.int32), Const(np.array([5], np.int32)), values], label="i32"
    )
    batch.add("OneHot", [f32(3), Const(np.array(5.0, np.float32)), values], label="f32")
    batch.add(
        "OneHot", [ints(3, low=0, high=2), Sym((), [np.array(3), np.array(7)]), values], label="depth at run time"
    )
    batch.check()


def test_cumulative_sums():
    batch = Batch()
    for exclusive in (0, 1):
        for reverse in (0, 1):
            for axis in (0, 1, -1) if exclusive == reverse else (1,):
                batch.add("CumSum", [f32(4, 5, 3), Const(np.array(axis))], exclusive=exclusive, reverse=reverse)
    batch.add("CumSum", [ints(4, 5), Const(np.array([1], np.int32))])
    batch.add(
        "CumSum",
        [Sym(("N", "M"), [f32(n, m) for n, m in [(3, 4), (0, 2), (70, 1)]]), Const(np.array(0))],
        label="symbolic",
    )
    batch.add("CumSum", [f32(4, 5, 3), Sym((), [np.array(a) for a in (0, -1, 1)])], label="axis at run time")
    batch.check()


def test_reverse_sequence():
    batch = Batch()
    batch.add("ReverseSequence", [f32(5, 3, 2), np.array([5, 1, 3])])
    batch.add("ReverseSequence", [f32(3, 5, 2), np.array([5, 1, 3])], batch_axis=0, time_axis=1)
    batch.check()


def test_compress():
    batch = Batch()
    condition = Sym((4,), [np.array(c, bool) for c in ([1, 0, 1, 1], [0, 0, 0, 0])])
    for axis in (0, 1, -1):
        batch.add("Compress", [f32(4, 4, 4), condition], axis=axis)
    batch.add("Compress", [f32(3, 4), condition], label="flat")
    batch.add("Compress", [ints(3, 5), condition], axis=1, label="short condition")
    batch.check()


def test_top_k():
    batch = Batch()
    x = np.round(f32(3, 40) * 5)
    both = {"outputs": 2}
    for largest in (0, 1):
        for k in (5, 40) if largest else (1,):
            batch.add("TopK", [x, Const(np.array([k]))], largest=largest, **both)
        batch.add("TopK", [f32(3, 4, 5), Const(np.array([2]))], axis=1, largest=largest, **both)
        batch.add("TopK", [ints(3, 40), Const(np.array([7]))], largest=largest, label="i64", **both)
    batch.add(
        "TopK",
        [Sym(("N", "M"), [f32(n, m) for n, m in [(3, 4), (0, 5), (2, 300)]]), Const(np.array([3]))],
        label="symbolic",
        **both,
    )
    batch.add("TopK", [f32(3, 9), Sym((1,), [np.array([k]) for k in (2, 9, 0)])], label="k at run time", **both)
    batch.check()


@pytest.mark.parametrize("op", ["Gather", "GatherElements", "GatherND", "ScatterElements", "ScatterND"])
def test_bad_indices_fail(op):
    """An index out of range is an error that names the node, and nothing is read or written there."""
    batch = Batch()
    data, bad = f32(3, 4), np.array([[0, 1], [3, 7]])
    operands = {
        "Gather": [data, bad],
        "GatherElements": [data, bad],
        "GatherND": [data, bad],
        "ScatterElements": [data, bad, f32(2, 2)],
        "ScatterND": [data, bad, f32(2)],
    }[op]
    batch.add(op, operands)
    model = batch.model()
    with pytest.raises(Exception, match=rf"{op}_0.*out of range"):
        run_compiled(model, [{name: runs[0] for name, runs in batch.feeds.items()}])
