"""The wheel works in an empty environment, with a PATH that has no compiler and nothing else but the environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def environment(once) -> Path:
    """An environment's bin folder, with nothing but the wheel and what that asks for."""
    return once("wheel", install) / "environment" / "bin"


def install(folder: Path) -> None:
    """Makes the wheel, and an environment that has it."""
    source = folder / "source"  # setuptools leaves a build folder behind, which must not end up in the next wheel
    made_here = (".*", "build", "dist", "*.egg-info", "__pycache__")
    shutil.copytree(TOP, source, ignore=shutil.ignore_patterns(*made_here))
    patient = {**os.environ, "PIP_RETRIES": "10", "PIP_DEFAULT_TIMEOUT": "60"}
    subprocess.run([sys.executable, "-m", "build", "--wheel", "--outdir", folder, source], check=True, env=patient)
    (wheel,) = folder.glob("*.whl")
    venv.create(folder / "environment", with_pip=True)
    pip = folder / "environment" / "bin" / "pip"
    subprocess.run([pip, "install", "--quiet", wheel], check=True, env=patient)


def run(environment: Path, *command: object, cwd: Path) -> str:
    """What the command prints, with the environment alone on PATH."""
    done = subprocess.run(
        [environment / str(command[0]), *map(str, command[1:])],
        cwd=cwd,
        env={**os.environ, "PATH": str(environment), "PYTHONPATH": ""},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_demo(environment: Path, tmp_path: Path) -> None:
    printed = run(environment, "onnxc", "demo", "here", cwd=tmp_path)
    assert "10 of 10 right" in printed
    assert (tmp_path / "here" / "onnxc.h").is_file()


def test_session_and_backend(environment: Path, tmp_path: Path) -> None:
    run(environment, "onnxc", "demo", "here", cwd=tmp_path)
    program = """if True:
        import numpy as np, onnx, onnxc, onnxc.backend
        data = np.load("here/digits.npz")
        outputs = onnxc.InferenceSession("here/digits.so").run(None, {"image": data["images"]})
        assert (outputs[0].argmax(axis=1) == data["labels"]).all()
        again = onnxc.backend.run_model(onnx.load("here/digits.onnx"), [data["images"]])
        np.testing.assert_allclose(again[0], outputs[0], rtol=1e-5, atol=1e-6)
    """
    run(environment, "python", "-c", program, cwd=tmp_path)


def test_optimiser_and_versions(environment: Path, tmp_path: Path) -> None:
    (tmp_path / "relu.mlir").write_text(
        'func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n  %y = "onnx.Relu"(%x) : (tensor<2xf32>) -> '
        "tensor<2xf32>\n  return %y : tensor<2xf32>\n}\n"
    )
    assert "onnx.Relu" in run(environment, "onnxc-opt", "relu.mlir", cwd=tmp_path)
    assert run(environment, "onnxc", "--version", cwd=tmp_path) == run(
        environment, "python", "-m", "onnxc", "--version", cwd=tmp_path
    )
