"""`--objective`: what is left out, and that the trade is told; with speed, what copies promise."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from onnxc.driver import compile_model
from onnxc.errors import OnnxcError
from onnxc.inspection import inspect_artefact
from onnxc.options import Options
from onnxc.runtime import InferenceSession
from onnxc.targets import target_for
from onnxc.tuning.records import Record, Records

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
    table = [line.split() for line in told.said if line.startswith("  ")]
    assert table[0] == ["speed", objective] and [row[0] for row in table[1:]] == ["weights", "workspace", "layers"]
    assert table[3][-3:] == ["by", "the", "estimate"]
    assert table[2][-1] == f"({after / before:.2f})" and float(table[1][-1].strip("()")) < 1
    assert after < before and small["variants"][0]["objective"] == objective
    (line,) = [line for line in told.said if line.startswith("objective ")]
    assert line.startswith(f"objective {objective}: 2 convolutions without transformed weights (")
    assert "ms slower a run on one core by the estimate than" in line and not any(
        line.startswith("objective ") for line in silent.said
    )
    results = [InferenceSession(tmp_path / name).run(None, FEED)[0] for name in ("small.so", "fast.so")]
    np.testing.assert_allclose(*results, rtol=1e-4, atol=1e-4)


def test_what_is_traded_is_told_of_each_variant(tmp_path: Path) -> None:
    """And the workspace where it is a number; else it would be a formula of all dims."""
    model = tmp_path / "m.onnx"
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("Softmax", ["x"], ["s"]), helper.make_node("MatMul", ["s", "w"], ["y"])]
    graph = helper.make_graph(
        nodes,
        "g",
        [value("x", TensorProto.FLOAT, ["n", "m", 8])],
        [value("y", TensorProto.FLOAT, ["n", "m", 8])],
        [numpy_helper.from_array(np.ones((8, 8), np.float32), "w")],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), model)
    told = Told()
    compile_model(model, tmp_path / "m.so", Options(mcpu="x86-64-v3", objective="memory", variants=("n=1,m=2",)), told)
    saving = "nothing to save, as fast as with speed; workspace"
    lines = [line for line in told.said if line.startswith("objective")]
    assert lines[0].startswith(f"objective memory, variant 'n=1,m=2' for x86-64-v3: {saving} ")
    assert lines[0].endswith(("bytes", "kB"))
    assert lines[1:] == [f"objective memory, variant 'generic' for x86-64-v3: {saving} by the input shapes"]


def test_measured_times_are_told(tmp_path: Path) -> None:
    """Where records have them of both ways; of layers that nobody has measured the estimate."""
    target, other = (
        target_for("x86-64-v3").key,
        SIGNATURE.replace("3,3,32,32", "3,3,32,24").replace("12,32] {", "12,24] {"),
    )
    other = other.replace("-> f32[1,12,12,32]", "-> f32[1,12,12,24]")
    times = {"direct": 7e6, "winograd4": 4e6}
    found = [Record(s, target, {"algorithm": "winograd4"}, 4e6, 4e6, times=times).line() for s in (SIGNATURE, other)]
    (tmp_path / "r.jsonl").write_text("\n".join(found))
    _, told = build(tmp_path / "m.so", objective="size", tuning=tmp_path / "r.jsonl")
    assert not told.warnings
    assert any("about 6 ms slower a run as records have measured than with speed" in line for line in told.said)
    assert ["layers", "8", "ms", "14", "ms", "(1.75),", "measured"] in [line.split() for line in told.said]
    (tmp_path / "r.jsonl").write_text(found[0])
    _, told = build(tmp_path / "m.so", objective="size", tuning=tmp_path / "r.jsonl")
    assert any("a run on one core by the estimate (1 of 2 as records have measured)" in line for line in told.said)
    for wrong in ({"direct": 0}, {"direct": "slow"}, [1.0]):
        line = found[0].replace('{"direct": 7000000.0, "winograd4": 4000000.0}', json.dumps(wrong))
        (tmp_path / "r.jsonl").write_text(line)
        records, (warning,) = Records.read(tmp_path / "r.jsonl")
        assert not len(records) and warning.startswith(f"{tmp_path / 'r.jsonl'}:1: its '")


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


def branches(count: int) -> onnx.ModelProto:
    """Wide tensors, each of which a sum makes small: the model makes them all before it sums any."""
    wide = " ".join(f"[wide{i}] a{i} = Mul(x, c{i})" for i in range(count))
    sums = " ".join(f"[sum{i}] s{i} = ReduceSum<keepdims = 1>(e{i}, axes)" for i in range(count))
    exps = " ".join(f"[exp{i}] e{i} = MatMul(a{i}, w)" for i in range(count))
    total = "t = Sum(" + ", ".join(f"s{i}" for i in range(count)) + ") [out] y = Identity(t)"
    factors = ", ".join(f"float c{i} = {{{i + 2}}}" for i in range(count))
    return onnx.parser.parse_model(
        f"""<ir_version: 9, opset_import: ["": 20]> g (float[64, 64] x, float[64, 256] w) => (float[64, 1] y)
        <{factors}, int64[1] axes = {{1}}> {{ {wide} {exps} {sums} {total} }}"""
    )


@pytest.mark.parametrize("constant", [False, True])
def test_memory_orders_calls(tmp_path: Path, constant: bool) -> None:
    """Of six wide products one is in use at a time; results have the same bits, and size is the model's own order."""
    results, workspace = {}, {}
    rng = np.random.default_rng(1)
    feed = {"x": rng.standard_normal((64, 64), np.float32), "w": rng.standard_normal((64, 256), np.float32)}
    model = branches(6)
    if constant:
        model.graph.input.pop()
        model.graph.initializer.append(onnx.numpy_helper.from_array(feed.pop("w"), "w"))
    for objective in ("speed", "memory"):
        path = tmp_path / f"{objective}.so"
        compile_model(model, path, Options(mcpu="x86-64-v3", threads=1, objective=objective))
        workspace[objective] = inspect_artefact(path)["report"]["variants"][0]["memory"]["workspace"]
        results[objective] = InferenceSession(path).run(None, feed)[0]
    wide = 64 * 256 * 4
    assert workspace["speed"] >= 6 * wide and workspace["memory"] < 2 * wide
    assert results["speed"].tobytes() == results["memory"].tobytes()


def test_gathering_is_for_size_but_not_for_memory(tmp_path: Path) -> None:
    """Gathered windows need scratch, but no other weights."""
    (tmp_path / "r.jsonl").write_bytes(record(SIGNATURE, algorithm="im2col"))
    found = {}
    for objective in ("size", "memory"):
        report, _ = build(tmp_path / f"{objective}.so", objective=objective, tuning=tmp_path / "r.jsonl")
        kernels = report["variants"][0]["kernels"]
        found[objective] = {k["algorithm"] for k in kernels if "algorithm" in k}, report
    assert "im2col" in found["size"][0] and "im2col" not in found["memory"][0]
    spaces = {o: r["variants"][0]["memory"]["workspace"] for o, (_, r) in found.items()}
    assert spaces["memory"] <= spaces["size"] and not found["size"][1]["weights"]["copies"]


def test_unknown_objective() -> None:
    with pytest.raises(OnnxcError, match="no objective is named 'beauty'"):
        Options(objective="beauty")
