"""What the table of estimates holds: launches of kernels with known sizes. That perf works is not tested."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import parser

import onnxc
from onnxc.passes.kernels.kernel_function import ELEMENT, MULTIPLY_ADD

from .estimates import Estimate, guesses_of, table

MODEL = """<ir_version: 10, opset_import: ["" : 21]>
g (float[1024, 32] x, float[32, 48] w, float[N] v) => (float[1024, 48] z, float[N] u) {
    y = MatMul(x, w)
    z = Softmax(y)
    u = Exp(v)
}"""


def test_estimates_are_read_from_the_kernels_with_known_sizes(tmp_path: Path) -> None:
    onnxc.compile(parser.parse_model(MODEL), tmp_path / "m.mlir", emit="kernels")
    guesses = sorted(guesses_of((tmp_path / "m.mlir").read_text()).values())
    products, exponentials = 1024 * 32 * 48 * MULTIPLY_ADD / 1e6, 2 * 1024 * 48 * ELEMENT / 1e6
    assert guesses == [pytest.approx(exponentials), pytest.approx(products, rel=0.03)]  # whole tiles are counted


def test_kinds_are_ordered_by_how_far_they_are_underestimated() -> None:
    rows = [
        Estimate("m", kind, "", "", measured, 2.0) for kind, measured in (("map", 8.0), ("conv", 1.0), ("map", 2.0))
    ]
    lines = table(rows, 1).splitlines()
    assert [line.split()[:5] for line in lines[1:3]] == [
        ["conv", "1", "0.50", "0.50", "0.50"],
        ["map", "2", "2.00", "1.00", "4.00"],
    ]
    assert lines[-1].split()[:4] == ["8.0", "2.0", "m", "map"]
    assert rows[0].ratio == pytest.approx(4.0)
