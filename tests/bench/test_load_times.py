"""The programs that time loading and small calls tell all that they promise, and how they are called; times are not judged."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

import onnxc

from . import load_times, small_calls
from .limits import Limits
from .rows import matmul


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(matmul(1, 64, 48)[0], tmp_path / "m.onnx")
    onnxc.compile(tmp_path / "m.onnx", tmp_path / "m.so")
    return tmp_path / "m.so"


def test_parts_of_loading(model: Path, tmp_path: Path) -> None:
    row = load_times.measure(model, load_times.build(tmp_path), tmp_path, rounds=1)
    assert row.keys() == {*load_times.PARTS, *load_times.COLUMNS}
    assert row["load"] == row["session"] + row["first"] and row["peak MB"] >= row["Python's"] > 0


def test_small_calls(model: Path, tmp_path: Path) -> None:
    row = small_calls.measure(model, small_calls.build(tmp_path), Limits(), rounds=1)
    assert row["mb"] == pytest.approx((64 * 48 + 64 + 48) * 4 / 1e6)
    assert min(row["read"], row["c"], row["python"]) > 0


@pytest.mark.parametrize("program", [load_times, small_calls])
def test_help(program: object, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        program.main(["--help"])  # type: ignore[attr-defined]
    assert "MODEL.so" in capsys.readouterr().out
