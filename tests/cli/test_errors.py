"""Errors are one paragraph that names the thing, cross processes, and faults leave a folder behind."""

from __future__ import annotations

import json
import pickle
from pathlib import Path

import pytest

from onnxc import faults
from onnxc.errors import CompilerBug, OnnxcError, Refusals


def test_an_error_names_file_node_types_reason_and_hint() -> None:
    error = OnnxcError(
        "cannot be compiled",
        file="m.onnx",
        node="conv1",
        op="Conv",
        types=["tensor<1x3xf32>", "tensor<4xf32>"],
        why="the kernel has rank 1",
        hint="give it three axes",
    )
    assert str(error) == (
        "m.onnx: node 'conv1' (Conv on tensor<1x3xf32>, tensor<4xf32>): cannot be compiled: the kernel has rank 1 "
        "(hint: give it three axes)"
    )


def test_places_are_added_once() -> None:
    error = OnnxcError("wrong", node="a").at(file="m.onnx", node="b")
    assert str(error) == "m.onnx: node 'a': wrong"


def test_refusals_tell_every_node() -> None:
    refusals = Refusals([OnnxcError("wrong", node="a"), OnnxcError("worse", node="b")]).at(file="m.onnx")
    assert str(refusals).splitlines() == ["m.onnx: node 'a': wrong", "m.onnx: node 'b': worse"]
    assert refusals.message == "2 nodes cannot be compiled"


@pytest.mark.parametrize(
    "error",
    [
        OnnxcError("wrong", node="a", hint="do", exit_code=2),
        Refusals([OnnxcError("wrong", node="a")]),
        CompilerBug("fold_constants", "lost a value", node="a", op="Add"),
    ],
)
def test_errors_cross_processes(error: Exception) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert again.exit_code == error.exit_code


def test_a_fault_leaves_what_reproduces_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, digits: Path) -> None:
    monkeypatch.chdir(tmp_path)
    try:
        raise KeyError("gone")
    except KeyError as error:
        message, code = faults.explain(error, ["compile", str(digits), "-o", "m.so"])
    (folder,) = tmp_path.glob("onnxc-fault-*")
    assert code == 101
    assert "\n" not in message
    assert str(folder) in message
    facts = json.loads((folder / "command.json").read_text())
    assert facts["command"] == ["onnxc", "compile", str(digits), "-o", "m.so"]
    assert (folder / "digits.onnx").read_bytes() == digits.read_bytes()
    assert "KeyError: 'gone'" in (folder / "traceback.txt").read_text()


def test_files_that_cannot_be_read_are_no_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    error = FileNotFoundError(2, "No such file or directory", "m.onnx")
    assert faults.explain(error, []) == ("m.onnx: no such file or directory", 2)
    assert not list(tmp_path.iterdir())
