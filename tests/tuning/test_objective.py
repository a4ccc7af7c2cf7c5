"""`--objective`: what is left out, and that the trade is told; with speed, what copies promise."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest

from onnxc.driver import compile_model
from onnxc.errors import OnnxcError
from onnxc.inspection import inspect_artefact
from onnxc.options import Options
from onnxc.runtime import InferenceSession
from onnxc.targets import target_for
from onnxc.tuning.records import Record

from .models import Told, convnet
from .test_compile_with_records import record
from .test_override import FEED

SIGNATURE = (
    "kernel.conv(f32[1,12,12,32], const f32[3,3,32,32]) "
    "{dilations=[1,1], group=1, pads=[1,1,1,1], strides=[1,1]} -> f32[1,12,12,32]"
)


def build(path: Path, **options) -> tuple[dict, Told]:
    told = Told()
    compile_model(convnet(), path, Options(mcpu="x86-64-v3", threads=1, **options), told)
    return inspect_artefact(path)["report"], told


@pytest.mark.parametrize("objective", ["size", "memory"])
def test_nothing_is_transformed(tmp_path: Path, objective: str) -> None:
    (tmp_path / "r.jsonl").write_bytes(record(SIGNATURE, algorithm="winograd4"))
    small, told = build(tmp_path / "small.so", objective=objective, tuning=tmp_path / "r.jsonl")
    fast, silent = build(tmp_path / "fast.so")
    assert not small["weights"]["copies"] and fast["weights"]["copies"]
    before, after = (r["variants"][0]["memory"]["workspace"] for r in (fast, small))
    assert after < before and small["variants"][0]["objective"] == objective
    (line,) = [line for line in told.said if line.startswith("objective ")]
    assert line.startswith(f"objective {objective}: 2 convolutions without transformed weights (")
    assert "ms slower a run" in line and not any(line.startswith("objective ") for line in silent.said)
    results = [InferenceSession(tmp_path / name).run(None, FEED)[0] for name in ("small.so", "fast.so")]
    np.testing.assert_allclose(*results, rtol=1e-4, atol=1e-4)


def test_what_copies_promise(tmp_path: Path) -> None:
    report, _ = build(tmp_path / "m.so")
    gains = report["variants"][0]["gains"]
    assert {copy["weight"] for copy in report["weights"]["copies"]} == set(gains)
    assert all(gain >= 1.05 for gain in gains.values())


@pytest.mark.parametrize(("ns", "kept"), [(98.0, False), (90.0, True)])
def test_a_copy_that_gains_too_little_is_left_out(tmp_path: Path, ns: float, kept: bool) -> None:
    few = "kernel.conv(f32[1,6,6,8], const f32[3,3,8,8])"  # so few channels that the heuristic sums directly
    signature = f"{few} {{dilations=[1,1], group=1, pads=[1,1,1,1], strides=[1,1]}} -> f32[1,6,6,8]"
    line = Record(signature, target_for("x86-64-v3").key, {"algorithm": "winograd2"}, ns=ns, default_ns=100.0).line()
    (tmp_path / "r.jsonl").write_text(line)
    told = Told()
    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 20]> g (float[1, 8, 6, 6] x) => (float[1, 8, 6, 6] y) '
        "{ w = Constant<value_float = 0.5>() s = Constant<value_ints = [8, 8, 3, 3]>() v = Expand(w, s) "
        "[conv] y = Conv<pads = [1, 1, 1, 1]>(x, v) }"
    )
    options = Options(mcpu="x86-64-v3", threads=1, tuning=tmp_path / "r.jsonl")
    compile_model(model, tmp_path / "m.so", options, told)
    kernels = inspect_artefact(tmp_path / "m.so")["report"]["variants"][0]["kernels"]
    assert any(kernel.get("algorithm") == "winograd2" for kernel in kernels) == kept
    assert any("conv: winograd2 gains too little for a copy" in line for line in told.noted) != kept


def test_what_the_user_asks_for_by_name_stays(tmp_path: Path) -> None:
    (tmp_path / "o.toml").write_text('["conv2"]\nalgorithm = "winograd4"\n')
    report, _ = build(tmp_path / "m.so", objective="size", override=tmp_path / "o.toml")
    assert len(report["weights"]["copies"]) == 1


def test_unknown_objective() -> None:
    with pytest.raises(OnnxcError, match="no objective is named 'beauty'"):
        Options(objective="beauty")
