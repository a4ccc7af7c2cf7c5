"""Whether kernels take turns by rows as a choice: of records, of the user and of the tuner; the bits stay the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnxc.compilation import Compilation
from onnxc.compile_pool import CompilePool
from onnxc.driver import compile_model
from onnxc.errors import OnnxcError
from onnxc.options import Options
from onnxc.passes import row_turns
from onnxc.passes.choices import Choices
from onnxc.passes.kernel_calls import nodes_of
from onnxc.passes.rewriting import functions, operations
from onnxc.runtime import InferenceSession
from onnxc.runtime.measure import measure_bundle
from onnxc.targets import target_for
from onnxc.tuning import tune
from onnxc.tuning.bundle import BundleWriter, Portion
from onnxc.tuning.elsewhere import CommandRunner
from onnxc.tuning.extraction import lower
from onnxc.tuning.records import Record, Records
from onnxc.tuning.runners import runner_for
from onnxc.tuning.tune import Tuner
from onnxc.tuning.turns import turn_tasks

from .commands import ENOUGH
from .models import Told

CPU = "skylake-avx512"  # 1 MB of L2; nothing is brought from L3 ahead
AHEAD = "znver4"  # as large, and it is
TARGET = target_for(CPU).key
ALL = [["expand", "depthwise", "project"]]
WEIGHTS = {"w": (96, 8, 1, 1), "v": (96, 1, 3, 3), "u": (8, 96, 1, 1)}


def block(side: int = 56, end: str = "project") -> onnx.ModelProto:
    """Expand, depthwise, project: 1.2 MB between each two of them."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], "expand"),
        helper.make_node("Conv", ["a", "v"], ["b"], "depthwise", pads=[1] * 4, group=96),
        helper.make_node("Conv", ["b", "u"], ["c"], "project"),
        helper.make_node("Reshape", ["c", "s"], ["y"], "flat"),
    ]
    rng = np.random.default_rng(2)
    values = [numpy_helper.from_array(rng.standard_normal(s).astype(np.float32), n) for n, s in WEIGHTS.items()]
    values.append(numpy_helper.from_array(np.array([1, -1], np.int64), "s"))
    shape = [1, 8, side, side]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8 * side * side])]
    graph = helper.make_graph(nodes, "block", inputs, outputs, values)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)


def chains(told: Told | None = None, side: int = 56, **options) -> list[list[str]]:
    """The nodes of the calls that take turns, a list a chain."""
    run = Compilation(Options(**{"mcpu": CPU, **options}), told or Told())
    program = run.import_model(block(side), "model")
    run.run_passes(program, "kernels")
    run.tell(program)
    found = []
    with program.context:
        for function in functions(program.module):
            for op in operations(function.regions[0].blocks[0]):
                if op.name == "kernel.bands":
                    calls = [view.operation for view in op.regions[0].blocks[0].operations][:-1]
                    found.append([node for call in calls for node in nodes_of(call)])
    return found


@pytest.fixture(scope="module")
def signature(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of the chain of all three."""
    path = tmp_path_factory.mktemp("model") / "m.onnx"
    onnx.save(block(), path)
    (task,) = turn_tasks(lower(path, Options(mcpu=CPU)))
    return task.signature


def write(path: Path, signature: str, *turns: object) -> Path:
    lines = [Record(signature, TARGET, {"turns": t}, ns=80.0, default_ns=100.0).line() for t in turns]
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.mark.parametrize(
    ("turns", "found"), [([], ALL), ([0], [ALL[0][1:]]), ([1], [ALL[0][:2]]), ([0, 1], [])], ids=str
)
def test_records(tmp_path: Path, signature: str, turns: list[int], found: list[list[str]]) -> None:
    assert chains() == ALL
    told, path = Told(), write(tmp_path / "r.jsonl", signature, turns)
    assert chains(told, tuning=path) == found
    assert not told.warnings
    assert (f"interleave_kernels: falls apart after {', '.join(map(str, turns))} by a record: {signature}"
            in told.noted) == bool(turns)  # fmt: skip
    assert chains(tuning=path, objective="memory") == ALL


def test_hardware_that_reads_ahead(tmp_path: Path) -> None:
    """There the first of three kernels stands apart by itself; records, users and memory have the say as elsewhere."""
    onnx.save(block(), tmp_path / "m.onnx")
    (task,) = turn_tasks(lower(tmp_path / "m.onnx", Options(mcpu=AHEAD)))
    assert [c.choice["turns"] for c in task.candidates] == [[0], [], [0, 1], [1]]
    record = Record(task.signature, target_for(AHEAD).key, {"turns": []}, ns=80.0, default_ns=100.0)
    (tmp_path / "r.jsonl").write_text(record.line())
    (tmp_path / "o.toml").write_text('["depthwise"]\nturns = "always"')
    assert chains(mcpu=AHEAD) == [ALL[0][1:]]
    assert chains(mcpu=AHEAD, tuning=tmp_path / "r.jsonl") == ALL
    assert chains(mcpu=AHEAD, override=tmp_path / "o.toml") == ALL
    assert chains(mcpu=AHEAD, objective="memory") == ALL
    assert not turn_tasks(lower(tmp_path / "m.onnx", Options(mcpu=AHEAD, objective="memory")))


@pytest.mark.parametrize("turns", [[2], [-1], [1, 0], [0, 0]], ids=str)
def test_a_record_that_no_longer_holds(tmp_path: Path, signature: str, turns: list[int]) -> None:
    told, path = Told(), write(tmp_path / "r.jsonl", signature, turns)
    assert chains(told, tuning=path) == ALL
    why = "of 3 kernels it falls apart after some of 0 … 1, in order, each named once"
    assert told.warnings == [f"warning: {path}:1: {why}: the heuristic decides who takes turns: {signature}"]


@pytest.mark.parametrize("turns", ["never", True, [1.5], {"after": 1}, None])
def test_no_turns(tmp_path: Path, signature: str, turns: object) -> None:
    records, (warning,) = Records.read(path := write(tmp_path / "r.jsonl", signature, turns))
    assert not len(records) and warning.startswith(f"{path}:1: its 'turns' is ")
    assert warning.endswith("not a list of kernels' numbers")


def test_contradictions_and_merging(tmp_path: Path, signature: str) -> None:
    records, (warning,) = Records.read(path := write(tmp_path / "r.jsonl", signature, [0], [1]))
    assert len(records) == 1 and "contradicts" in warning and f"{path}:" in warning
    other = Records([Record("conv()", TARGET, {"turns": []}, 1.0, 1.0)])
    records.merge(other).write(tmp_path / "merged.jsonl")
    merged, warnings = Records.read(tmp_path / "merged.jsonl")
    assert len(merged) == 2 and not warnings


@pytest.mark.parametrize(
    ("text", "side", "found"),
    [
        ('["depthwise"]\nfusion = "apart"', 56, []),
        ('["depthwise"]\nturns = "never"', 56, []),
        ('["expand"]\nturns = "never"', 56, [ALL[0][1:]]),
        ('["*"]\nturns = "never"\n["project"]\nturns = "always"\n["depthwise"]\nturns = "always"', 56, [ALL[0][1:]]),
        ('["*"]\nturns = "always"', 20, ALL),
        ('["expand"]\nturns = "always"', 20, [ALL[0][:2]]),
    ],
)
def test_overrides(tmp_path: Path, signature: str, text: str, side: int, found: list[list[str]]) -> None:
    """Also against records, and where what is between is small."""
    (tmp_path / "o.toml").write_text(text)
    path = write(tmp_path / "r.jsonl", signature, [1])
    assert chains(side=side, tuning=path, override=tmp_path / "o.toml") == found
    assert chains(side=20) == []


@pytest.mark.parametrize(
    ("text", "node", "why"),
    [
        ('["flat"]\nturns = "always"', "flat", "it is part of no kernel: a view"),
        ('["expand"]\nturns = "always"\n["depthwise"]\nturns = "never"', "expand", "no kernel before or after it"),
        ('["expand"]\nturns = "often"', None, "turns = 'often' is not possible (hint: one of never, always)"),
        ('["expand"]\nturns = false', None, 'turns = False is not possible (hint: for example turns = "never")'),
    ],
)
def test_refused_overrides(tmp_path: Path, text: str, node: str | None, why: str) -> None:
    (tmp_path / "o.toml").write_text(text)
    with pytest.raises(OnnxcError) as error:
        chains(override=tmp_path / "o.toml")
    assert error.value.exit_code == 2 and error.value.node == node and why in str(error.value)
    assert error.value.file == f"{tmp_path / 'o.toml'}:1"


class FallingApart(Choices):
    def __init__(self, *after: int) -> None:
        self.after = after

    def turns(self, signature: str) -> tuple[int, ...]:
        return self.after


def test_the_bits_are_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_turns, "LARGE", 1 << 40)
    feed, found = np.random.default_rng(3).standard_normal((1, 8, 20, 20)).astype(np.float32), set()
    for after in ((), (0,), (1,), (0, 1)):
        (folder := tmp_path / str(len(after) * 10 + sum(after))).mkdir()
        compile_model(block(20), folder / "m.so", Options(mcpu="native", tuning=FallingApart(*after)))
        for threads in (1, 2):
            found.add(InferenceSession(folder / "m.so", threads=threads).run(None, {"x": feed})[0].tobytes())
    assert len(found) == 1


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("form", ["library", "program"])
def test_tasks(tmp_path: Path, form: str, threads: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """All ways are measured, by numpy and by C, and give the same bits; nothing where nobody takes turns."""
    monkeypatch.setattr(row_turns, "LARGE", 1 << 40)
    onnx.save(block(20), tmp_path / "m.onnx")
    lowered = lower(tmp_path / "m.onnx", Options(mcpu="native"))
    before = {name: str(function) for name, function in lowered.functions.items()}
    (task,) = turn_tasks(lowered)
    assert {name: str(function) for name, function in lowered.functions.items()} == before
    assert task.what == "turns" and task.signature.startswith("turns(conv(f32[1,20,20,8]")
    ways = [c.choice["turns"] for c in task.candidates]
    assert ways[0] in ([], [0])  # the heuristic's choice for this machine, then the others
    assert ways == [ways[0], *(way for way in ([], [0, 1], [0], [1]) if way != ways[0])]
    plans = {(): [0], (0, 1): [], (0,): [1], (1,): [0]}
    assert [sorted(c.turns) for c in task.candidates] == [plans[tuple(way)] for way in ways]
    folder = tmp_path / "bundle"
    BundleWriter(CompilePool(target_for("native")), threads, 0, form).write(folder, [Portion(task, range(4))])
    if form == "program":
        (result,) = CommandRunner("{bundle}").submit(folder).result()
    else:
        (result,) = measure_bundle(folder)["results"]
    assert {told["verdict"] for told in result["candidates"]} <= {"reference", "slower", "even", "faster"}
    monkeypatch.setattr(row_turns, "LARGE", 1)
    assert turn_tasks(lowered) == []


def test_the_tuner_asks_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the schedules found before, which turns make shorter where nothing is lost by it."""
    monkeypatch.setattr(row_turns, "LARGE", 1 << 40)
    onnx.save(block(20), tmp_path / "m.onnx")
    tuner = Tuner(tmp_path / "m.onnx", Options(mcpu="native"), Records(), tmp_path / "r.jsonl")
    asked: list[set[str]] = []

    def explored(self, tasks, until, known) -> None:
        asked.append({task.what for task in tasks})
        for task in tasks:
            self.found(Record(task.signature, tuner.target.key, task.candidates[-1].choice, 50.0, 100.0))

    monkeypatch.setattr(tune.Search, "explore", explored)
    monkeypatch.setattr(Tuner, "_finish", lambda self, folder: tune.Summary(self.records, 2, 4, 2, 1.0))
    with runner_for("local", tuner.target) as runner:
        tuner.run(runner, tmp_path / "bundles", ENOUGH)
    assert asked[-2:] == [{"schedule"}, {"turns"}]
    assert "turns" in {next(iter(record.choice)) for record in Records.read(tmp_path / "r.jsonl")[0]}
