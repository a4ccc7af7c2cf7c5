"""Errors, special values and bit equality of the functions of `passes/maths`."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))  # jit.py and maths_oracle.py are scripts too
from jit import Loop, loop_text
from maths_oracle import REFERENCE, worst

from onnxc.passes import maths

SAMPLE_STRIDE = 2017  # 2.1 million bit patterns, all exponents


@pytest.mark.parametrize("name", REFERENCE)
def test_f32_error_is_at_most_2_ulp(name: str) -> None:
    error, at = worst(name, SAMPLE_STRIDE)
    assert error <= 2.0, f"{error} ulp at {at!r}"


@pytest.mark.parametrize("element", ["f32", "f64"])
@pytest.mark.parametrize("name", REFERENCE)
def test_scalar_and_vectors_agree_in_every_bit(name: str, element: str) -> None:
    kind, bits = (np.float32, np.uint32) if element == "f32" else (np.float64, np.uint64)
    x = np.random.default_rng(1).integers(0, np.iinfo(bits).max, 1 << 14, bits).view(kind)
    x[: 1 << 13] = np.linspace(-12, 12, 1 << 13)
    x = np.where(np.isnan(x), kind(1), x)
    function = getattr(maths, name)
    expected = Loop(loop_text(function, element, 1))(x)
    for lanes in (4, 16):
        assert np.array_equal(Loop(loop_text(function, element, lanes))(x).view(bits), expected.view(bits)), lanes
