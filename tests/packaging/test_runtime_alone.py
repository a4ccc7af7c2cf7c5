"""Running an artefact loads neither the compiler nor its packages, and importing the runtime is quick."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import onnxc

#: What a device that only runs models does not have.
ABSENT = ("mlir", "llvmlite", "onnx", "click", "rich", "platformdirs", "ziglang", "onnxruntime")
#: CPU seconds that `import onnxc.runtime` may take after numpy, the best of some tries.
QUICK = 0.030


@pytest.fixture(scope="module")
def artefact(tmp_path_factory: pytest.TempPathFactory, digits: Path) -> Path:
    made = tmp_path_factory.mktemp("artefact") / "digits.so"
    onnxc.compile(digits, made)
    return made


def python(program: str, *arguments: object) -> str:
    command = [sys.executable, "-c", program, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
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


def test_the_runtime_is_imported_quickly() -> None:
    program = """if True:
        import time, numpy
        start = time.process_time()
        import onnxc.runtime
        print(time.process_time() - start)
    """
    assert min(float(python(program)) for _ in range(7)) <= QUICK
