"""Steps of operators on images to newer versions: resizing, sampling, regions."""

from __future__ import annotations

import numpy as np
import pytest

from .models import agree, names
from .test_upgrade import IMAGE, RNG, one


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scales", [[1, 1, 2, 2], [1, 1, 1.5, 3], [1, 1, 2, 1]])
def test_upsample(mode: str, scales: list[float]) -> None:
    attribute = one("Upsample", 7, IMAGE, mode=mode, scales=[float(s) for s in scales])
    operand = one("Upsample", 9, IMAGE, {"s": np.array(scales, np.float32)}, mode=mode)
    for model_ in (attribute, operand):
        program = agree(model_, IMAGE)
        assert "onnx.Resize" in names(program)


@pytest.mark.parametrize("mode", ["nearest", "linear"])
@pytest.mark.parametrize("scales", [[1, 1, 2, 2], [1, 1, 0.5, 0.5], [1, 1, 0.6, 0.8]])
def test_resize_of_opset_10(mode: str, scales: list[float]) -> None:
    agree(one("Resize", 10, IMAGE, {"s": np.array(scales, np.float32)}, mode=mode), IMAGE)


@pytest.mark.parametrize("opset", [11, 13, 18])
@pytest.mark.parametrize("by", ["scales", "sizes"])
@pytest.mark.parametrize("transformation", ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"])
def test_resize(opset: int, by: str, transformation: str) -> None:
    empty = np.zeros(0, np.float32)
    scales = np.array([1, 1, 2, 1.5], np.float32)
    sizes = np.array([1, 2, 7, 3])
    constants = {"roi": empty, "s": scales} if by == "scales" else {"roi": empty, "s": empty, "z": sizes}
    model_ = one("Resize", opset, IMAGE, constants, mode="linear", coordinate_transformation_mode=transformation)
    agree(model_, IMAGE, tolerance=1e-4)


@pytest.mark.parametrize("modes", [("bilinear", "linear"), ("nearest", "nearest"), ("bicubic", "cubic")])
def test_grid_sample(modes: tuple[str, str]) -> None:
    grid = RNG.uniform(-1, 1, (1, 3, 3, 2)).astype(np.float32)
    program = agree(one("GridSample", 16, IMAGE, {"g": grid}, mode=modes[0]), IMAGE, tolerance=1e-4)
    assert f'mode = "{modes[1]}"' in str(program.module)


def test_roi_align_keeps_its_corner() -> None:
    constants = {"rois": np.array([[0.5, 0.5, 3, 3]], np.float32), "batch": np.array([0])}
    agree(one("RoiAlign", 10, IMAGE, constants, output_height=2, output_width=2), IMAGE, tolerance=1e-4)
