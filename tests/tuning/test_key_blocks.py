"""How many keys attention goes through at once as a choice of tuning: other bits within the tolerance, none if strict."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

from onnxc.compile_pool import CompilePool
from onnxc.driver import compile_model
from onnxc.errors import OnnxcError
from onnxc.options import Options
from onnxc.runtime import InferenceSession
from onnxc.runtime.measure import measure_bundle
from onnxc.targets import target_for
from onnxc.tuning.bundle import BundleWriter, Portion
from onnxc.tuning.extraction import lower
from onnxc.tuning.problems import kernel_tasks
from onnxc.tuning.records import Record
from onnxc.tuning.tasks import TOLERANCE, Task

from .models import Told

SHAPE = "float[1, 3, 197, 64]"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """softmax(q·kᵀ)·v of 197 keys: two blocks, or one."""
    text = f"""<ir_version: 10, opset_import: ["": 23]> g ({SHAPE} q, {SHAPE} k, {SHAPE} v) => ({SHAPE} y)
               {{ [attend] y = Attention(q, k, v) }}"""
    onnx.save(parser.parse_model(text), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


def attention(source: Path, **options) -> Task:
    (task,) = kernel_tasks(lower(source, Options(mcpu="native", **options)))
    return task


def test_candidates(source: Path, tmp_path: Path) -> None:
    """All keys at once are tried, and are right; with --strict nothing of it."""
    task = attention(source)
    tolerances = {c.choice["schedule"].get("keys", 0): c.tolerance for c in task.candidates}
    assert tolerances == {0: 0.0, 256: TOLERANCE}
    assert {c.choice["schedule"].get("keys") for c in attention(source, strict=True).candidates} == {None}
    task.candidates = [c for c in task.candidates if c.tolerance or c is task.candidates[0]]
    BundleWriter(CompilePool(target_for("native")), 1, 0).write(tmp_path / "b", [Portion(task, range(2))])
    (result,) = measure_bundle(tmp_path / "b")["results"]
    assert result["candidates"][1]["verdict"] in ("slower", "even", "faster")
    assert 0 < result["candidates"][1]["difference"] < TOLERANCE


def test_records_and_overrides(source: Path, tmp_path: Path) -> None:
    task, told = attention(source), Told()
    choice = next(c.choice for c in task.candidates if c.tolerance)
    path = tmp_path / "r.jsonl"
    path.write_text(Record(task.signature, target_for("native").key, choice, 1.0, 2.0).line())
    (tmp_path / "o.toml").write_text('["*"]\nschedule = { keys = 256 }\n')
    rng = np.random.default_rng(4)
    feeds = {name: rng.standard_normal((1, 3, 197, 64), np.float32) for name in "qkv"}
    found = {}
    cases = {"plain": {}, "record": {"tuning": path}, "override": {"override": tmp_path / "o.toml"}}
    for name, options in {**cases, "strict": {"tuning": path, "strict": True}}.items():
        compile_model(source, tmp_path / f"{name}.so", Options(mcpu="native", threads=1, **options), told)
        found[name] = InferenceSession(tmp_path / f"{name}.so").run(None, feeds)[0]
    assert found["plain"].tobytes() == found["strict"].tobytes() != found["record"].tobytes()
    assert found["record"].tobytes() == found["override"].tobytes()
    np.testing.assert_allclose(found["record"], found["plain"], atol=1e-5)
    assert any("gives other bits, so it is not used with --strict" in line for line in told.noted)


def test_refused(source: Path, tmp_path: Path) -> None:
    (tmp_path / "o.toml").write_text('["*"]\nschedule = { keys = 100 }\n')
    with pytest.raises(OnnxcError, match="keys = 100 is not possible here"):
        compile_model(source, tmp_path / "m.so", Options(mcpu="native", override=tmp_path / "o.toml"))
