"""The candidates of every kind: all can be built, run, give the heuristic's very bits, and are told how fast they are."""

from __future__ import annotations

import json
import re
import resource
from pathlib import Path

import pytest
from onnx import helper

from onnxc.compile_pool import CompilePool
from onnxc.options import Options
from onnxc.runtime import measure
from onnxc.targets import target_for
from onnxc.tuning.bundle import BundleWriter, Portion
from onnxc.tuning.extraction import lower
from onnxc.tuning.problems import Algorithms, kernel_tasks
from onnxc.tuning.tasks import Task

from . import layers

OPTIONS = Options(mcpu="native")
KINDS = {
    layers.convolutions: {"conv", "winograd", "conv_transpose"},
    layers.planes: {"conv_planes"},
    layers.matmuls: {"matmul"},
}


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """One round of one run: whether a candidate is right is seen without its time."""
    monkeypatch.setattr(measure.interleaved, "runs_a_block", lambda clock: 1)
    compare = measure.interleaved.compare
    monkeypatch.setattr(measure.interleaved, "compare", lambda ours, theirs: compare(ours, theirs, 1))


def measured(tasks: list[Task], folder: Path, cold_bytes: int = 0) -> list[dict]:
    pool = CompilePool(target_for("native"), 2)
    portions = [Portion(task, range(len(task.candidates))) for task in tasks]
    taken = BundleWriter(pool, 1, cold_bytes).write(folder, portions)
    assert [len(numbers) for numbers in taken] == [len(task.candidates) for task in tasks]
    return measure.measure_bundle(folder)["results"]


@pytest.mark.parametrize("model", KINDS, ids=lambda make: make.__name__)
def test_every_candidate_is_right(model, tmp_path: Path, quick: None) -> None:
    tasks = kernel_tasks(lower(model(tmp_path / "model.onnx"), OPTIONS))
    assert {task.signature.split("(")[0] for task in tasks} == KINDS[model]
    for task, result in zip(tasks, measured(tasks, tmp_path / "bundle", 1 << 20), strict=True):
        assert result["ns"] > 0
        assert len(task.candidates) == len({json.dumps(c.choice) for c in task.candidates}) > 1
        told = [(dict(c.choice), r) for c, r in zip(task.candidates, result["candidates"], strict=True)]
        assert not [each for each in told if each[1]["verdict"] == "failed"]


def test_algorithms_of_a_convolution(tmp_path: Path, quick: None) -> None:
    """Each with what is fused with it, within the tolerance, and with `strict` none that has other bits."""
    path = layers.convolutions(tmp_path / "model.onnx")
    tasks = Algorithms(path, OPTIONS).tasks()
    task = next(t for t in tasks if "f32[3,3,32,32]" in t.signature)
    names = [candidate.choice["algorithm"] for candidate in task.candidates]
    assert {"direct", "winograd2", "winograd4"} <= set(names)
    assert any(t.candidates[0].choice["algorithm"] == "direct" for t in tasks)  # the heuristic's choice is one of them
    assert names[task.reference] == "direct"
    for result in measured(tasks, tmp_path / "bundle"):
        assert not [r for r in result["candidates"] if r["verdict"] == "failed"]
    strict = Algorithms(path, Options(mcpu="native", strict=True))
    assert all("winograd2" not in can for can in strict.algorithms.values())


def test_weights_that_cannot_be_written(tmp_path: Path) -> None:
    """The error says why."""
    (task, *_) = kernel_tasks(lower(layers.matmuls(tmp_path / "model.onnx"), OPTIONS))
    writer = BundleWriter(CompilePool(target_for("native"), 2), 1, 0)
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            writer.write(tmp_path / "bundle", [Portion(task, range(1))])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_with_threads(tmp_path: Path, quick: None) -> None:
    """Kernels are shared out as in a run."""
    tasks = kernel_tasks(lower(layers.planes(tmp_path / "model.onnx"), OPTIONS))
    portions = [Portion(task, range(3)) for task in tasks]
    BundleWriter(CompilePool(target_for("native"), 2), 2, 0).write(tmp_path / "bundle", portions)
    (result,) = measure.measure_bundle(tmp_path / "bundle")["results"]
    assert result["ns"] > 0
    assert all(told["verdict"] != "failed" for told in result["candidates"])


@pytest.mark.parametrize("name", ["input0", "output0", "scratch0", "status"])
def test_weights_may_be_called_like_buffers(tmp_path: Path, name: str) -> None:
    path = layers.save(
        tmp_path / "model.onnx", [helper.make_node("MatMul", ["x", name], ["y"])], (3, 5), (3, 7), {name: (5, 7)}
    )
    (task,) = kernel_tasks(lower(path, OPTIONS))
    assert sorted((b.role, b.size) for b in task.buffers.values()) == [("input", 60), ("output", 84), ("weight", 140)]


def test_a_size_that_is_free_is_taken_for_a_usual_one(tmp_path: Path) -> None:
    path = layers.matmuls(tmp_path / "model.onnx", "rows")
    (task, *_) = kernel_tasks(lower(path, OPTIONS))
    assert "f32[d0,50]" in task.signature
    assert task.candidates[0].calls[0].values == {"d0": 1}
    (task, *_) = kernel_tasks(lower(path, Options(mcpu="native", dims={"rows": 33})))
    assert "f32[33,50]" in task.signature


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda c: c["steps"][0]["args"].__setitem__(0, 8), "ended by SIGSEGV"),
        (lambda c: c["steps"][0].update(extent=0), "its results differ by .* allowed 0"),
        (lambda c: c["steps"][0]["args"].__setitem__(-1, "input0"), "ended by SIG|its results differ"),
    ],
    ids=["crash", "nothing done", "another result"],
)
def test_wrong_candidates_are_rejected(tmp_path: Path, damage, why: str) -> None:
    """One that crashes or computes something else is told so, and the next is measured as if it had not been."""
    (task, *_) = kernel_tasks(lower(layers.matmuls(tmp_path / "model.onnx"), OPTIONS))
    folder = tmp_path / "bundle"
    BundleWriter(CompilePool(target_for("native"), 2), 1, 0).write(folder, [Portion(task, range(3))])
    manifest = json.loads((folder / "manifest.json").read_text())
    damage(manifest["tasks"][0]["candidates"][1])
    (folder / "manifest.json").write_text(json.dumps(manifest))
    (result,) = measure.measure_bundle(folder)["results"]
    assert result["candidates"][1]["verdict"] == "failed"
    assert re.search(why, result["candidates"][1]["why"])
    assert result["candidates"][2]["verdict"] in ("faster", "even", "slower")
