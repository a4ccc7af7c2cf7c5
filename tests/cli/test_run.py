"""`onnxc run`, `bench`, `inspect`, `cache` and `demo` on the demo's model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import onnxc
from tests.command_line import alone


@pytest.fixture(scope="module")
def artefact(tmp_path_factory: pytest.TempPathFactory, digits: Path) -> Path:
    made = tmp_path_factory.mktemp("artefact") / "digits.so"
    onnxc.compile(digits, made)
    return made


def test_run_prints_and_saves(onnxc_command, artefact: Path, digits: Path, tmp_path: Path) -> None:
    data = np.load(digits.with_suffix(".npz"))
    np.save(tmp_path / "x.npy", data["images"])
    done = onnxc_command("run", artefact, "--input", "image=x.npy", "--save", "y.npz", how=alone)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("probability: float32[10, 10]")
    assert (np.load(tmp_path / "y.npz")["probability"].argmax(axis=1) == data["labels"]).all()


def test_random_inputs_are_seeded(onnxc_command, artefact: Path) -> None:
    first, same, other = (onnxc_command("run", artefact, "--seed", seed).stdout for seed in (1, 1, 2))
    assert first == same != other


def test_an_onnx_model_is_compiled_first(onnxc_command, artefact: Path, digits: Path, tmp_path: Path) -> None:
    for model, name in ((artefact, "a.npz"), (digits, "b.npz")):
        assert onnxc_command("run", model, "--dim", "batch=3", "--save", name).returncode == 0
    a, b = (np.load(tmp_path / name)["probability"] for name in ("a.npz", "b.npz"))
    assert a.shape == b.shape == (3, 10)
    np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    ("arguments", "code", "told"),
    [
        (["--input", "picture=x.npy"], 1, "no input 'picture'"),
        (["--input", "image=absent.npy"], 2, "absent.npy"),
        (["--input", "image=wrong.npy"], 1, "image"),
        (["--input", "image=double.npy"], 1, "image"),
        (["--threads", "0"], 2, "--threads"),
        (["--seed", "-1"], 2, "--seed"),
        (["--dim", "bach=1"], 2, "bach"),
        (["--dim", "image.3=9"], 2, "image.3"),
        (["--dim", "batch=-1"], 2, "batch"),
        (["--save", "."], 2, "folder"),
        (["--save", "absent/y.npz"], 2, "absent"),
    ],
)
def test_wrong_inputs_are_named(
    onnxc_command, artefact: Path, tmp_path: Path, arguments: list[str], code: int, told: str
) -> None:
    np.save(tmp_path / "x.npy", np.zeros((1, 1, 8, 8), np.float32))
    np.save(tmp_path / "wrong.npy", np.zeros((1, 1, 9, 8), np.float32))
    np.save(tmp_path / "double.npy", np.zeros((1, 1, 8, 8)))
    done = onnxc_command("run", artefact, *arguments)
    assert done.returncode == code
    assert told in done.stderr


def test_bench_compares_and_writes_json(onnxc_command, digits: Path, tmp_path: Path) -> None:
    pytest.importorskip("onnxruntime")
    done = onnxc_command(
        "bench",
        digits,
        "--against",
        "onnxruntime",
        "--rounds",
        3,
        "--block-ms",
        5,
        "--json",
        "t.json",
        "--dim",
        "batch=2",
        how=alone,
    )
    assert done.returncode == 0, done.stderr
    assert "1 thread on each side, CPU time, 3 interleaved blocks" in done.stdout
    assert "of onnxruntime's time" in done.stdout
    facts = json.loads((tmp_path / "t.json").read_text())
    assert [len(runner["blocks"]) for runner in facts["runners"]] == [3, 3]
    assert facts["ratios"]["onnxruntime"] > 0
    assert facts["inputs"] == {"image": "float32[2×1×8×8]"}


def test_bench_names_what_it_does_not_know(onnxc_command, digits: Path) -> None:
    done = onnxc_command("bench", digits, "--against", "abacus")
    assert done.returncode == 2
    assert "'abacus'" in done.stderr


def test_inspect(onnxc_command, artefact: Path) -> None:
    text = onnxc_command("inspect", artefact, how=alone).stdout
    for told in ("image: tensor(float) [batch, 1, 8, 8]", "probability: tensor(float) [batch, 10]", "generic"):
        assert told in text
    for told in ("dims      batch\n", "needs ", "workspace", "weights   ", "LLVM 22.1", "opset ai.onnx", "onnxc 0"):
        assert told in text
    facts = json.loads(onnxc_command("inspect", "--json", artefact).stdout)
    assert facts["inputs"] == [{"name": "image", "type": "tensor(float)", "shape": ["batch", 1, 8, 8]}]
    assert facts["weights"]["bytes"] > 50_000


def test_inspect_refuses_what_is_no_artefact(onnxc_command, digits: Path) -> None:
    done = onnxc_command("inspect", digits)
    assert done.returncode == 2
    assert "digits.onnx" in done.stderr


def test_cache_tells_its_place(onnxc_command, artefact: Path) -> None:
    done = onnxc_command("cache", how=alone)
    assert done.returncode == 0
    assert "objects" in done.stdout


def test_demo(onnxc_command, tmp_path: Path) -> None:
    done = onnxc_command("demo", "here", how=alone)
    assert done.returncode == 0, done.stderr
    assert "10 of 10 right" in done.stdout
    for name in ("digits.onnx", "digits.so", "digits.c", "onnxc.h"):
        assert (tmp_path / "here" / name).is_file()
        if name != "digits.so":
            assert str(Path("here") / name) in done.stdout


def test_inspect_checks_the_weights_file(onnxc_command, digits: Path, tmp_path: Path, monkeypatch) -> None:
    """Loading trusts the file's length and digest; its content is compared where that is asked for."""
    monkeypatch.setattr("onnxc.artefact.LARGEST_SECTION", 0)
    onnxc.compile(digits, tmp_path / "m.so")
    beside, good = tmp_path / "m.so.weights", (tmp_path / "m.so.weights").read_bytes()
    done = onnxc_command("inspect", "--check", "m.so")
    assert done.returncode == 0 and " in m.so.weights, content checked\n" in done.stdout
    flipped = bytearray(good)
    flipped[len(good) // 2] ^= 1
    for content, why in (
        (bytes(flipped), "its content is damaged (hint: copy it again"),
        (good[:-100], f"it has {len(good) - 100} bytes, not {len(good)}"),
        (good[:-1] + b"!", "it belongs to another artefact"),
        (None, "no such file"),
    ):
        beside.unlink()
        if content is not None:
            beside.write_bytes(content)
        done = onnxc_command("inspect", "--check", "m.so")
        assert done.returncode == 2 and f"m.so.weights: these are not the artefact's weights: {why}" in done.stderr
    (tmp_path / "moved").write_bytes(good)
    facts = json.loads(onnxc_command("inspect", "--json", "--weights", "moved", "m.so").stdout)
    assert facts["weights"]["checked"] == "moved"


def test_inspect_has_nothing_to_check_in_an_artefact(onnxc_command, artefact: Path) -> None:
    done = onnxc_command("inspect", "--check", artefact)
    assert done.returncode == 2 and "the artefact holds them, without a checksum" in done.stderr
