"""The sweep measures what it says: every algorithm that was asked for, and the one that is compiled by default."""

from pathlib import Path

from .conv_shapes import square
from .conv_sweep import line, measure


def test_a_shape_is_measured(tmp_path: Path):
    row = measure(square(9, 5, 8, 3), ["im2col", "winograd2"], 1, tmp_path)
    assert {"direct", "im2col", "winograd2", row["chosen"]} == set(row["ns"])
    assert all(error < 1e-5 for error in row["errors"].values())
    assert row["regret"] >= 1.0
    assert line(row).startswith("9×9 5→8 3×3")
