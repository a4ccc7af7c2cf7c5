"""Compiling with tuning records: both places where they act, what is told, and that bytes are always the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from onnxc.driver import compile_model
from onnxc.options import Options
from onnxc.runtime import InferenceSession
from onnxc.targets import target_for
from onnxc.tuning.chosen import difference
from onnxc.tuning.records import Record

from .models import Asked, Told, convnet

CPU = "x86-64-v3"
FEED = {"x": np.random.default_rng(3).standard_normal((1, 32, 12, 12)).astype(np.float32)}


@pytest.fixture(scope="module")
def asked() -> Asked:
    asked = Asked()
    _compile(None, None, tuning=asked)
    return asked


def _compile(records: Path | None, output: Path | None, **options) -> Told:
    told = Told()
    if output is None:
        from onnxc.compilation import Compilation

        run = Compilation(Options(mcpu=CPU, **options), told)
        run.run_passes(run.import_model(convnet(), "model"), "kernels")
        return told
    compile_model(convnet(), output, Options(mcpu=CPU, tuning=records, threads=1, **options), told)
    return told


def record(signature: str, **choice: object) -> bytes:
    return Record(signature, target_for(CPU).key, choice, ns=80.0, default_ns=100.0).line().encode()


def of_kind(signatures: list[str], kind: str) -> str:
    return next(s for s in signatures if s.startswith(f"{kind}("))


def test_choices_reach_the_kernels(asked: Asked, tmp_path: Path) -> None:
    matmul = of_kind(asked.kernels, "matmul")
    schedule = {"rows": 1, "vectors": 1, "lanes": 8, "group": 1, "packed": 1, "prefetch": 8, "chunk": 0, "copied": 0}
    lines = [
        record(matmul, schedule=schedule),
        *(record(signature, algorithm="direct") for signature in asked.convolutions),
    ]
    artefacts = []
    for number, order in enumerate((lines, lines[::-1], [*lines, lines[0]])):
        (tmp_path / "r.jsonl").write_bytes(b"\n".join(order) + b"\n")
        (tmp_path / str(number)).mkdir()
        told = _compile(tmp_path / "r.jsonl", tmp_path / str(number) / "m.so")
        assert not told.warnings
        assert any("1 kernels by records" in line for line in told.noted)
        artefacts.append((tmp_path / str(number) / "m.so").read_bytes())
    assert artefacts[0] == artefacts[1] == artefacts[2]
    _compile(None, tmp_path / "plain.so")
    results = [InferenceSession(tmp_path / name).run(None, FEED)[0] for name in ("0/m.so", "plain.so")]
    np.testing.assert_allclose(*results, rtol=1e-4, atol=1e-4)
    assert results[0].tobytes() != results[1].tobytes()  # the heuristic takes Winograd's, whose bits are others


def test_what_cannot_be_used_is_told_and_changes_nothing(asked: Asked, tmp_path: Path) -> None:
    matmul, conv = of_kind(asked.kernels, "matmul"), asked.convolutions[0]
    lines = [
        record(matmul, schedule={"rows": 6, "tiles": 3}),
        record(conv, algorithm="by_hand"),
        record(matmul, schedule={"rows": 1})[:-30],
        record("unknown(f32[1]) -> f32[1]", schedule={"rows": 1}),
    ]
    (tmp_path / "r.jsonl").write_bytes(b"\n".join(lines))
    told = _compile(tmp_path / "r.jsonl", tmp_path / "m.so")
    file = tmp_path / "r.jsonl"
    assert [line.removeprefix("warning: ").split(": ")[0] for line in told.warnings] == [
        f"{file}:3",
        f"{file}:2",
        f"{file}:1",
    ]
    assert "cut off" in told.warnings[0] and "'by_hand' cannot do this convolution" in told.warnings[1]
    assert "the heuristic chooses the schedule of matmul(" in told.warnings[2]
    kernels = [line for line in told.noted if line.startswith("choose_schedules: node")]
    convolutions = [line for line in told.noted if line.startswith("apply_choices: node 'conv2': no record for")]
    assert len(kernels) == len(asked.kernels) - 1 and len(convolutions) == 1
    (tmp_path / "plain").mkdir()
    _compile(None, tmp_path / "plain" / "m.so")
    assert (tmp_path / "m.so").read_bytes() == (tmp_path / "plain" / "m.so").read_bytes()


def test_records_of_another_machine(asked: Asked, tmp_path: Path) -> None:
    line = Record(asked.kernels[0], target_for("x86-64-v4").key, {"algorithm": "direct"}, ns=1.0, default_ns=2.0).line()
    (tmp_path / "r.jsonl").write_text(line)
    (warning,) = _compile(tmp_path / "r.jsonl", tmp_path / "m.so").warnings
    why = (
        "1 record is for another target than x86_64 x86-64-v3, tune=x86-64-v4 instead of tune=x86-64-v3, with avx512bw"
    )
    assert f"{tmp_path / 'r.jsonl'}:1: {why}" in warning and warning.endswith(": none is used")
    assert len(warning) < len(str(tmp_path)) + 250


def test_what_sets_targets_apart() -> None:
    ours = "x86_64-unknown-linux-gnu;x86-64;tune=generic;+avx,+fma,+f16c;v256;l1=32768,l2=524288"
    assert difference(ours.replace("=generic", "=znver4"), ours) == "tune=znver4 instead of tune=generic"
    assert difference(ours.replace("l2=524288", "l2=1048576"), ours) == "l2=1048576 instead of l2=524288"
    assert difference(ours.replace("+fma", "+gfni"), ours) == "with gfni without fma"
    assert difference(ours.replace("+fma", "+a,+b,+c,+d,+e"), ours) == "with a, b, c and 2 more without fma"
    assert difference("aarch64-linux-gnu;x", ours) == "aarch64-linux-gnu instead of x86_64-unknown-linux-gnu"


def test_strict_leaves_out_what_changes_bits(asked: Asked, tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").write_bytes(record(asked.convolutions[0], algorithm="winograd4"))
    told = _compile(tmp_path / "r.jsonl", tmp_path / "m.so", strict=True)
    assert not told.warnings and any("not used with --strict" in line for line in told.noted)


def test_the_nearest_is_named(asked: Asked, tmp_path: Path) -> None:
    near = of_kind(asked.kernels, "matmul").replace("3456", "3000")
    (tmp_path / "r.jsonl").write_bytes(record(near, schedule={"rows": 1}))
    told = _compile(tmp_path / "r.jsonl", tmp_path / "m.so")
    assert any("node 'fc'" in line and line.endswith(f"the nearest is {near}") for line in told.noted)


def test_signatures_do_not_name_the_model(asked: Asked) -> None:
    assert len(asked.convolutions) == 2 and len(asked.kernels) == 3
    assert asked.convolutions[0] == (
        "kernel.conv(f32[1,12,12,32], const f32[3,3,32,32]) "
        "{dilations=[1,1], group=1, pads=[1,1,1,1], strides=[1,1]} -> f32[1,12,12,32]"
    )
    assert of_kind(asked.kernels, "matmul") == "matmul(f32[1,3456], const f32[3456,10]) -> f32[1,10]: MatMul(a0,a1)"
