"""Operators that move elements against onnxruntime: Transpose, Slice, Concat, Split, Pad, Expand, Tile …"""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.ops.oracle import Batch, Const, Sym, f32, ints


def i64(*values: int) -> Const:
    return Const(np.array(values, np.int64))


def test_transpose():
    batch = Batch()
    for perm in itertools.permutations(range(3)):
        batch.add("Transpose", [f32(3, 5, 7)], perm=perm)
    for perm in [(0, 2, 3, 1), (0, 3, 1, 2), (3, 2, 1, 0), (1, 0, 3, 2)]:
        batch.add("Transpose", [f32(2, 20, 17, 33)], perm=perm)
    batch.add("Transpose", [f32(70, 90)])
    for dtype in (np.int8, np.int64, bool, np.float16, np.float64):
        batch.add("Transpose", [ints(3, 40, dtype=dtype)], label=f"Transpose {dtype.__name__}")
    shapes = [(2, 3, 4), (0, 3, 1), (1, 1, 1), (33, 2, 70)]
    batch.add("Transpose", [Sym(("A", "B", "C"), [f32(*s) for s in shapes])], perm=(2, 0, 1), label="symbolic")
    batch.add(
        "Transpose", [Sym(("A", 8, "C"), [f32(a, 8, c) for a, _, c in shapes])], perm=(0, 2, 1), label="symbolic 8"
    )
    batch.check()


@pytest.mark.parametrize("constant", [True, False])
def test_slice(constant):
    batch = Batch()

    def bound(*values: int):
        return i64(*values) if constant else np.array(values, np.int64)

    x = f32(6, 7, 5)
    for starts, ends, axes, steps in [
        ((1,), (4,), (0,), (1,)),
        ((-3, 1), (1000, -1), (0, 2), (1, 2)),
        ((5, -1), (-1000, -8), (0, 1), (-1, -2)),
        ((4,), (2,), (1,), (1,)),
        ((100,), (200,), (1,), (1,)),
        ((2,), (-100,), (-1,), (-1,)),
        ((0,), (2**62,), (1,), (3,)),
        ((-100,), (100,), (2,), (4,)),
        ((0,), (-1,), (0,), (-1,)),
        ((2**62,), (-(2**62),), (0,), (-2,)),
    ]:
        batch.add(
            "Slice",
            [
                x,
                bound(*starts),
                bound(*ends),
                bound(*axes) if constant else i64(*axes),
                bound(*steps) if constant else i64(*steps),
            ],
            label=f"Slice {starts} {ends} {axes} {steps}",
        )
    batch.add("Slice", [x, bound(1, 2), bound(3, 100)])
    batch.check()


def test_symbolic_slice():
    batch = Batch()
    grids = [f32(n, m) for n, m in [(6, 7), (1, 1), (0, 3), (40, 2)]]
    for starts, ends, steps in [((1, 0), (3, 2), (1, 1)), ((-2, -1), (2**60, -5), (1, -1)), ((0, 0), (-1, -1), (1, 2))]:
        batch.add(
            "Slice",
            [Sym(("N", "M"), grids), i64(*starts), i64(*ends), i64(0, 1), i64(*steps)],
            label=f"{starts} {ends} {steps}",
        )
    ends = [np.array([e], np.int64) for e in (2, 0, -1, 100)]
    batch.add("Slice", [Sym(("N", "M"), grids), i64(0), Sym((1,), ends), i64(0)], label="end at run time")
    batch.check()


def test_concat():
    batch = Batch()
    batch.add("Concat", [f32(2, 3, 4), f32(2, 1, 4), f32(2, 5, 4)], axis=1)
    batch.add("Concat", [f32(2, 3), f32(2, 0), f32(2, 70)], axis=-1)
    batch.add("Concat", [f32(2, 3), f32(1, 3)], axis=0)
    batch.add("Concat", [f32(2, 3)], axis=0)
    for dtype in (np.int64, bool, np.int8, np.float64):
        batch.add(
            "Concat", [ints(4, 3, dtype=dtype), ints(4, 2, dtype=dtype)], axis=1, label=f"Concat {dtype.__name__}"
        )
    rows = [3, 0, 1, 50]
    batch.add(
        "Concat",
        [Sym(("N", 3), [f32(n, 3) for n in rows]), Sym(("M", 3), [f32(n, 3) for n in rows[::-1]])],
        axis=0,
        label="symbolic 0",
    )
    batch.add(
        "Concat",
        [
            Sym(("N", "A"), [f32(n, 3) for n in rows]),
            Sym(("N", "B"), [f32(n, m) for n, m in zip(rows, rows[::-1], strict=True)]),
        ],
        axis=1,
        label="symbolic 1",
    )
    x = f32(3, 4)
    batch.add("Concat", [x, x], axis=0)
    batch.check()


def test_split():
    batch = Batch()
    batch.add("Split", [f32(4, 6), i64(1, 2, 3)], axis=1, outputs=3)
    batch.add("Split", [f32(4, 6)], axis=0, num_outputs=2, outputs=2)
    batch.add("Split", [f32(7, 2)], axis=0, num_outputs=3, outputs=3, label="uneven")
    batch.add("Split", [f32(4, 6), i64(0, 4)], outputs=2)
    batch.add(
        "Split",
        [Sym(("N", 6), [f32(n, 6) for n in (4, 0, 2)])],
        axis=1,
        num_outputs=3,
        outputs=3,
        label="symbolic rows",
    )
    batch.add(
        "Split",
        [Sym(("N", 3), [f32(n, 3) for n in (4, 8, 2)])],
        axis=0,
        num_outputs=2,
        outputs=2,
        label="symbolic axis",
    )
    batch.check()


@pytest.mark.parametrize("mode", ["constant", "edge", "reflect", "wrap"])
def test_pad(mode):
    batch = Batch()
    for pads in [(0, 1, 0, 2), (2, 0, 1, 0), (1, 2, 2, 1), (0, 0, 0, 0), (-1, 0, 0, -2), (-1, 2, 2, -1)]:
        if mode in ("reflect", "wrap") and min(pads) < 0:
            continue
        batch.add("Pad", [f32(4, 5), i64(*pads)], mode=mode, label=f"{mode} {pads}")
    batch.add("Pad", [f32(2, 3, 6), i64(1, 2), None, i64(-1)], mode=mode, label=f"{mode} axes")
    batch.add("Pad", [f32(1, 2, 3, 40), i64(0, 0, 1, 1, 0, 0, 1, 1)], mode=mode)
    batch.add(
        "Pad",
        [Sym(("N", "M"), [f32(n, m) for n, m in [(4, 5), (3, 3), (70, 40)]]), i64(1, 2, 2, 1)],
        mode=mode,
        label="symbolic",
    )
    pads = [np.array(p, np.int64) for p in [(0, 1, 2, 0), (1, 1, 1, 1), (0, 0, 0, 0)]]
    batch.add("Pad", [f32(4, 5), Sym((4,), pads)], mode=mode, label=f"{mode} at run time")
    if mode == "constant":
        batch.add("Pad", [f32(3, 3), i64(1, 1, 1, 1), np.float32(7)], label="value at run time")
        batch.add("Pad", [f32(3, 3), i64(1, 1, 1, 1), Const(np.float32(-np.inf))])
        batch.add("Pad", [ints(3, 3), i64(1, 1, 1, 1), Const(np.int64(5))])
        batch.add("Pad", [f32(0, 3), i64(1, 1, 1, 1)], label="of nothing")
        batch.add("Pad", [f32(5), i64(2, 3)])
    batch.check()


def test_expand_and_tile():
    batch = Batch()
    batch.add("Expand", [f32(3, 1), i64(2, 1, 4)])
    batch.add("Expand", [f32(3, 4), i64(1, 1)])
    batch.add("Expand", [f32(), i64(2, 3)])
    batch.add("Expand", [f32(1), i64(0, 3)])
    shapes = [np.array(s, np.int64) for s in [(2, 3, 4), (1, 1, 1), (5, 3, 1), (0, 3, 4)]]
    batch.add("Expand", [f32(3, 1), Sym((3,), shapes)], label="Expand at run time")
    batch.add("Tile", [f32(2, 3), i64(2, 3)])
    batch.add("Tile", [f32(2, 3), i64(1, 0)])
    batch.add("Tile", [ints(4), i64(3)])
    batch.add(
        "Tile",
        [f32(2, 3), Sym((2,), [np.array(s, np.int64) for s in [(1, 2), (3, 1), (0, 0)]])],
        label="Tile at run time",
    )
    batch.add("Tile", [Sym(("N", 2), [f32(n, 2) for n in (3, 0, 1)]), i64(2, 2)], label="Tile symbolic")
    batch.check()


def test_reshapes():
    batch = Batch()
    batch.add("Reshape", [f32(2, 3, 4), i64(0, -1)])
    batch.add("Reshape", [f32(2, 3, 4), i64(4, 3, 2)])
    batch.add("Reshape", [f32(1), i64()])
    sizes = [2, 1, 7]
    batch.add("Reshape", [Sym(("N", 3, 4), [f32(n, 3, 4) for n in sizes]), i64(-1, 6)], label="symbolic")
    batch.add("Reshape", [Sym(("N", "M"), [f32(n, 6) for n in sizes]), i64(0, 2, -1)], label="symbolic 0")
    shapes = [np.array(s, np.int64) for s in [(2, 12), (-1, 3), (24, 0)]]
    batch.add(
        "Reshape", [Sym(("N", "M"), [f32(24, 1), f32(3, 8), f32(24, 0)]), Sym((2,), shapes)], label="shape at run time"
    )
    batch.add("Flatten", [f32(2, 3, 4)], axis=2)
    batch.add("Flatten", [f32(2, 3, 4)], axis=0)
    batch.add("Flatten", [Sym(("N", 3, "M"), [f32(n, 3, n) for n in sizes])], axis=-1, label="Flatten symbolic")
    batch.add("Squeeze", [f32(1, 3, 1)])
    batch.add("Squeeze", [f32(1, 3, 1), i64(-1)])
    batch.add("Unsqueeze", [f32(3, 4), i64(0, -1)])
    batch.add("Shape", [f32(3, 4)])
    batch.add("Shape", [Sym(("N", 3, "M"), [f32(n, 3, n) for n in sizes])], start=1, label="Shape symbolic")
    batch.add("Shape", [Sym(("N", 3, "M"), [f32(n, 3, n) for n in sizes])], end=-1, label="Shape symbolic end")
    batch.add("Size", [Sym(("N", 3, "M"), [f32(n, 3, n) for n in sizes])], label="Size symbolic")
    batch.check()


def test_space_and_depth():
    batch = Batch()
    batch.add("DepthToSpace", [f32(2, 12, 3, 4)], blocksize=2, mode="DCR")
    batch.add("DepthToSpace", [f32(2, 12, 3, 4)], blocksize=2, mode="CRD")
    batch.add("SpaceToDepth", [f32(2, 3, 4, 6)], blocksize=2)
    images = [f32(n, 8, h, 5) for n, h in [(1, 3), (2, 1), (0, 4)]]
    batch.add("DepthToSpace", [Sym(("N", 8, "H", 5), images)], blocksize=2, label="symbolic")
    batch.check()


def test_made_tensors():
    batch = Batch()
    shapes = [np.array(s, np.int64) for s in [(2, 3), (0, 4), (1, 1)]]
    batch.add("ConstantOfShape", [Sym((2,), shapes)], label="ConstantOfShape 0")
    for value in (np.array([2.5], np.float32), np.array([-7], np.int64), np.array([True])):
        from onnx import numpy_helper

        batch.add(
            "ConstantOfShape",
            [Sym((2,), shapes)],
            value=numpy_helper.from_array(value),
            label=f"ConstantOfShape {value}",
        )
    batch.add("Range", [np.array(0), np.array(7), np.array(2)], label="Range i64")
    batch.add("Range", [np.array(5), np.array(-7), np.array(-3)], label="Range down")
    batch.add("Range", [np.float32(0.5), np.float32(3), np.float32(0.25)], label="Range f32")
    batch.add("Range", [np.array(3), np.array(3), np.array(1)], label="Range empty")
    batch.add("EyeLike", [f32(4, 6)], k=1)
    batch.add("EyeLike", [Sym(("N", "M"), [f32(3, 4), f32(0, 2), f32(5, 1)])], k=-1, label="EyeLike symbolic")
    for upper in (0, 1):
        batch.add("Trilu", [f32(2, 5, 6)], upper=upper)
        batch.add("Trilu", [f32(5, 6), Const(np.array(2))], upper=upper)
        batch.add("Trilu", [f32(5, 6), Const(np.array(-3))], upper=upper)
        batch.add("Trilu", [f32(5, 6), np.array(-1)], upper=upper, label="Trilu at run time")
        batch.add("Trilu", [ints(5, 5)], upper=upper)
    batch.check()
