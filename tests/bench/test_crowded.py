"""Runs beside busy processes are timed for each number of threads, and the processes end."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import onnx
import pytest
from onnx import parser

from .crowded import crowd, main

MODEL = """<ir_version: 10, opset_import: ["" : 21]>
g (float[8, 8] x) => (float[8, 8] y) { y = Exp(x) }"""


def test_runs_beside_busy_processes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(parser.parse_model(MODEL), tmp_path / "m.onnx")
    main([str(tmp_path / "m.onnx"), "--processes", "1", "--runs", "50"])
    rows = capsys.readouterr().out.splitlines()
    assert [row.split(" ms")[0].split()[-3:-1] for row in rows] == [["1", "threads"], ["2", "threads"]] * 2


def test_the_crowd_goes() -> None:
    with crowd(2):
        assert len(multiprocessing.active_children()) == 2
    assert not multiprocessing.active_children()
