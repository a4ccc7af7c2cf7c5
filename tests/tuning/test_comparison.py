"""In the end the tuned model runs beside the untuned one: what does not pay is dropped, and the budget has time for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from onnxc.bench import Plan
from onnxc.tuning import tune, whole_model
from onnxc.tuning.records import Record, Records
from onnxc.tuning.search import State
from onnxc.tuning.tasks import Candidate, Task
from onnxc.tuning.tune import Tuner

from .test_tune import OPTIONS


@pytest.mark.parametrize(
    ("ratios", "kept", "dropped"),
    [
        ([0.9], ["little()", "much()"], ""),
        ([1.1, 0.95], ["much()"], "what gained less than 5%"),
        ([1.1, 1.1], [], "all that was found"),
    ],
)
def test_what_makes_the_model_slower_is_dropped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ratios: list[float], kept: list[str], dropped: str
) -> None:
    """First what gains little, then everything but what was known before; each problem still has a record."""
    usual, other = {"schedule": {}}, {"schedule": {"rows": 3}}
    known = Record("known()", "here", other, 1.0, 2.0)
    found = [replace(known, signature="much()", ns=10.0, default_ns=12.0, rounds=15)]
    found.append(replace(known, signature="little()", ns=10.0, default_ns=10.3))
    found.append(Record("nothing()", "here", usual, 10.0, 10.0))
    tuner = tuner_that_found(tmp_path, known, found)
    measured = iter(ratios)
    compared = lambda self, folder: whole_model.Comparison(*[r := next(measured), 1.0, r, r, r])  # noqa: E731
    monkeypatch.setattr(Tuner, "_compare", compared)
    summary = tuner._finish(tmp_path)
    assert (summary.dropped, summary.comparison.ratio) == (dropped, ratios[-1])
    assert next(measured, None) is None
    records = {record.signature: record for record in summary.records}
    assert set(records) == {"known()", "little()", "much()", "nothing()"}
    assert sorted(name for name, record in records.items() if record.choice == other) == sorted([*kept, "known()"])
    gains = [records[name].gain for name in {*records} - {*kept, "known()"}]
    assert records["known()"] == known and gains == [1.0] * len(gains)


def tuner_that_found(folder: Path, known: Record, found: list[Record]) -> Tuner:
    tuner = Tuner(folder / "m.onnx", OPTIONS, Records([known]), folder / "r.jsonl")
    tuner.records = Records([known, *found])
    tasks = [Task(record.signature, 1, {}, [Candidate({"schedule": {}}, ())]) for record in found]
    states = [State(task, [], int(task.signature != "nothing()"), {"ns": 1.0}) for task in tasks]
    tuner.search = SimpleNamespace(states=states, measured=9, rejected=0)
    return tuner


def test_a_gain_that_is_no_gain_is_not_compared_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where all that was found gained more than 5 %, or nothing did, there is nothing between all and nothing."""
    known = Record("known()", "here", {"schedule": {"rows": 3}}, 1.0, 2.0)
    for default in (10.3, 12.0):
        found = [replace(known, signature="one()", ns=10.0, default_ns=default)]
        found.append(Record("nothing()", "here", {"schedule": {}}, 10.0, 10.0))
        tuner = tuner_that_found(tmp_path, known, found)
        measured = iter([1.1])
        compared = lambda self, folder, left=measured: whole_model.Comparison(*[r := next(left), 1.0, r, r, r])  # noqa: E731
        monkeypatch.setattr(Tuner, "_compare", compared)
        assert tuner._finish(tmp_path).dropped == "all that was found" and next(measured, None) is None


def test_the_comparison_has_time(tmp_path: Path) -> None:
    """As much as compiling both models takes at the pace of the candidates so far, and a share of the budget at most."""
    tuner = Tuner(tmp_path / "m.onnx", OPTIONS, Records(), tmp_path / "r.jsonl")
    tuner.start, tuner.budget, tuner.lowering, tuner.kernels = 100.0, 100.0, 0.25, 30
    writer = SimpleNamespace(pace=0.1)
    assert tuner.end_of_search == 200 - tune.START - tune.COMPARISON - tune.COMPILATIONS * 0.25
    tuner.search = SimpleNamespace(writer=writer)
    assert tuner.end_of_search == 200 - tune.START - tune.COMPARISON - tune.COMPILATIONS * 0.25 - 6
    writer.pace = 9.0
    assert tuner.end_of_search == 200 - tune.FOR_COMPARISON * 100


def test_the_comparison_of_slow_models_has_long_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of several runs each, and as many rounds as there is time for, within reason."""
    tuner = Tuner(tmp_path / "m.onnx", OPTIONS, Records(), tmp_path / "r.jsonl", threads=2)
    tuner.start, tuner.budget = 100.0, 20.0
    monkeypatch.setattr(tune, "time", SimpleNamespace(monotonic=lambda: 110.0))
    assert tuner._plan(0.1) == Plan(2, 12, tune.RUNS * 0.1)
    assert tuner._plan(1e-4) == Plan(2, tune.MOST_ROUNDS, Plan.block_seconds)
    assert tuner._plan(9.0).rounds == tune.FEW
