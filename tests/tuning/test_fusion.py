"""Where kernels end as a choice: of records, of the user and of the tuner; the bits are the same wherever it is."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from mlir import ir
from onnx import numpy_helper

from onnxc.compilation import Compilation
from onnxc.compile_pool import CompilePool
from onnxc.driver import compile_model
from onnxc.errors import OnnxcError
from onnxc.inspection import inspect_artefact
from onnxc.options import Options
from onnxc.passes.choices import Choices
from onnxc.passes.kernel_calls import callee_of, kernel_calls, nodes_of
from onnxc.passes.kernels import boundaries
from onnxc.passes.kernels.kernel_function import KernelFunction
from onnxc.runtime import InferenceSession
from onnxc.runtime.measure import measure_bundle
from onnxc.targets import target_for
from onnxc.tuning import tune
from onnxc.tuning.bundle import BundleWriter, Portion
from onnxc.tuning.extraction import lower
from onnxc.tuning.fusion import fusion_tasks
from onnxc.tuning.records import Record, Records
from onnxc.tuning.runners import runner_for
from onnxc.tuning.tune import Tuner

from .commands import ENOUGH
from .fused_models import MODELS, Nodes, feed_forward, model, residual
from .models import Told

CPU = "x86-64-v3"
GELU = "matmul(f32[6,20], const f32[20,24], const f32[24]) -> f32[6,24]: MatMul(a0,a1); Add(0,a2); Gelu(1)"


class After(Choices):
    """Every kernel ends after the same operators, if it can."""

    def __init__(self, *after: int) -> None:
        self.after = after

    def fusion(self, signature: str) -> tuple[int, ...]:
        return self.after


def outputs(source: onnx.ModelProto, folder: Path, feed: np.ndarray, **options) -> tuple[bytes, int]:
    """The result's bytes, and how many kernels make it."""
    folder.mkdir()
    report = compile_model(source, folder / "m.so", Options(mcpu=CPU, threads=1, **options))
    return InferenceSession(folder / "m.so").run(None, {"x": feed})[0].tobytes(), report.kernels


@pytest.mark.parametrize("name", MODELS)
def test_the_bits_are_the_same(name: str, tmp_path: Path) -> None:
    source, shape, elem = MODELS[name]
    feed = np.abs(np.random.default_rng(1).standard_normal(shape)).astype(elem)
    plain, count = outputs(source, tmp_path / "plain", feed)
    more = set()
    for after in ((0,), (1,), (2,), (4,), (0, 1, 2)):
        label = "-".join(map(str, after))
        found, kernels = outputs(source, tmp_path / label, feed, tuning=After(*after))
        assert found == plain, label
        more |= {kernels - count}
    assert max(more) > 0 and min(more) >= 0


def calls(source: onnx.ModelProto, told: Told | None = None, **options) -> list[list[str]]:
    """The nodes of each call of main, with all passes at level kernels through."""
    run = Compilation(Options(mcpu=CPU, **options), told or Told())
    program = run.import_model(source, "model")
    run.run_passes(program, "kernels")
    run.tell(program)
    with program.context:
        return [nodes_of(call) for call in kernel_calls(program.module)]


def record(signature: str = GELU, target: str = target_for(CPU).key, **choice: object) -> bytes:
    return Record(signature, target, choice, ns=80.0, default_ns=100.0).line().encode()


def write(path: Path, *lines: bytes) -> Path:
    path.write_bytes(b"\n".join([*lines, b""]))
    return path


def test_records(tmp_path: Path) -> None:
    assert calls(feed_forward()) == [["fc", "bias", "gelu"]]
    path = write(tmp_path / "r.jsonl", record(fusion=[1]))
    told = Told()
    assert calls(feed_forward(), told, tuning=path) == [["fc", "bias"], ["gelu"]]
    assert not told.warnings
    assert f"split_kernels: divided after 1 by a record: {GELU}" in told.noted
    assert calls(feed_forward(), tuning=write(path, record(fusion=[0, 1]))) == [["fc"], ["bias"], ["gelu"]]
    assert calls(feed_forward(), tuning=write(path, record(fusion=[]))) == [["fc", "bias", "gelu"]]
    again, warnings = Records.read(write(path, record(fusion=[1]), record(schedule={"rows": 1})))
    assert len(again) == 2 and not warnings
    again.write(tmp_path / "again.jsonl")
    assert (tmp_path / "again.jsonl").read_bytes().splitlines() == [record(fusion=[1]), record(schedule={"rows": 1})]
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        compile_model(feed_forward(), tmp_path / name / "m.so", Options(mcpu=CPU, tuning=path))
    assert (tmp_path / "a" / "m.so").read_bytes() == (tmp_path / "b" / "m.so").read_bytes()
    assert str(inspect_artefact(tmp_path / "a" / "m.so")["report"]).count("'fusion_source': 'record'") == 2


def test_parts_have_records_of_their_own(tmp_path: Path) -> None:
    """Theirs are the signatures of kernels that nobody has divided."""
    told = Told()
    calls(feed_forward(), told, tuning=write(tmp_path / "r.jsonl", record(fusion=[1])))
    first = "matmul(f32[6,20], const f32[20,24], const f32[24]) -> f32[6,24]: MatMul(a0,a1); Add(0,a2)"
    assert any(f"no record for {first}; the nearest is {GELU}" in line for line in told.noted)


@pytest.mark.parametrize(
    ("after", "why"),
    [
        ([2], "nothing is left after operator 2"),
        ([7], "there is no operator 7 that a kernel could end with"),
        ([-1], "there is no operator -1 that a kernel could end with"),
        ([1, 0], "boundaries are named in order, each once"),
        ([1, 1], "boundaries are named in order, each once"),
    ],
)
def test_a_record_that_no_longer_holds(tmp_path: Path, after: list[int], why: str) -> None:
    told = Told()
    path = write(tmp_path / "r.jsonl", b"", record(fusion=after))
    assert calls(feed_forward(), told, tuning=path) == [["fc", "bias", "gelu"]]
    assert told.warnings == [f"warning: {path}:2: {why}: it stays one kernel: {GELU}"]


@pytest.mark.parametrize("fusion", ["apart", 1, [1.5], [True], ["1"], {"after": 1}, [1 << 40], None])
def test_no_boundaries(tmp_path: Path, fusion: object) -> None:
    path = write(tmp_path / "r.jsonl", record(fusion=fusion))
    records, (warning,) = Records.read(path)
    assert not len(records)
    shown = f"{json.dumps(fusion):.40}"
    assert warning == f"{path}:1: its 'fusion' is {shown}, not a list of operators' numbers"


def test_contradictory_and_foreign_records(tmp_path: Path) -> None:
    path = write(tmp_path / "r.jsonl", record(fusion=[0]), record(fusion=[1]))
    _, (warning,) = Records.read(path)
    assert f"contradicts {path}:" in warning
    told = Told()
    path = write(path, record(target=target_for("x86-64-v4").key, fusion=[1]))
    assert calls(feed_forward(), told, tuning=path) == [["fc", "bias", "gelu"]]
    assert f"{path}:1: 1 record is for another target" in told.warnings[0]


def test_what_is_read_on_both_sides(tmp_path: Path) -> None:
    """Of the residual's kernel not every operator can be the last one of a part."""
    run = Compilation(Options(mcpu=CPU), Told())
    program = run.import_model(residual(), "model")
    run.run_passes(program, "kernels")
    with program.context:
        functions = [op for op in program.module.body.operations if "kernel.kind" in op.attributes]
        kernel = max(map(KernelFunction.of, functions), key=lambda kernel: len(kernel.ops))
        names = [op.name for op in kernel.ops]
        tanh, mul, add = names.index("Tanh"), names.index("Mul"), names.index("Add")
        why = boundaries.refusal(kernel, [tanh])
        assert why == f"operator {tanh - 1} is read on both sides of the boundary after {tanh}"
        assert boundaries.refusal(kernel, [tanh - 1, tanh]) is None
        assert list(boundaries.divisions(kernel)) == [tanh - 1, mul, add]
        assert boundaries.around(kernel, [tanh]) == [tanh - 1, tanh]
        assert [part.numbers for part in boundaries.parts(kernel, [tanh - 1, mul])][1] == (tanh, mul)


def test_less_memory_is_not_given_away(tmp_path: Path) -> None:
    told = Told()
    path = write(tmp_path / "r.jsonl", record(fusion=[1]))
    assert calls(feed_forward(), told, tuning=path, objective="memory") == [["fc", "bias", "gelu"]]
    assert any("takes less memory" in line for line in told.noted) and not told.warnings


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ('["gelu"]\nfusion = "apart"', [["fc", "bias"], ["gelu"]]),
        ('["bias"]\nfusion = "apart"', [["fc"], ["bias"], ["gelu"]]),
        ('["*"]\nfusion = "apart"', [["fc", "bias", "gelu"]]),
        ('["*"]\nfusion = "apart"\n["gelu"]\nfusion = "fused"', [["fc", "bias"], ["gelu"]]),
        ('["fc"]\nfusion = "fused"', [["fc", "bias", "gelu"]]),
    ],
)
def test_overrides(tmp_path: Path, text: str, found: list[list[str]]) -> None:
    """Also against records; nodes that are all asked for stay together."""
    (tmp_path / "o.toml").write_text(text)
    path = write(tmp_path / "r.jsonl", record(fusion=[0]))
    assert calls(feed_forward(), tuning=path, override=tmp_path / "o.toml") == found


@pytest.mark.parametrize(
    ("text", "node", "why"),
    [
        ('["r"]\nfusion = "apart"', "r", "it is part of no kernel: a view"),
        ('["e"]\nfusion = "fused"', "e", "its kernel computes nothing else"),
        ('["e"]\nfusion = "together"', None, "fusion = 'together' is not possible (hint: one of apart, fused)"),
        ('["e"]\nfusion = true', None, 'fusion = True is not possible (hint: for example fusion = "apart")'),
    ],
)
def test_refused_overrides(tmp_path: Path, text: str, node: str | None, why: str) -> None:
    nodes: Nodes = [("Exp", ["x"], ["e"], ""), ("Reshape", ["e", "s"], ["r"], ""), ("Softmax", ["r"], ["y"], "")]
    source = model(nodes, (4, 6))
    source.graph.initializer.append(numpy_helper.from_array(np.array([6, 4], np.int64), "s"))
    (tmp_path / "o.toml").write_text(text)
    with pytest.raises(OnnxcError) as error:
        calls(source, override=tmp_path / "o.toml")
    assert error.value.exit_code == 2 and error.value.node == node and why in str(error.value)
    assert error.value.file == f"{tmp_path / 'o.toml'}:1"


def test_calls_and_kernels_fit(tmp_path: Path) -> None:
    """Free sizes too: what a part's symbols stand for, and no kernel is left that nobody calls."""
    run = Compilation(Options(mcpu=CPU, tuning=After(0)), Told())
    program = run.import_model(feed_forward(("n", 20)), "model")
    run.run_passes(program, "kernels")
    with program.context:
        called = {callee_of(call) for call in kernel_calls(program.module)}
        functions = [op for op in program.module.body.operations if "kernel.kind" in op.attributes]
        made = {ir.StringAttr(function.attributes["sym_name"]).value for function in functions}
        sizes = {str(call.attributes["dims"]) for call in kernel_calls(program.module)}
    assert called == made and len(made) == 2 and sizes == {'{d0 = "n"}'}


@pytest.mark.parametrize("spec", ["n=1..64", "n=7..65", "n=8..16,n%8=0"])
def test_sizes_with_limits(tmp_path: Path, spec: str) -> None:
    """What is known of a size is known of the parts'."""
    feed = np.random.default_rng(0).standard_normal((16, 20), dtype=np.float32)
    source, shapes = feed_forward(("n", 20)), {"variants": (spec,), "generic": False}
    whole, one = outputs(source, tmp_path / "whole", feed, **shapes)
    parted, two = outputs(source, tmp_path / "parts", feed, tuning=After(0), **shapes)
    assert parted == whole and two == one + 1


def wide(path: Path) -> Path:
    onnx.save(feed_forward((64, 20)), path)
    return path


def test_tasks(tmp_path: Path) -> None:
    """The whole and its parts, which measuring finds to give the same bits; nothing where it cannot pay."""
    (task,) = fusion_tasks(lower(wide(tmp_path / "m.onnx"), Options(mcpu="native")))
    assert task.what == "fusion" and task.signature.startswith("matmul(f32[64,20]")
    assert sorted(c.choice["fusion"] for c in task.candidates) == [[], [0], [1]]
    assert task.candidates[0].choice == {"fusion": []} and [len(c.calls) for c in task.candidates] == [1, 2, 2]
    writer = BundleWriter(CompilePool(target_for("native")), 1, 0)
    writer.write(tmp_path / "bundle", [Portion(task, range(3))])
    (result,) = measure_bundle(tmp_path / "bundle")["results"]
    assert {told["verdict"] for told in result["candidates"]} <= {"reference", "slower", "even", "faster"}
    nodes: Nodes = [("MatMul", ["x", "w"], ["a"], ""), ("Relu", ["a"], ["y"], "")]
    onnx.save(model(nodes, (64, 20), w=(20, 24)), tmp_path / "short.onnx")
    assert fusion_tasks(lower(tmp_path / "short.onnx", Options(mcpu="native"))) == []


def test_the_tuner_looks_for_boundaries_between_tuned_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Schedules first, then where the kernel ends, and schedules of the parts once it has ended."""
    tuner = Tuner(wide(tmp_path / "m.onnx"), Options(mcpu="native"), Records(), tmp_path / "r.jsonl")
    asked: list[list[tuple[str, str]]] = []

    def explored(self, tasks, until, known) -> None:
        asked.append([task.problem for task in tasks])
        for task in tasks:
            choice = task.candidates[-1].choice
            self.found(Record(task.signature, tuner.target.key, choice, 50.0, 100.0))
            for candidate in task.candidates if task.what == "fusion" else ():
                schedules = [dict(before.choice["schedule"]) for before in tuner.records if "schedule" in before.choice]
                whole = len(candidate.calls) == 1
                assert not whole or str(schedules[0]["rows"]) in candidate.calls[0].text

    monkeypatch.setattr(tune.Search, "explore", explored)
    monkeypatch.setattr(Tuner, "_finish", lambda self, folder: tune.Summary(self.records, 2, 4, 2, 1.0))
    with runner_for("local", tuner.target) as runner:
        tuner.run(runner, tmp_path / "bundles", ENOUGH)
    algorithms, kernels, ends, parts = asked
    assert not algorithms and [what for _, what in kernels] == ["schedule"] and [what for _, what in ends] == ["fusion"]
    assert ends[0][0] == kernels[0][0]
    assert {what for _, what in parts} == {"schedule"} and not set(parts) & set(kernels)
    records, warnings = Records.read(tmp_path / "r.jsonl")
    assert not warnings and sorted(next(iter(r.choice)) for r in records) == ["fusion", "schedule", "schedule"]
