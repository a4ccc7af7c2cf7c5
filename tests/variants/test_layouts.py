"""One copy of the weights, whatever tiles the variants' heuristics like."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto

import onnxc
from onnxc.runtime import InferenceSession
from tests.variants import models

ISA = ("x86-64-v2", "x86-64-v3", "x86-64-v4")
TOKENS = ["batch=1,seq=1", "batch=1,seq=8", "batch=1", "batch=2..4,seq%4=0", "seq%8=0", "batch=3"]


def test_ten_variants_hold_the_weights_once(tmp_path: Path) -> None:
    model = models.tokens(width=512)
    plain = onnxc.compile(model, tmp_path / "plain.so", isa=ISA[1:2])
    many = onnxc.compile(model, tmp_path / "many.so", variants=TOKENS, isa=ISA)
    assert many.variants == 3 * (len(TOKENS) + 1)
    assert many.weights <= 1.03 * plain.weights
    assert any(name == "share_layouts" for name, _ in many.log)


def test_panels_narrower_than_a_vector(tmp_path: Path) -> None:
    """On a core that halves wide vectors 40 columns are five of 8: one row, which takes wide ones, reads these too."""
    plain = onnxc.compile(models.tokens(width=512), tmp_path / "plain.so", mcpu="znver4")
    many = onnxc.compile(models.tokens(width=512), tmp_path / "many.so", mcpu="znver4", variants=TOKENS)
    assert many.variants == len(TOKENS) + 1
    assert many.weights <= 1.03 * plain.weights


def test_one_copy_of_transformed_weights(tmp_path: Path) -> None:
    """F(4×4) one step after the other, since L2 does not hold these weights, and a group of tiles at a time."""
    plain = onnxc.compile(models.filtering(), tmp_path / "plain.so", mcpu="x86-64-v3")
    many = onnxc.compile(models.filtering(), tmp_path / "many.so", mcpu="x86-64-v3", variants=["batch=1,h=14,w=14"])
    steps = {line.partition("3), ")[2] for name, line in many.log if name == "use_winograd"}
    assert steps == {"", "24 tiles at a time"}
    assert many.weights == plain.weights
    x = np.random.default_rng(0).standard_normal((1, 128, 14, 14), dtype=np.float32)
    y, expected = (InferenceSession(tmp_path / name).run(None, {"x": x})[0] for name in ("many.so", "plain.so"))
    assert np.abs(y - expected).max() <= 1e-5 * np.abs(expected).max()


@pytest.mark.parametrize(
    ("model", "specs", "shapes"),
    [
        (models.tokens(), TOKENS, [(1, 1, 48), (1, 8, 48), (2, 4, 48), (5, 3, 48)]),
        (models.image(), ["batch=1,h=16,w=16", "h%8=0,w%8=0"], [(1, 3, 16, 16), (2, 3, 24, 32), (1, 3, 19, 33)]),
    ],
)
def test_tiles_of_a_part_of_a_panel(
    tmp_path: Path, model: ModelProto, specs: list[str], shapes: list[tuple[int, ...]]
) -> None:
    """Every instruction set reads the panels that the best one chose."""
    onnxc.compile(model, tmp_path / "plain.so", strict=True, isa=ISA[1:2])
    onnxc.compile(model, tmp_path / "many.so", strict=True, variants=specs, isa=ISA)
    reference = InferenceSession(tmp_path / "plain.so")
    names = reference.library.feature_names
    for hidden in ("", "avx512f", "avx2"):
        mask = sum(1 << bit for bit, name in enumerate(names) if name != hidden)
        session = InferenceSession(tmp_path / "many.so", isa_mask=mask, threads=2)
        for shape in shapes:
            x = np.random.default_rng(math.prod(shape)).standard_normal(shape, dtype=np.float32)
            (y,), (expected,) = session.run(None, {"x": x}), reference.run(None, {"x": x})
            if hidden == "avx2":  # without fused multiply-adds
                np.testing.assert_allclose(y, expected, rtol=1e-5, atol=1e-5)
            else:
                np.testing.assert_array_equal(y, expected)
