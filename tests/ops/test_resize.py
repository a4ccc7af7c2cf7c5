"""Resize (and Upsample) against onnxruntime: every mode, coordinate transformation and rounding; scales and sizes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ops.oracle import Batch, Const, Sym, f32, ints

TRANSFORMATIONS = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel", "half_pixel_symmetric"]


def scales(*values: float) -> Const:
    return Const(np.array(values, np.float32))


def sizes(*values: int) -> Const:
    return Const(np.array(values, np.int64))


@pytest.mark.parametrize("transformation", TRANSFORMATIONS)
def test_transformations(transformation):
    batch = Batch(tolerance=2e-5, opset=19)
    x = f32(1, 3, 7, 9)
    for mode in ("nearest", "linear", "cubic"):
        common = {"mode": mode, "coordinate_transformation_mode": transformation}
        batch.add("Resize", [x, None, scales(1, 1, 2, 3)], **common)
        batch.add("Resize", [x, None, scales(1, 1, 0.7, 0.45)], **common)
        batch.add("Resize", [x, None, None, sizes(1, 3, 10, 4)], **common)
        batch.add("Resize", [x, None, None, sizes(1, 3, 1, 9)], label="to one row", **common)
    batch.check()


def test_nearest_rounding():
    batch = Batch(opset=19)
    for rounding in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
        for transformation in TRANSFORMATIONS[:3]:
            common = {"nearest_mode": rounding, "coordinate_transformation_mode": transformation}
            batch.add("Resize", [f32(1, 1, 6, 8), None, scales(1, 1, 2, 0.75)], **common)
            batch.add("Resize", [f32(1, 1, 6, 8), None, None, sizes(1, 1, 13, 5)], **common)
    batch.check()


def test_cubic_options():
    batch = Batch(tolerance=2e-5, opset=19)
    x = f32(1, 2, 6, 7)
    batch.add("Resize", [x, None, scales(1, 1, 1.7, 0.8)], mode="cubic", cubic_coeff_a=-0.5)
    batch.add("Resize", [x, None, scales(1, 1, 1.7, 0.8)], mode="cubic", exclude_outside=1)
    batch.check()


def test_axes():
    batch = Batch(tolerance=2e-5, opset=19)
    batch.add("Resize", [f32(1, 3, 7, 9), None, scales(2, 3)], mode="linear", axes=[2, 3])
    batch.add("Resize", [f32(1, 3, 7, 9), None, None, sizes(4, 5)], mode="nearest", axes=[3, 2])
    batch.add("Resize", [f32(1, 3, 7), None, scales(1, 1, 2)], mode="linear")
    batch.add("Resize", [f32(6, 7), None, scales(2, 0.5)], mode="linear")
    batch.add("Resize", [f32(1, 2, 4, 5, 6), None, scales(1, 1, 2, 1, 1.5)], mode="nearest")
    batch.add("Resize", [f32(1, 2, 4, 5, 6), None, scales(1, 1, 2, 1.5, 0.5)], mode="linear")
    batch.check()


def test_symbolic():
    batch = Batch(tolerance=2e-5, opset=19)
    images = [f32(n, 2, h, w) for n, h, w in [(1, 7, 9), (2, 1, 1), (3, 20, 6)]]
    x = Sym(("N", 2, "H", "W"), images)
    for mode in ("nearest", "linear"):
        batch.add("Resize", [x, None, scales(1, 1, 2, 2)], mode=mode, label=f"{mode} symbolic")
        batch.add(
            "Resize",
            [x, None, scales(1, 1, 2, 2)],
            mode=mode,
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )
        batch.add("Resize", [x, None, scales(1, 1, 1.5, 0.7)], mode=mode, label=f"{mode} 1.5")
        given = [np.array([1, 1, a, b], np.float32) for a, b in [(2, 0.5), (3, 4), (0.3, 1.6)]]
        batch.add("Resize", [x, None, Sym((4,), given)], mode=mode, label=f"{mode} scales at run time")
        wanted = [np.array([n, 2, a, b]) for n, a, b in [(1, 5, 5), (2, 3, 2), (3, 40, 7)]]
        batch.add("Resize", [x, None, None, Sym((4,), wanted)], mode=mode, label=f"{mode} sizes at run time")
    batch.check()


def test_element_types():
    batch = Batch(opset=19)
    batch.add("Resize", [ints(1, 2, 5, 6, dtype=np.int32), None, scales(1, 1, 2, 2)], mode="nearest")
    batch.add("Resize", [ints(1, 2, 5, 6, low=0, high=255, dtype=np.uint8), None, scales(1, 1, 2, 2)], mode="nearest")
    batch.add(
        "Resize", [ints(1, 2, 5, 6, low=-100, high=100, dtype=np.int8), None, scales(1, 1, 0.5, 2)], mode="nearest"
    )
    batch.check()


def test_upsample():
    batch = Batch(opset=9)
    batch.add("Upsample", [f32(1, 2, 3, 4), scales(1, 1, 2, 3)])
    batch.add("Upsample", [f32(1, 2, 3, 4), scales(1, 1, 2, 2)], mode="linear")
    batch.check()
