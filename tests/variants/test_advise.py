"""`onnxc advise`: lists of shapes, measuring, and what is advised."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import onnx
import pytest

import onnxc
from onnxc.advise import Candidate, Measured, arguments_of, as_table, choose
from onnxc.bench import check_peers
from onnxc.bench_report import duration
from onnxc.errors import OnnxcError
from onnxc.runtime import InferenceSession, InputError
from onnxc.runtime.shape_record import ShapeRecord
from onnxc.shape_list import covering_spec, free_dims, read_shapes, spec_of
from tests.cli.conftest import Command, onnxc_command  # noqa: F401 (a fixture)
from tests.variants import models

INPUTS = [SimpleNamespace(name="x", shape=["batch", 3, None]), SimpleNamespace(name="mask", shape=["batch", "seq"])]


def shapes(tmp_path: Path, entries: object) -> list[tuple[dict[str, int], float]]:
    (tmp_path / "shapes.json").write_text(json.dumps(entries))
    return read_shapes(tmp_path / "shapes.json", INPUTS)


def test_shapes(tmp_path: Path) -> None:
    entries = [
        {"x": [1, 3, 7], "mask": [1, 5]},
        {"batch": 2, "x.2": 7, "mask.1": 5, "weight": 2.5},
        {"x": [1, 3, 7], "seq": 5, "weight": 3},
    ]
    one, two = {"batch": 1, "x.2": 7, "seq": 5}, {"batch": 2, "x.2": 7, "seq": 5}
    assert shapes(tmp_path, entries) == [(one, 4.0), (two, 2.5)]
    assert spec_of(one) == "batch=1,x.2=7,seq=5"
    assert covering_spec([one, two]) == "batch=1..2,x.2=7,seq=5"
    assert covering_spec([{"h": 96}, {"h": 32}, {"h": 64}]) == "h%32=0,h=32..96"


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([], "the shapes are no list"),
        ({"batch": 1}, "the shapes are no list"),
        ([3], "shape 1: 3 is no object"),
        ([{"batch": 1, "x.2": 1}], "shape 1: dim 'seq' is left open"),
        ([{"batch": 1, "x.2": 1, "seq": 1}, {"x": [1, 3]}], "shape 2: input 'x' has 3 dims, not 2"),
        ([{"x": [1, 4, 1]}], "'x.1' is 4, but the model fixes it to 3"),
        ([{"x": [1, 3, 1], "mask": [2, 1]}], "dim 'batch' is 1 and 2"),
        (
            [{"batch": 1, "x.2": 1, "seq": 1, "weight": 1e308}],
            "shape 1: the weight is 1e+308, not a positive number up to",
        ),
        ([{"batch": -1}], "'batch' is -1, which is no size"),
        ([{"batch": 1 << 47}], "'batch' is 140737488355328, which is no size"),
        ([{"x": "1,3,1"}], "the shape of input 'x' is '1,3,1', not a list"),
        ([{"y": 1}], "there is no input or free dim 'y'"),
        ([{"batch": 1, "x.2": 1, "seq": 1, "weight": 0}], "the weight is 0"),
    ],
)
def test_wrong_shapes(tmp_path: Path, entries: object, message: str) -> None:
    with pytest.raises(OnnxcError) as caught:
        shapes(tmp_path, entries)
    assert message in str(caught.value) and caught.value.exit_code == 2


def test_no_json(tmp_path: Path) -> None:
    for text in ("{", "[" * 100_000):
        (tmp_path / "shapes.json").write_text(text)
        with pytest.raises(OnnxcError, match="the shapes are no JSON"):
            read_shapes(tmp_path / "shapes.json", INPUTS)
    with pytest.raises(OnnxcError, match="cannot read the shapes"):
        read_shapes(tmp_path / "none.json", INPUTS)


def candidate(ratios: dict[int, float], noise: float = 0.001) -> Candidate:
    spec = spec_of({"n": next(iter(ratios))}) if len(ratios) == 1 else "n=1..9"
    return Candidate(spec, 0, 0.0, [Measured({"n": n}, 1.0, 1e-3, r * 1e-3, r, noise) for n, r in ratios.items()])


@pytest.mark.parametrize(
    ("found", "advised"),
    [
        ([candidate({1: 0.9}), candidate({2: 0.99})], ["n=1"]),
        ([candidate({1: 0.9}, noise=0.2)], []),
        ([candidate({1: 0.9}), candidate({2: 0.5}), candidate({1: 0.9, 2: 0.9})], ["n=2", "n=1..9"]),
        ([candidate({1: 0.9}), candidate({2: 0.9}), candidate({1: 1.0, 2: 1.1})], ["n=1", "n=2"]),
    ],
)
def test_what_is_advised(found: list[Candidate], advised: list[str]) -> None:
    choose(found)
    assert arguments_of(found)[1::2] == advised


def test_table() -> None:
    found = [candidate({1: 0.9}), candidate({2: 0.99})]
    choose(found)
    lines = as_table(found, shlex.quote, duration).splitlines()
    assert lines[1].split() == ["n=1", "1", "ms", "900", "µs", "+10.0%", "0.1%", "0.0", "kB", "0.00", "s", "pays"]
    assert lines[2].endswith("0.00 s") and lines[3] == "--variant n=1"


def test_a_shape_that_cannot_run_is_named(tmp_path: Path, onnxc_command: Command) -> None:  # noqa: F811
    """By the model and the shape: positions beyond a table of eight."""
    text = """<ir_version: 10, opset_import: ["" : 21]> g (float[n, 4] x) => (float[n, 4] y)
        <float[8, 4] table = {0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0},
         int64 zero = {0}, int64 one = {1}> {
        size = Shape <start = 0, end = 1> (x)  n = Squeeze(size)  places = Range(zero, n, one)
        rows = Gather(table, places)  y = Add(x, rows) }"""
    onnx.save(onnx.parser.parse_model(text), tmp_path / "m.onnx")
    (tmp_path / "shapes.json").write_text('[{"n": 8}, {"n": 9}]')
    done = onnxc_command("advise", tmp_path / "m.onnx", "--shapes", tmp_path / "shapes.json", "--rounds", "2")
    assert done.returncode == 1 and "m.onnx: " in done.stderr and "with n=9" in done.stderr, done.stderr
    assert "variant" not in done.stderr.partition("error: ")[2]


def test_recorded_shapes_are_measured(tmp_path: Path, onnxc_command: Command) -> None:  # noqa: F811
    onnx.save(models.tokens(), tmp_path / "tokens.onnx")
    onnxc.compile(tmp_path / "tokens.onnx", tmp_path / "tokens.so")
    for runs in (2, 3):
        session = InferenceSession(tmp_path / "tokens.so", record_shapes=tmp_path / "shapes.json")
        for _ in range(runs):
            session.run(None, {"x": np.zeros((1, 8, 48), np.float32)})
        session.run(None, {"x": np.zeros((2, 3, 48), np.float32)})
        del session
    recorded = json.loads((tmp_path / "shapes.json").read_text())
    assert recorded == [{"x": [1, 8, 48], "weight": 5}, {"x": [2, 3, 48], "weight": 2}]
    quick = ["--rounds", "2", "--block-ms", "1"]
    done = onnxc_command("advise", "tokens.onnx", "--shapes", "shapes.json", *quick, "--json")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert [v["spec"] for v in facts["variants"]] == ["batch=1,seq=8", "batch=2,seq=3", "batch=1..2,seq=3..8"]
    assert all(v["size"] > 0 and v["seconds"] >= 0 and v["shapes"][0]["generic"] > 0 for v in facts["variants"])


@pytest.mark.parametrize("text", ["{", "{}", "[1]", '[{"x": [1], "weight": "a"}]', "\xff"])
def test_a_record_that_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "shapes.json").write_text(text, "latin-1")
    with pytest.raises(InputError, match="the shapes of runs cannot be recorded in"):
        ShapeRecord(tmp_path / "shapes.json", [])
    assert (tmp_path / "shapes.json").read_text("latin-1") == text
    with pytest.raises(InputError, match="cannot be recorded in .*: No such file"):
        ShapeRecord(tmp_path / "none" / "shapes.json", [])


def test_a_record_that_fails_later_is_warned_of(tmp_path: Path) -> None:
    record = ShapeRecord(tmp_path / "shapes.json", [])
    (tmp_path / "shapes.json").unlink()
    (tmp_path / "shapes.json").mkdir()
    with pytest.warns(RuntimeWarning, match="cannot be recorded in .*: Is a directory"):
        record.note({})
    (tmp_path / "shapes.json").rmdir()
    record.close()
    assert json.loads((tmp_path / "shapes.json").read_text()) == [{"weight": 1}]


def test_a_fork_counts_its_own_runs(tmp_path: Path) -> None:
    record = ShapeRecord(tmp_path / "shapes.json", [])
    for _ in range(2):
        record.note({})
    child = os.fork()
    if not child:
        record.note({})
        record.close()
        os._exit(0)
    os.waitpid(child, 0)
    record.close()
    assert json.loads((tmp_path / "shapes.json").read_text()) == [{"weight": 3}]


def test_names_that_conditions_cannot_hold() -> None:
    inputs = [SimpleNamespace(name=name, shape=["g,h", " e "]) for name in ("x", "z")]
    expected = {"g,h": "x.0", " e ": "x.1", "x.0": "x.0", "x.1": "x.1", "z.0": "x.0", "z.1": "x.1"}
    assert free_dims(inputs) == expected


@pytest.mark.parametrize("name", ["onnxc", "generic", "nobody"])
def test_only_other_runtimes_are_measured_against(name: str) -> None:
    with pytest.raises(OnnxcError, match=f"cannot measure against '{name}'"):
        check_peers([name])
