"""One run of the compiler: a model's import, its passes and their stages, what is said and noted of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from mlir import ir

from onnxc import importer
from onnxc.artefact import Code
from onnxc.build_kernel import kernel_llvm_text, kernel_loops_text
from onnxc.dialects.weights import SharedWeights, WeightStore
from onnxc.emit_object import lower_to_llvm
from onnxc.errors import OnnxcError
from onnxc.link import write_output
from onnxc.manifest import Value
from onnxc.options import LEVELS, Options, ResolvedOptions
from onnxc.override_file import read_overrides
from onnxc.passes.artefact_parts import Parts
from onnxc.passes.choices import Choices
from onnxc.passes.contract import Program
from onnxc.passes.main.shims import with_shims
from onnxc.pipeline import PIPELINE, has_lowering
from onnxc.progress import Progress
from onnxc.realisations import Realisation, targets_for
from onnxc.refusals import complete_refusals
from onnxc.report import trade_line
from onnxc.signature import input_symbols, input_values, output_values
from onnxc.targets import Target
from onnxc.tuning.chosen import chosen_for
from onnxc.variants import Variant, facts_of, find_variants, read_spec

if TYPE_CHECKING:
    import onnx


@dataclass
class Report:
    """What a compilation did: sizes in bytes, times in seconds."""

    output: Path
    target: str
    kernels: int = 0
    weights: int = 0
    size: int = 0
    seconds: float = 0.0
    variants: int = 1
    passes: list[tuple[str, float]] = field(default_factory=list)
    log: list[tuple[str, str]] = field(default_factory=list)

    def summary(self) -> str:
        """One line for people."""
        several = f"{self.variants} variants, " if self.variants > 1 else ""
        return (
            f"{self.output}: {self.size / 1e6:.2f} MB for {self.target}, {several}{self.kernels} kernels, "
            f"{self.weights / 1e6:.2f} MB of weights, {self.seconds:.2f} s"
        )


class Compilation:
    """One run of the compiler; `stages` counts the saved modules."""

    def __init__(self, options: Options, progress: Progress):
        self.options, self.progress = options, progress
        self.targets = targets_for(options.isa, options.mcpu, options.target)
        self.report = Report(Path(), ", ".join(map(str, self.targets)))
        self.stages = 0
        self.weights, self.parts = WeightStore(), Parts()
        self.overrides = read_overrides(options.override) if options.override else ()
        self._choices: dict[Target, Choices | None] = {}
        self._warned: set[str] = set()

    def choices(self, target: Target) -> Choices | None:
        """What tuning has found for the target; warns, once, of what cannot be used of it."""
        if target not in self._choices:
            chosen, warnings = chosen_for(self.options.tuning, target, self.options.threads)
            for line in warnings:
                self.progress.say(f"warning: {line}")
            self._choices[target] = chosen
        return self._choices[target]

    def import_model(
        self, source: importer.Source | Path | onnx.ModelProto, name: str, one: Realisation | None = None
    ) -> Program:
        """The model at graph level, with dims as the options and the realisation (None: generic) bind them."""
        self.progress.stage("import")
        start = time.perf_counter()
        dims = {**self.options.dims, **(one.variant.values if one else {})}
        target = one.target if one else self.targets[0]
        # a generic program that only tells the signature need not do what is asked of the variants' nodes
        overrides = self.overrides if one or self.options.generic else ()
        options = ResolvedOptions(self.options, target, dims, self.choices(target), overrides)
        weights = SharedWeights(self.weights) if self.options.several else self.weights
        program = importer.import_model(source, options, has_lowering=has_lowering, weights=weights)
        program.parts, program.name = self.parts, name + (one.suffix if one else "")
        if one:
            with program.context:
                program.facts = facts_of(one.variant, list(input_symbols(program)))
        program.notes["model_bytes"] = sum(map(program.weights.nbytes, program.weights))
        self._timed("import", start)
        self._save("graph-import", lambda: module_text(program))
        return program

    def variants(self, generic: Program) -> tuple[tuple[Value, ...], list[Variant]]:
        """The inputs of the generic program, and the variants that the options ask for."""
        with generic.context:
            inputs = input_values(generic)
        return inputs, find_variants([read_spec(text) for text in self.options.variants], inputs)

    def run_passes(self, program: Program, until: str) -> None:
        """Runs all passes up to level `until`, those that stay on it included, but those that it has run before."""
        done = program.notes.setdefault("passes", [])
        for level, passes in PIPELINE.items():
            if level == "tensor" and "outputs" not in program.notes:
                with program.context:
                    program.notes["outputs"] = output_values(program)
            for place, function in enumerate(passes):
                if LEVELS.index(function.gives.name) > LEVELS.index(until):
                    return
                if (level, place) in done:
                    continue
                start = time.perf_counter()
                self.progress.stage(function.__name__)
                function(program)
                done.append((level, place))
                self._timed(function.__name__, start)
                self._save(f"{function.gives.name}-{function.__name__}", lambda: module_text(program))

    def tell(self, program: Program, of: str | None = None) -> None:
        """Says what passes warn of, and notes what they have to tell; `of`: which of several realisations it is."""
        for line in dict.fromkeys(program.warnings):
            if line not in self._warned:  # realisations have nodes and records in common
                self.progress.say(f"warning: {line}")
        self._warned.update(program.warnings)
        if "trade" in program.notes:
            named = f"{self.options.objective}, {of}" if of else self.options.objective
            self.progress.say(trade_line(named, program.notes["trade"], program.notes["memory"]))
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
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            why = "there is a file of that name" if folder.exists() else error.strerror
            raise OnnxcError("cannot make the folder for the stages", file=folder, why=why, exit_code=2) from error
        write_output(folder / f"{self.stages:02}-{name}.mlir", text().encode())
        self.stages += 1

    def to_llvm(self, program: Program) -> str:
        """Main's LLVM IR; saves the levels on the way, with all kernels."""
        self._save("loops", lambda: self.loops_text(program))
        with program.context, ir.Location.unknown():
            text = with_shims(lower_to_llvm(program.module))
        self._save("llvm", lambda: self.llvm_text(program))
        return text

    def loops_text(self, program: Program) -> str:
        """Main and every kernel at level loops."""
        kernels = [kernel_loops_text(text, program.options.target) for text in program.notes["kernels"].values()]
        return "\n".join([module_text(program), *kernels])

    def llvm_text(self, program: Program) -> str:
        """Main, once it is at level llvm, and every kernel at this level."""
        kernels = [kernel_llvm_text(text, program.options.target) for text in program.notes["kernels"].values()]
        return "\n".join([module_text(program), *kernels])

    def realise(self, program: Program, one: Realisation) -> Code:
        """The passes below the tensor level and main's code, for one realisation."""
        with complete_refusals(program):
            self.run_passes(program, "loops")
        self.progress.stage("code")
        notes = program.notes
        return Code(one, program.name, notes["workspace"], self.to_llvm(program), notes["kernels"], notes["report"])


def module_text(program: Program) -> str:
    """The module with locations, for people and for onnxc-opt."""
    with program.context:
        return program.module.operation.get_asm(enable_debug_info=True) + "\n"
