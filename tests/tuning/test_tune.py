"""Tuning a small model from end to end: records, resuming, interruption, what is refused."""

from __future__ import annotations

import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest

import onnxc
from onnxc.cache import ObjectCache
from onnxc.compile_pool import CompilePool
from onnxc.driver import compile_model
from onnxc.options import Options
from onnxc.targets import target_for
from onnxc.tuning import runners, tune
from onnxc.tuning.bundle import BundleWriter, Portion
from onnxc.tuning.command import _shapes
from onnxc.tuning.extraction import lower
from onnxc.tuning.problems import kernel_tasks
from onnxc.tuning.records import Record, Records
from onnxc.tuning.runners import runner_for
from onnxc.tuning.tune import Tuner
from tests.command_line import alone

from . import layers
from .commands import ENOUGH, FEW, run
from .fused_models import feed_forward
from .models import Told

OPTIONS = Options(mcpu="native")


def test_tune_and_compile(model: Path, tmp_path: Path) -> None:
    """The records are of the model's kernels, compile takes them, and results stay the same."""
    records, artefact, plain = tmp_path / "r.jsonl", tmp_path / "tuned.so", tmp_path / "plain.so"
    done = run("tune", model, "-o", records, "--budget", f"{ENOUGH}s", "-v", how=alone)
    assert done.returncode == 0, done.stderr
    assert "2 problems" in done.stdout
    found, warnings = Records.read(records)
    assert len(found) == 2 and not warnings
    assert {r.target for r in found} == {target_for("native").key}
    done = run("compile", model, "-o", artefact, "--mcpu", "native", "--tuning", records, "-v")
    assert done.returncode == 0 and "warning" not in done.stderr
    onnxc.compile(model, plain, mcpu="native")
    x = np.random.default_rng(0).standard_normal((40, 50), dtype=np.float32)
    tuned, untuned = (onnxc.InferenceSession(str(path)).run(None, {"x": x})[0] for path in (artefact, plain))
    assert tuned.tobytes() == untuned.tobytes()


def test_compile_with_tune(model: Path, tmp_path: Path) -> None:
    known = tmp_path / "known.jsonl"
    known.write_text("broken\n" * 30)
    done = run("compile", model, "-o", tmp_path / "m.so", "--tune", "--tune-budget", "2s", "--tuning", known)
    assert done.returncode == 0, done.stderr
    assert f"warning: {known}:1: " in done.stderr and f"warning: {known}: 10 more lines" in done.stderr
    assert "candidates measured" in done.stderr
    assert (tmp_path / "m.so").exists()


def test_what_a_variant_fixes_is_fixed_for_tuning() -> None:
    """And what it limits is limited; two that fix the same are one."""
    given = Options(dims={"c": 3}, variants=("batch=1,seq=1..512", "batch=8", "batch=8", "h%32=0"))
    generic, limited, fixed, multiple = _shapes(given)
    assert generic == replace(given, variants=())
    assert fixed == replace(generic, dims={"c": 3, "batch": 8})
    assert (limited.variants, limited.generic) == (("batch=1,seq=1..512",), False)
    assert (multiple.variants, multiple.generic, multiple.dims) == (("h%32=0",), False, {"c": 3})
    assert _shapes(replace(given, generic=False)) == [limited, fixed, multiple]


@pytest.mark.parametrize("spec", ["n=1..64", "x.0%8=0", "n=5..9"])
def test_kernels_of_limited_sizes_get_their_own_records(tmp_path: Path, few: None, spec: str) -> None:
    """The tuner measures what compiling the variant asks for, at a size that it takes."""
    onnx.save(feed_forward(("n", 20)), tmp_path / "m.onnx")
    options = replace(OPTIONS, variants=(spec,), generic=False)
    tuner = Tuner(tmp_path / "m.onnx", options, Records(), tmp_path / "r.jsonl")
    with runner_for("local", tuner.target) as runner:
        summary = tuner.run(runner, tmp_path / "bundles", ENOUGH)
    assert summary.records and not (summary.better and summary.comparison is None)
    told = Told()
    compile_model(tmp_path / "m.onnx", tmp_path / "m.so", replace(options, tuning=summary.records), told)
    assert any("kernels by records, 0 without one" in line for line in told.noted)


def test_interrupted(model: Path, tmp_path: Path) -> None:
    """Ctrl-C while something is measured: one line, exit code 130, and the file is there and whole."""
    records = tmp_path / "r.jsonl"
    code, told = interrupted_once("tuner.records", model, records)
    assert (code, told.splitlines()[1:]) == (130, ["error: interrupted"])
    found, warnings = Records.read(records)
    assert len(found) == 1 and not warnings
    assert [path.name for path in tmp_path.iterdir()] == ["r.jsonl"]


HELD = """
    import sys
    from onnxc.tuning import runners
    tuners, submit, tune_for = [], runners.LocalRunner.submit, tune.Tuner.run
    def run(tuner, *given):
        tuners.append(tuner)
        return tune_for(tuner, *given)
    def held(runner, folder):
        (tuner,), measuring = tuners, runner._measuring
        if {condition}:
            measuring.close()
            measuring.command = (sys.executable, "-c", "import sys; sys.stdin.read()")
            measuring.patience = float("inf")
            print("held", file=sys.stderr, flush=True)
        return submit(runner, folder)
    tune.Tuner.run, runners.LocalRunner.submit = run, held
"""


def interrupted_once(condition: str, model: Path, records: Path, *options: str) -> tuple[int, str]:
    """Ctrl-C for `tune` while it measures, which takes for ever once the condition holds of its `tuner`; the exit code,
    and what was said."""
    code = FEW.format(more=HELD.format(condition=condition))
    command = [sys.executable, "-c", code, "tune", str(model), "-o", str(records), "--budget", f"{ENOUGH}s", *options]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        said = list(iter(process.stderr.readline, "held\n"))
        process.send_signal(signal.SIGINT)
        return process.wait(600), "".join(said) + process.stderr.read()


def tuned(model: Path, output: Path, known: Records) -> Tuner:
    tuner = Tuner(model, OPTIONS, known, output)
    with runner_for("local", tuner.target) as runner:
        tuner.run(runner, output.with_suffix(".bundles"), ENOUGH)
    return tuner


def test_resuming_begins_with_what_is_known(model: Path, tmp_path: Path, few: None, uncompared: None) -> None:
    """Problems without a record come first; a known choice is tried before others, also one that is no candidate."""
    first = tuned(model, tmp_path / "a.jsonl", Records())
    record = next(r for r in first.records if "const" in r.signature)
    other = {**record.choice["schedule"], "rows": 3, "vectors": 3, "group": 5}
    record = replace(record, choice={"schedule": other}, ns=1.0, default_ns=2.0)
    second = tuned(model, tmp_path / "b.jsonl", Records([record]))
    order = [state.task.signature for state in second.states]
    assert set(order) == {state.task.signature for state in first.states}
    state = next(s for s in second.states if s.task.signature == record.signature)
    assert {"schedule": other} in [c.choice for c in state.task.candidates]
    found = next(r for r in second.records if r.key == record.key)
    assert found.default_ns != 2.0 or not state.measured  # measured again, or left as it was


def test_the_pace_is_that_of_what_no_cache_had(model: Path, tmp_path: Path) -> None:
    tasks = kernel_tasks(lower(model, OPTIONS))
    for task in tasks:
        del task.candidates[2:]
    writers = [
        BundleWriter(CompilePool(target_for("native"), cache=ObjectCache(tmp_path / "cache")), 1, 0) for _ in "ab"
    ]
    for i, writer in enumerate(writers):
        assert writer.pace == 0
        writer.write(tmp_path / str(i), [Portion(task, range(2)) for task in tasks])
    assert (writers[0].pool.built, writers[1].pool.built) == (4, 0) and writers[0].pace > 0 == writers[1].pace


def test_records_are_not_lost(model: Path, tmp_path: Path) -> None:
    """Without a word of the user the file stays as it is; with --force until there is a result."""
    records = tmp_path / "r.jsonl"
    Records([Record("matmul()", "here", {"schedule": {"rows": 1}}, 10.0, 20.0)]).write(records)
    before = records.read_bytes()
    done = run("tune", model, "-o", records)
    assert done.returncode == 2 and "the output has 1 records already" in done.stderr and "--resume" in done.stderr
    assert records.read_bytes() == before
    done = run("tune", model, "-o", records, "--budget", "0.001s", "--force")
    assert done.returncode == 0 and "stays as it is: nothing was measured" in done.stdout
    assert records.read_bytes() == before
    code, told = interrupted_once("tuner.search", model, records, "--force", "-v")
    assert (code, records.read_bytes()) == (130, before) and "timing what there is" in told


@pytest.mark.parametrize(
    ("content", "why"),
    [(b"my notes\n", "line 1: this is no JSON"), (b'\n{"format": 99, "signature": "x"}\n', "line 2: its format 99")],
)
def test_what_is_no_record_is_not_replaced(model: Path, tmp_path: Path, content: bytes, why: str) -> None:
    """Somebody's text, and records that only a newer version reads."""
    output = tmp_path / "r.jsonl"
    output.write_bytes(content)
    done = run("tune", model, "-o", output, "--budget", "1s")
    assert done.returncode == 2 and why in done.stderr and "--force" in done.stderr
    assert output.read_bytes() == content


def test_a_model_that_is_none_leaves_no_file(tmp_path: Path) -> None:
    done = run("tune", tmp_path / "none.onnx", "-o", tmp_path / "r.jsonl")
    assert done.returncode == 2 and "no such file" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("output", "arguments", "told"),
    [
        ("m.so", ["--variant", "n=1"], "no free dim 'n'"),
        ("m.so", ["--dim", "n=1"], "no dim 'n' to set"),
        ("none/m.so", [], "there is no folder"),
        ("m.mlir", [], "which level to write"),
    ],
)
def test_what_cannot_be_compiled_is_not_tuned(
    model: Path, tmp_path: Path, output: str, arguments: list[str], told: str
) -> None:
    done = run("compile", model, "-o", tmp_path / output, "--tune", *arguments)
    assert done.returncode == 2 and told in done.stderr
    assert "tuning" not in done.stderr


def test_a_level_and_stages_of_a_tuned_model(model: Path, tmp_path: Path) -> None:
    """They show the compilation, not what tuning compiled on the way."""
    options = ["--save-stages", tmp_path / "stages", "--tune", "--tune-budget", "1s"]
    done = run("compile", model, "-o", tmp_path / "m.mlir", "--emit", "tensor", *options)
    assert done.returncode == 0, done.stderr
    assert "kernel.fused" in (tmp_path / "m.mlir").read_text()
    names = [path.name.partition("-")[2] for path in sorted((tmp_path / "stages").iterdir())]
    assert names.count("graph-import.mlir") == 1 and not any(name.startswith("loops") for name in names)


def test_no_time_leaves_no_records_and_a_file(model: Path, tmp_path: Path) -> None:
    tuner = Tuner(model, OPTIONS, Records(), tmp_path / "r.jsonl")
    with runner_for("local", tuner.target) as runner:
        summary = tuner.run(runner, tmp_path / "bundles", 0.0)
    assert (summary.problems, summary.measured, len(summary.records)) == (0, 0, 0)
    assert (tmp_path / "r.jsonl").read_bytes() == b""


def test_close_algorithms_are_compared_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, uncompared: None) -> None:
    """With tuned kernels of both; the second comparison's winner is what the records have."""
    monkeypatch.setattr(tune, "NEAR", 1e9)
    tuner = Tuner(layers.convolutions(tmp_path / "m.onnx"), OPTIONS, Records(), tmp_path / "r.jsonl")
    asked: list[list[tuple[str, str]]] = []
    explore = tune.Search.explore

    def explored(self, tasks, until, known) -> None:
        for task in tasks:
            del task.candidates[3:]
        asked.append([(task.what, task.signature) for task in tasks])
        explore(self, tasks, float("inf"), known)

    monkeypatch.setattr(tune.Search, "explore", explored)
    with runner_for("local", tuner.target) as runner:
        summary = tuner.run(runner, tmp_path / "bundles", ENOUGH)
    first, kernels, rivals, again = asked
    assert {what for what, _ in first} == {"algorithm"} == {what for what, _ in again}
    assert {what for what, _ in kernels} == {"schedule"} == {what for what, _ in rivals}
    assert set(again) <= set(first) and not set(rivals) & set(kernels)
    assert len(tuner.states) == summary.problems == len(set(first + kernels + rivals))
    assert tuner.search is not None
    assert tuner.search.beside == {signature for _, signature in rivals}  # the model gains nothing by those


def test_the_model_is_not_the_output(model: Path) -> None:
    before = model.read_bytes()
    done = run("tune", model, "-o", model, "--budget", "1s")
    assert done.returncode == 2 and "the output is the model itself" in done.stderr
    assert model.read_bytes() == before


def test_wrong_usage(model: Path, tmp_path: Path) -> None:
    for arguments, told in (
        (("--runner", "carrier-pigeon"), "is no runner"),
        (("--budget", "soon"), "is no time"),
        (("--budget", "9" * 400), "is longer than 240 h"),
        (("--target", "riscv64-linux-gnu"), "cannot be measured on this"),
    ):
        done = run("tune", model, "-o", tmp_path / "r.jsonl", *arguments)
        assert done.returncode == 2, arguments
        assert told in done.stderr
    assert run("tune", model, model, "-o", tmp_path / "r.jsonl").returncode == 2


@pytest.mark.parametrize("place", ["", "here", "here:there", ":1", "a b:1"])
def test_no_scheduler_is_named(place: str) -> None:
    pytest.importorskip("distributed")
    with (
        pytest.raises(onnxc.OnnxcError, match=r"names no scheduler.*dask://HOST:PORT"),
        runner_for(f"dask://{place}", target_for("native")),
    ):
        pass


def test_no_scheduler_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("distributed")
    monkeypatch.setattr(runners, "CONNECTION", 0.5)
    with (
        pytest.raises(onnxc.OnnxcError, match=r"no Dask scheduler answers at tcp://127\.0\.0\.1:1") as caught,
        runner_for("dask://127.0.0.1:1", target_for("native")),
    ):
        pass
    assert caught.value.exit_code == 2
