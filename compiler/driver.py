"""Takes a model through all levels to an artefact: import, the passes of `pipeline.py`, kernels in workers, link."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from mlir import ir

from onnxc import importer
from onnxc.artefact import Artefact, write_artefact
from onnxc.build_kernel import kernel_llvm_text, kernel_loops_text
from onnxc.compile_pool import Job
from onnxc.emit_object import lower_to_llvm
from onnxc.errors import REFUSED, OnnxcError, Refusals
from onnxc.link import check_output, write_output
from onnxc.manifest import Value
from onnxc.options import LEVELS, Options
from onnxc.override_file import read_overrides
from onnxc.passes.choices import Choices
from onnxc.passes.contract import Program
from onnxc.passes.main.shims import with_shims
from onnxc.passes.overrides import Override
from onnxc.pipeline import PIPELINE, has_lowering
from onnxc.progress import SILENT, Progress
from onnxc.refusals import complete_refusals
from onnxc.report import trade_line
from onnxc.signature import input_values, output_values
from onnxc.targets import Target, target_for
from onnxc.tuning.chosen import chosen_for

if TYPE_CHECKING:
    import onnx


@dataclass(frozen=True)
class PassOptions:
    """What passes read: the compilation's options and its resolved target."""

    options: Options
    target: Target
    choices: Choices | None = None
    overrides: tuple[Override, ...] = ()

    @property
    def objective(self) -> str:
        return self.options.objective

    @property
    def strict(self) -> bool:
        return self.options.strict

    @property
    def threads(self) -> int | None:
        return self.options.threads

    @property
    def verify(self) -> bool:
        return self.options.verify

    @property
    def dims(self):
        return self.options.dims


@dataclass
class Report:
    """What a compilation did: sizes in bytes, times in seconds."""

    output: Path
    target: str
    kernels: int = 0
    weights: int = 0
    size: int = 0
    seconds: float = 0.0
    passes: list[tuple[str, float]] = field(default_factory=list)
    log: list[tuple[str, str]] = field(default_factory=list)

    def summary(self) -> str:
        """One line for people."""
        return (
            f"{self.output}: {self.size / 1e6:.2f} MB for {self.target}, {self.kernels} kernels, "
            f"{self.weights / 1e6:.2f} MB of weights, {self.seconds:.2f} s"
        )


class Compilation:
    """One run of the compiler; `stages` counts the saved modules."""

    def __init__(self, options: Options, progress: Progress):
        self.options, self.progress = options, progress
        self.target = target_for(options.mcpu, options.target)
        self.report = Report(Path(), str(self.target))
        self.stages = 0
        self.pass_options = PassOptions(
            options, self.target, self._choices(), read_overrides(options.override) if options.override else ()
        )

    def _choices(self) -> Choices | None:
        """What tuning has found for the target; warns of what cannot be used of it."""
        chosen, warnings = chosen_for(self.options.tuning, self.target, self.options.threads)
        for line in warnings:
            self.progress.say(f"warning: {line}")
        return chosen

    def import_model(self, model: Path | onnx.ModelProto, name: str) -> Program:
        self.progress.stage("import")
        start = time.perf_counter()
        program = importer.import_model(model, self.pass_options, has_lowering=has_lowering)
        program.name = name
        program.notes["model_bytes"] = sum(map(program.weights.nbytes, program.weights))
        self._timed("import", start)
        self._save("graph-import", lambda: module_text(program))
        return program

    def run_passes(self, program: Program, until: str) -> None:
        """Runs all passes up to level `until`, those that stay on it included."""
        for level, passes in PIPELINE.items():
            if level == "kernels":
                with program.context:
                    program.notes["outputs"] = output_values(program)
            for function in passes:
                if LEVELS.index(function.gives.name) > LEVELS.index(until):
                    return
                start = time.perf_counter()
                self.progress.stage(function.__name__)
                function(program)
                self._timed(function.__name__, start)
                self._save(f"{function.gives.name}-{function.__name__}", lambda: module_text(program))

    def tell(self, program: Program) -> None:
        """Says what passes warn of, and notes what they have to tell."""
        for line in program.warnings:
            self.progress.say(f"warning: {line}")
        if "trade" in program.notes:
            self.progress.say(trade_line(self.options.objective, program.notes["trade"], program.notes["memory"]))
        for name, line in program.log:
            self.progress.note(f"{name}: {line}")

    def _timed(self, name: str, start: float) -> None:
        seconds = time.perf_counter() - start
        self.report.passes.append((name, seconds))
        self.progress.note(f"{name:20} {seconds * 1e3:8.1f} ms")

    def _save(self, name: str, text: Callable[[], str]) -> None:
        folder = self.options.save_stages
        if folder is None:
            return
        folder.mkdir(parents=True, exist_ok=True)
        write_output(folder / f"{self.stages:02}-{name}.mlir", text().encode())
        self.stages += 1

    def to_llvm(self, program: Program) -> str:
        """Main's LLVM IR; saves the levels on the way, with all kernels."""
        self._save("loops", lambda: self.loops_text(program))
        with program.context, ir.Location.unknown():
            text = with_shims(lower_to_llvm(program.module))
        self._save("llvm", lambda: self.llvm_text(program))
        return text

    def kernels(self, program: Program) -> list[Job]:
        return [Job(name, text) for name, text in program.notes["kernels"].items()]

    def loops_text(self, program: Program) -> str:
        """Main and every kernel at level loops."""
        kernels = [kernel_loops_text(job.text, self.target) for job in self.kernels(program)]
        return "\n".join([module_text(program), *kernels])

    def llvm_text(self, program: Program) -> str:
        """Main, once it is at level llvm, and every kernel at this level."""
        kernels = [kernel_llvm_text(job.text, self.target) for job in self.kernels(program)]
        return "\n".join([module_text(program), *kernels])


def module_text(program: Program) -> str:
    """The module with locations, for people and for onnxc-opt."""
    with program.context:
        return program.module.operation.get_asm(enable_debug_info=True) + "\n"


def compile_model(model: Path | onnx.ModelProto, output: Path, options: Options, progress: Progress = SILENT) -> Report:
    """Compiles `model` to `output`, whose suffix decides what is written. OnnxcError; no partial file is left."""
    start = time.perf_counter()
    kind = options.kind(output)
    check_output(output)
    if isinstance(model, Path) and output.exists() and model.exists() and output.samefile(model):
        raise OnnxcError("the output is the model itself", file=output, exit_code=2)
    run = Compilation(options, progress)
    progress.say(f"compiling for {run.target}")
    program = run.import_model(model, options.symbol(output))
    with program.context:
        inputs = input_values(program)
    until = options.emit or "loops"  # an .mlir output has a level
    with complete_refusals(program):
        run.run_passes(program, "loops" if until == "llvm" else until)
    run.tell(program)
    run.report.kernels = len(program.notes.get("kernels", ()))
    if kind == "mlir":
        write_output(output, _level_text(run, program, until).encode())
    else:
        _write(run, program, inputs, kind, output)
    run.report.output, run.report.log = output, program.log
    run.report.size = output.stat().st_size
    run.report.seconds = time.perf_counter() - start
    return run.report


def _level_text(run: Compilation, program: Program, level: str) -> str:
    if level == "loops":
        return run.loops_text(program)
    if level == "llvm":
        run.to_llvm(program)
        return run.llvm_text(program)
    return module_text(program)


def _write(run: Compilation, program: Program, inputs: tuple[Value, ...], kind: str, output: Path) -> None:
    run.progress.stage("code")
    main = run.to_llvm(program)
    outputs = program.notes["outputs"]
    artefact = Artefact(program, inputs, outputs, run.target, run.options, run.kernels(program), main)
    run.report.weights = artefact.weight_bytes
    write_artefact(artefact, kind, output, run.progress)


def check_model(model: Path | onnx.ModelProto, options: Options) -> list[OnnxcError]:
    """Every node that cannot be compiled, with the reason; nothing is compiled."""
    run = Compilation(options, SILENT)
    try:
        program = run.import_model(model, "model")
        with complete_refusals(program):
            run.run_passes(program, "loops")
    except OnnxcError as error:
        if error.exit_code != REFUSED:
            raise
        return list(error.errors) if isinstance(error, Refusals) else [error]
    return []
