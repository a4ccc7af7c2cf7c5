"""Attention as one kernel or by its steps as a choice: of records, of the user and of the tuner; other bits, none if strict."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper, parser

from onnxc.compilation import Compilation
from onnxc.compile_pool import CompilePool
from onnxc.driver import compile_model
from onnxc.errors import OnnxcError
from onnxc.inspection import inspect_artefact
from onnxc.options import Options
from onnxc.passes.choices import Choices
from onnxc.passes.kernel_calls import kernel_calls
from onnxc.passes.kernels.kernel_function import KernelFunction
from onnxc.runtime import InferenceSession
from onnxc.runtime.measure import measure_bundle
from onnxc.targets import target_for
from onnxc.tuning.bundle import BundleWriter, Portion
from onnxc.tuning.extraction import lower
from onnxc.tuning.problems import Algorithms
from onnxc.tuning.records import Record, Records
from onnxc.tuning.runners import runner_for
from onnxc.tuning.tasks import TOLERANCE
from onnxc.tuning.tune import Summary, Tuner

from .commands import ENOUGH
from .models import Told

CPU = "x86-64-v3"
ONE = ["attention", "map"]
STEPS = ["map", "matmul", "softmax", "matmul", "map"]


def spelt(batch: int | str = 2, rows: int | str = 40, heads: int = 4, width: int = 16) -> onnx.ModelProto:
    """softmax(q·kᵀ/4 + mask)·v with heads split off, as exporters have it, and a Relu behind."""
    size = f"float[{batch},{rows},{heads * width}]"
    split = f"0,-1,{heads},{width}"
    return parser.parse_model(f"""<ir_version: 10, opset_import: ["": 20]>
      g ({size} q, {size} k, {size} v, float[{batch},1,1,{rows}] mask) => ({size} y)
      <int64[4] split = {{{split}}}, int64[3] join = {{0,-1,{heads * width}}}, float scale = {{4}}> {{
        [q_split] a = Reshape(q, split) [q_turn] b = Transpose<perm = [0, 2, 1, 3]>(a)
        [k_split] c = Reshape(k, split) [k_turn] d = Transpose<perm = [0, 2, 3, 1]>(c)
        [v_split] e = Reshape(v, split) [v_turn] f = Transpose<perm = [0, 2, 1, 3]>(e)
        [scores] h = MatMul(b, d) [scaled] i = Div(h, scale) [masked] j = Add(i, mask)
        [weights] l = Softmax<axis = -1>(j) [values] m = MatMul(l, f)
        [turned] n = Transpose<perm = [0, 2, 1, 3]>(m) [joined] o = Reshape(n, join) [relu] y = Relu(o) }}""")


def feeds(batch: int = 2, rows: int = 40) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    given = {name: rng.standard_normal((batch, rows, 64), np.float32) for name in "qkv"}
    mask = np.where(rng.random((batch, 1, 1, rows)) < 0.2, np.float32(-1e9), np.float32(0))
    return {**given, "mask": mask}


def kinds(told: Told | None = None, source: onnx.ModelProto | None = None, **options) -> list[str]:
    """Of the kernels that main calls, neighbours of one kind once."""
    run = Compilation(Options(mcpu=CPU, **options), told or Told())
    program = run.import_model(source or spelt(), "model")
    run.run_passes(program, "kernels")
    run.tell(program)
    with program.context:
        functions = [op for op in program.module.body.operations if "kernel.kind" in op.attributes]
        kernels = {str(op.attributes["sym_name"]).strip('"'): KernelFunction.of(op) for op in functions}
        called = [
            kernels[str(call.attributes["callee"]).removeprefix("@")].kind for call in kernel_calls(program.module)
        ]
    return [kind for i, kind in enumerate(called) if not i or called[i - 1] != kind]


class Asked(Choices):
    """Keeps the signatures of attention that it is asked for."""

    def __init__(self) -> None:
        self.signatures: list[str] = []

    def algorithm(self, signature: str) -> None:
        self.signatures.append(signature)


@pytest.fixture(scope="module")
def signature() -> str:
    asked = Asked()
    kinds(tuning=asked)
    (found,) = asked.signatures
    return found


def record(path: Path, signature: str, algorithm: str) -> Path:
    path.write_text("\n" + Record(signature, target_for(CPU).key, {"algorithm": algorithm}, 80.0, 100.0).line() + "\n")
    return path


def test_records(tmp_path: Path, signature: str) -> None:
    assert signature == (
        "kernel.attention(f32[2,40,64], f32[2,40,64], f32[2,40,64], f32[2,1,1,40]) "
        "{heads=4, kv_heads=4, scale=0.25} -> f32[2,40,64]"
    )
    assert kinds() == ONE
    told, path = Told(), record(tmp_path / "r.jsonl", signature, "unfused")
    assert kinds(told, tuning=path) == STEPS and not told.warnings
    assert kinds(tuning=record(tmp_path / "f.jsonl", signature, "fused")) == ONE
    assert kinds(tuning=path, override=override(tmp_path, "fused")) == ONE
    assert kinds(told, tuning=path, strict=True) == ONE and not told.warnings
    assert any("unfused gives other bits, so it is not used with --strict" in line for line in told.noted)
    assert kinds(told, tuning=path, objective="memory") == ONE and not told.warnings
    assert any("attention stays one kernel, which takes less memory" in line for line in told.noted)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        compile_model(spelt(), tmp_path / name / "m.so", Options(mcpu=CPU, tuning=path))
    assert (tmp_path / "a" / "m.so").read_bytes() == (tmp_path / "b" / "m.so").read_bytes()
    (variant,) = inspect_artefact(tmp_path / "a" / "m.so")["report"]["variants"]
    described = [k for k in variant["kernels"] if k["kind"] != "map"]
    assert {(k["kind"], k["algorithm"], k["algorithm_source"]) for k in described} == {
        ("matmul", "unfused", "record"), ("softmax", "unfused", "record")
    }  # fmt: skip


@pytest.mark.parametrize("algorithm", ["winograd4", "blocked"])
def test_a_record_that_no_longer_holds(tmp_path: Path, signature: str, algorithm: str) -> None:
    told, path = Told(), record(tmp_path / "r.jsonl", signature, algorithm)
    assert kinds(told, tuning=path) == ONE
    why = f"the algorithm '{algorithm}' cannot do this attention, only fused, unfused"
    assert told.warnings == [f"warning: {path}:2: {why}: the heuristic chooses for {signature}"]


def override(folder: Path, algorithm: str, pattern: str = "*") -> Path:
    (folder / "o.toml").write_text(f'["{pattern}"]\nalgorithm = "{algorithm}"\n')
    return folder / "o.toml"


def test_overrides(tmp_path: Path) -> None:
    """By the name of the last node; where scores were asked to stay steps, there is nothing to choose."""
    assert kinds(override=override(tmp_path, "unfused")) == STEPS
    assert kinds(override=override(tmp_path, "unfused", "joined")) == STEPS
    assert "softmax" in kinds(override=override(tmp_path, "unfused"), objective="memory")


@pytest.mark.parametrize(
    ("algorithm", "pattern", "options", "why"),
    [
        ("blocked", "joined", {}, "this attention can be done by fused, unfused"),
        ("direct", "joined", {}, "this attention can be done by fused, unfused"),
        ("unfused", "joined", {"strict": True}, "this attention can be done by fused"),
        ("unfused", "relu", {}, "and attention that is one kernel have a choice of algorithm"),
    ],
)
def test_refused_overrides(tmp_path: Path, algorithm: str, pattern: str, options: dict, why: str) -> None:
    path = override(tmp_path, algorithm, pattern)
    with pytest.raises(OnnxcError) as error:
        kinds(override=path, **options)
    assert error.value.exit_code == 2 and error.value.node == pattern and why in str(error.value)
    assert error.value.file == f"{path}:1"


def test_an_algorithm_of_convolutions_passes_attention_over(tmp_path: Path) -> None:
    """One pattern may name the algorithm of one kind of operator, and match nodes of the other, too."""
    source = parser.parse_model("""<ir_version: 10, opset_import: ["": 23]>
      g (float[1, 32, 12, 12] x, float[1, 2, 5, 4] k) => (float[1, 32, 12, 12] c, float[1, 2, 5, 4] y)
      { [one] a = Conv<pads = [1, 1, 1, 1]>(x, w) b = Relu(a) [two] c = Conv<pads = [1, 1, 1, 1]>(b, w) [attend] y = Attention(k, k, k) }""")
    source.graph.initializer.append(numpy_helper.from_array(np.ones((32, 32, 3, 3), np.float32), "w"))
    found = kinds(source=source, override=override(tmp_path, "winograd2"))
    assert "attention" in found and any(kind.startswith("winograd") for kind in found)


@pytest.mark.parametrize("free", [False, True])
def test_results(tmp_path: Path, free: bool) -> None:
    """Equal up to rounding, with free sizes too; threads change nothing."""
    source = spelt("n", "s") if free else spelt()
    found = {}
    for name, options in {"one": {}, "steps": {"override": override(tmp_path, "unfused")}}.items():
        compile_model(source, tmp_path / f"{name}.so", Options(mcpu=CPU, **options))
        for threads in (1, 2):
            session = InferenceSession(tmp_path / f"{name}.so", threads=threads)
            found[name, threads] = session.run(None, feeds())[0]
    assert found["one", 1].tobytes() == found["one", 2].tobytes() != found["steps", 1].tobytes()
    assert found["steps", 1].tobytes() == found["steps", 2].tobytes()
    np.testing.assert_allclose(found["one", 1], found["steps", 1], atol=2e-6)


def test_tasks(tmp_path: Path) -> None:
    """Both are measured, and are right; with --strict there is nothing to choose, nor where the user has chosen."""
    onnx.save(spelt(), tmp_path / "m.onnx")
    (task,) = Algorithms(tmp_path / "m.onnx", Options(mcpu="native")).tasks()
    assert [(c.choice, c.tolerance) for c in task.candidates] == [
        ({"algorithm": "fused"}, TOLERANCE), ({"algorithm": "unfused"}, TOLERANCE)
    ]  # fmt: skip
    assert task.what == "algorithm" and [len(c.calls) for c in task.candidates][1] > 4
    BundleWriter(CompilePool(target_for("native")), 1, 0).write(tmp_path / "b", [Portion(task, range(2))])
    (result,) = measure_bundle(tmp_path / "b")["results"]
    assert result["candidates"][1]["verdict"] in ("slower", "even", "faster")
    assert 0 < result["candidates"][1]["difference"] < TOLERANCE
    for options in ({"strict": True}, {"override": override(tmp_path, "fused")}):
        assert Algorithms(tmp_path / "m.onnx", Options(mcpu="native", **options)).tasks() == []


def test_the_tuner_takes_what_is_faster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps that win get schedules of their own, and what is compiled with the records has them."""
    onnx.save(spelt(), tmp_path / "m.onnx")
    tuner = Tuner(tmp_path / "m.onnx", Options(mcpu=CPU), Records(), tmp_path / "r.jsonl")
    asked: list[set[str]] = []

    def explored(self, tasks, until, known) -> None:
        asked.append({task.signature.partition("(")[0] for task in tasks})
        for task in tasks:
            self.found(Record(task.signature, tuner.target.key, task.candidates[-1].choice, 50.0, 100.0))

    monkeypatch.setattr("onnxc.tuning.tune.Search.explore", explored)
    monkeypatch.setattr(Tuner, "_finish", lambda self, folder: Summary(self.records, 2, 4, 2, 1.0))
    with runner_for("local", tuner.target) as runner:
        tuner.run(runner, tmp_path / "bundles", ENOUGH)
    assert asked[0] == {"kernel.attention"} and "matmul" in asked[1] and "attention" not in asked[1]
    records, warnings = Records.read(tmp_path / "r.jsonl")
    assert not warnings and {"algorithm": "unfused"} in [r.choice for r in records]
    assert kinds(tuning=tmp_path / "r.jsonl") == STEPS


def test_lowering_keeps_the_users_choice(tmp_path: Path) -> None:
    onnx.save(spelt(), tmp_path / "m.onnx")
    lowered = lower(tmp_path / "m.onnx", Options(mcpu=CPU, override=override(tmp_path, "unfused")))
    assert any("onnx.Softmax" in str(function) for function in lowered.functions.values())
