"""What the profile counts: kernels, multiply-adds and bytes of a small model. That perf works is not tested."""

from __future__ import annotations

from pathlib import Path

import pytest
from onnx import parser

import onnxc

from .profile_model import Machine, Row, rows_of, table

MODEL = """<ir_version: 10, opset_import: ["" : 21]>
g (float[8, 32] x, float[32, 48] w) => (float[8, 24] z)
  <int64[1] zero = {0}, int64[1] half = {24}, int64[1] all = {48}, int64[1] one = {1}> {
    y = MatMul(x, w)
    r = Relu(y)
    y1 = Slice(r, zero, half, one)
    y2 = Slice(r, half, all, one)
    z = Mul(y1, y2)
}"""


@pytest.fixture
def rows(tmp_path: Path) -> list[Row]:
    onnxc.compile(parser.parse_model(MODEL), tmp_path / "m.mlir", emit="kernels")
    return rows_of((tmp_path / "m.mlir").read_text())


def test_multiply_adds_and_bytes_are_counted(rows: list[Row]) -> None:
    matmul, product = rows
    assert (matmul.kind, matmul.flops, matmul.bytes) == ("matmul", 2 * 8 * 32 * 48, 4 * (8 * 32 + 32 * 48 + 8 * 48))
    assert (product.kind, product.flops, product.calls) == ("map", 0, 1)


def test_the_roofline_is_the_slower_of_arithmetic_and_memory(rows: list[Row]) -> None:
    machine = Machine(100.0, {"L2": 50.0, "L3": 25.0, "DRAM": 10.0}, 1 << 20)
    assert machine.best_us(1_000_000, 1000) == 10.0
    assert machine.best_us(0, 1_000_000) == 20.0
    assert machine.best_us(0, 2_000_000) == 80.0
    text = table(rows, 12.5, machine, 10)
    assert text.startswith("run 12.5 us") and "8×32, 32×48 → 8×48" in text
