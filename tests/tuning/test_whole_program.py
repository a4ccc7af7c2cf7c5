"""The whole model, tuned beside untuned, where only programs run: by a command, as `--runner` has it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import onnx
import pytest
from onnx import parser

from onnxc.options import Options
from onnxc.passes import row_turns
from onnxc.tuning import whole_model
from onnxc.tuning.elsewhere import CommandRunner
from onnxc.tuning.extraction import lower
from onnxc.tuning.problems import kernel_tasks
from onnxc.tuning.records import Record, Records
from onnxc.tuning.search import State
from onnxc.tuning.tune import Tuner
from onnxc.tuning.whole_program import comparison_of, whole_task

from . import layers
from .commands import ENOUGH
from .test_turns import block

OPTIONS = Options(mcpu="native")


def tuner_with_records(model: Path, folder: Path) -> Tuner:
    """As if a search had found something for each kernel that has a choice."""
    tuner = Tuner(model, OPTIONS, Records(), folder / "r.jsonl")
    tasks = kernel_tasks(lower(model, OPTIONS))
    tuner.records = Records(
        Record(task.signature, tuner.target.key, task.candidates[-1].choice, 9.0, 10.0) for task in tasks
    )
    assert len(tuner.records)
    states = [State(task, [], len(task.candidates) - 1, {"ns": 9.0}) for task in tasks]
    tuner.search = SimpleNamespace(states=states, measured=9, rejected=0)
    tuner.runner, tuner.budget = CommandRunner("{bundle}"), ENOUGH
    return tuner


@pytest.mark.parametrize("make", [layers.convolutions, layers.matmuls], ids=lambda make: make.__name__)
def test_compared_there(make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both run, give the same results, and are measured; what is slower as a whole is dropped."""
    tuner = tuner_with_records(make(tmp_path / "m.onnx"), tmp_path)
    monkeypatch.setattr(whole_model.Comparison, "slower", True)
    summary = tuner._finish(tmp_path)
    assert summary.comparison is not None, tuner.uncompared
    assert 0 < summary.comparison.ratio < 100 and summary.comparison.tuned > 0 < summary.comparison.untuned
    assert summary.dropped == "all that was found" and len(summary.records) == len(tuner.states)
    usual = {state.task.problem: state.task.candidates[0].choice for state in tuner.states}
    assert {record.problem: record.choice for record in summary.records} == usual


def test_turns_are_taken_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_turns, "LARGE", 1 << 40)
    onnx.save(block(20), tmp_path / "m.onnx")
    lowered = [lower(tmp_path / "m.onnx", OPTIONS) for _ in range(2)]
    task = whole_task(*lowered)
    assert task is not None and [len(c.turns) for c in task.candidates] == [1, 1]
    assert [c.choice["model"] for c in task.candidates] == ["untuned", "tuned"]


def test_control_flow_is_not_compared(tmp_path: Path) -> None:
    """Nobody knows which calls are made."""
    text = """<ir_version: 10, opset_import: ["": 20]> g (float[8, 8] x, bool c) => (float[8, 8] y) {
        y = If (c) <then_branch = t () => (float[8, 8] p) { p = MatMul(x, x) },
                    else_branch = e () => (float[8, 8] q) { q = Exp(x) }> }"""
    onnx.save(parser.parse_model(text), tmp_path / "m.onnx")
    lowered = [lower(tmp_path / "m.onnx", OPTIONS) for _ in range(2)]
    assert whole_task(*lowered) is None


def test_what_a_device_could_not_run() -> None:
    even = {"verdict": "even", "ns": 8e6, "other_ns": 10e6, "ratio": 0.8, "spread": 0.02}
    found = comparison_of({"candidates": [{"verdict": "reference"}, even]})
    assert found is not None and (found.tuned, found.untuned, found.ratio) == (0.008, 0.01, 0.8)
    assert found.low == pytest.approx(0.79) and not found.slower
    assert replace(found, ratio=1.004, low=1.001).slower and not replace(found, ratio=1.02, low=0.99).slower
    for result in ({}, {"error": "ended by SIGKILL"}, {"candidates": [{}, {"verdict": "failed", "why": "no"}]}):
        assert comparison_of(result) is None
