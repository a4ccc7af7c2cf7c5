"""Running an artefact loads neither the compiler nor its packages."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import onnxc

#: What a device that only runs models does not have.
ABSENT = ("mlir", "llvmlite", "onnx", "click", "rich", "platformdirs", "ziglang", "onnxruntime")


@pytest.fixture(scope="module")
def artefact(tmp_path_factory: pytest.TempPathFactory, digits: Path) -> Path:
    made = tmp_path_factory.mktemp("artefact") / "digits.so"
    onnxc.compile(digits, made)
    return made


def python(program: str, *arguments: object) -> str:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_artefacts_run_where_the_compiler_is_absent(artefact: Path, digits: Path) -> None:
    program = f"""if True:
        import sys
        for name in {ABSENT}:
            sys.modules[name] = None  # importing it fails
        import numpy, onnxc
        data = numpy.load(sys.argv[2])
        outputs = onnxc.InferenceSession(sys.argv[1]).run(None, {{"image": data["images"]}})
        assert (outputs[0].argmax(axis=1) == data["labels"]).all()
        loaded = [name for name in sys.modules if name.startswith(("onnxc.passes", "onnxc.driver", "onnxc.compilation", "onnxc.importer"))]
        assert not loaded, loaded
        try:
            onnxc.InferenceSession(sys.argv[2].replace(".npz", ".onnx"))
        except onnxc.OnnxcError as error:
            assert "compiling needs the package" in str(error)
    """
    python(program, artefact, digits.with_suffix(".npz"))
