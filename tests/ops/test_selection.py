"""Operators that choose by value against onnxruntime: NonMaxSuppression, TopK, ArgMax, NonZero, Compress …"""

from __future__ import annotations

import numpy as np

from tests.ops.oracle import Batch, Sym, f32, ints


def boxes(batch: int, count: int, centred: bool = False) -> np.ndarray:
    centre, size = np.abs(f32(batch, count, 2)) * 3, np.abs(f32(batch, count, 2)) * 2
    parts = [centre, size] if centred else [centre - size / 2, centre + size / 2]
    return np.concatenate(parts, -1).astype(np.float32)


def scores(*shape: int) -> np.ndarray:
    return np.round(np.abs(f32(*shape)), 1)  # with equal ones


def test_nms():
    batch = Batch()
    limit, overlap, least = (np.array([v]) for v in (5, np.float32(0.4), np.float32(0.3)))
    batch.add("NonMaxSuppression", [boxes(2, 30), scores(2, 3, 30), limit, overlap, least])
    batch.add("NonMaxSuppression", [boxes(1, 50, True), scores(1, 1, 50), limit, overlap, least], center_point_box=1)
    batch.add("NonMaxSuppression", [boxes(1, 50), scores(1, 2, 50), np.array([2**40]), overlap])
    batch.add("NonMaxSuppression", [boxes(1, 50), scores(1, 2, 50), limit], label="no threshold")
    batch.add("NonMaxSuppression", [boxes(1, 50), scores(1, 2, 50)], label="no limit: nothing")
    batch.add(
        "NonMaxSuppression",
        [boxes(1, 50)[..., [2, 3, 0, 1]].copy(), scores(1, 2, 50), limit, overlap],
        label="other corners",
    )
    batch.add(
        "NonMaxSuppression",
        [boxes(1, 9), scores(1, 2, 9), limit, overlap, np.array([100], np.float32)],
        label="none above",
    )
    batch.add("NonMaxSuppression", [boxes(1, 9), scores(1, 2, 9), np.array([0]), overlap], label="limit 0")
    sizes = [7, 0, 1, 100]
    batch.add(
        "NonMaxSuppression",
        [
            Sym((1, "N", 4), [boxes(1, n) for n in sizes]),
            Sym((1, 2, "N"), [scores(1, 2, n) for n in sizes]),
            limit,
            overlap,
            least,
        ],
        label="symbolic",
    )
    batch.check()


def strange_boxes(centred: bool) -> np.ndarray:
    """Equal ones, points, lines, some turned inside out, tiny and endless ones among others."""
    some = boxes(1, 40, centred)
    some[0, 5:8] = some[0, 4]
    some[0, 8, 2:] = some[0, 8, :2]
    some[0, 9, 2] = 0 if centred else some[0, 9, 0]
    some[0, 10:14, 2:] *= -1
    some[0, 14:16] = some[0, 14] * np.float32(1e-22)
    some[0, 16, 2:] = np.inf
    some[0, 17] = np.float32(3e38)
    return some


def test_nms_of_strange_boxes():
    """Scores with ties, of both zeros and infinite ones, 1 to 3 vectors of candidates; overlaps of 0 and of equal boxes."""
    batch = Batch()
    some = scores(1, 2, 40)
    some[0, 0, [3, 20, 39]], some[0, 1, [1, 2]], some[0, 1, 33] = np.inf, [0.0, -0.0], -np.inf
    limit = np.array([40])
    for centred in (False, True):
        for overlap in (0.0, 0.5, 1.0):
            for count in (40, 16, 17, 15):
                operands = [
                    strange_boxes(centred)[:, :count],
                    some[..., :count],
                    limit,
                    np.array([overlap], np.float32),
                ]
                label = f"{centred} {overlap} {count}"
                batch.add("NonMaxSuppression", operands, center_point_box=int(centred), label=label)
                least = np.array([0.0], np.float32)
                batch.add(
                    "NonMaxSuppression", [*operands, least], center_point_box=int(centred), label=f"{label} least"
                )
    batch.check()


def test_arg_reductions():
    batch = Batch()
    x = np.round(f32(3, 4, 5) * 2)
    for op in ("ArgMax", "ArgMin"):
        for axis in (0, 1, 2, -1):
            batch.add(op, [x], axis=axis, keepdims=axis % 2, select_last_index=int(axis == 1))
        batch.add(op, [ints(4, 30, dtype=np.int32)], axis=1)
        batch.add(op, [ints(4, 30, low=0, dtype=np.uint8)], axis=1)
        batch.add(op, [Sym(("N", "M"), [f32(3, 4), f32(1, 1), f32(0, 7), f32(70, 130)])], axis=1, label="symbolic")
        batch.add(op, [Sym(("N", "M"), [f32(3, 4), f32(1, 1), f32(9, 0), f32(70, 130)])], axis=0, label="symbolic 0")
    batch.check()


def test_nonzero():
    batch = Batch()
    batch.add("NonZero", [ints(3, 4, 5, low=0, high=2)])
    batch.add("NonZero", [ints(40, low=0, high=2, dtype=bool)])
    batch.add("NonZero", [f32(3, 4) > 9])
    batch.add("NonZero", [np.array([0.0, -0.0, np.nan, 1e-42], np.float32)])
    batch.add("NonZero", [Sym(("N", 3), [ints(n, 3, low=0, high=2) for n in (5, 0, 1, 200)])], label="symbolic")
    batch.check()
