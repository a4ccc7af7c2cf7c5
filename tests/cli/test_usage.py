"""What the command line answers before anything is compiled."""

from __future__ import annotations

import pytest

import onnxc
from tests.command_line import alone


def test_version(onnxc_command) -> None:
    done = onnxc_command("--version", how=alone)
    assert done.stdout.strip() == f"onnxc, version {onnxc.__version__}"
    assert done.returncode == 0


def test_every_command_has_help(onnxc_command) -> None:
    listed = onnxc_command("--help", how=alone).stdout
    for command in ("bench", "cache", "check", "compile", "demo", "inspect", "run"):
        assert f"  {command} " in listed
        assert "Usage:" in onnxc_command(command, "--help", how=alone).stdout


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["compile", "m.onnx", "-o", "m.exe"], "cannot tell what to write from the name 'm.exe'"),
        (["compile", "m.onnx"], "-o"),
        (["compile", "m.onnx", "-o", "m.mlir"], "--emit"),
        (["compile", "m.onnx", "-o", "m.so", "--dim", "batch"], "'batch' is not NAME=N"),
        (["compile", "m.onnx", "-o", "m.so", "--dim", "batch=two"], "'batch=two' is not NAME=N"),
        (["compile", "m.onnx", "-o", "m.so", "--dim", "batch=-1"], "'batch=-1' is not NAME=N"),
        (["compile", "m.onnx", "-o", "m.so", "--threads", "0"], "--threads"),
        (["compile", "m.onnx", "-o", "m.mlir", "--emit", "affine"], "affine"),
        (["compile", "m.onnx", "-o", "m.so", "--tune-budget", "5s"], "add --tune"),
        (
            ["compile", "m.onnx", "-o", "m.so", "--isa", "x86-64-v2", "--isa", "x86-64-v3"],
            "given 2 times (several CPUs",
        ),
        (["compile", "m.onnx", "-o", "m.so", "--tuning", "a", "--tuning", "b"], "given 2 times (onnxc tune --merge"),
        (["compile", "m.onnx", "-o", "m.so", "--override", "a", "--override", "b"], "given 2 times"),
        (["advise", "m.onnx", "--shapes", "a", "--shapes", "b"], "given 2 times"),
        (["bench", "m.onnx", "--against", "onnxruntime", "--against", "openvino"], "given 2 times"),
        (["bench", "m.onnx", "--block-ms", "nan"], "'nan' is no number of milliseconds"),
        (["advise", "m.onnx", "--shapes", "a", "--block-ms", "inf"], "'inf' is no number of milliseconds"),
        (["nonsense"], "nonsense"),
    ],
)
def test_wrong_usage_exits_with_2(onnxc_command, arguments: list[str], told: str) -> None:
    done = onnxc_command(*arguments)
    assert done.returncode == 2
    assert told in done.stderr
    assert not done.stdout
