"""Takes a model through all levels to an artefact: import, the passes of `pipeline.py`, kernels in workers, link."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from onnxc import importer
from onnxc.artefact import Artefact, write_artefact
from onnxc.compilation import Compilation, Report, module_text
from onnxc.errors import REFUSED, OnnxcError, Refusals
from onnxc.link import check_output, write_output
from onnxc.options import Options
from onnxc.passes.contract import Program
from onnxc.progress import SILENT, Progress
from onnxc.realisations import Realisation, realisations
from onnxc.refusals import complete_refusals
from onnxc.report import trade_table

if TYPE_CHECKING:
    import onnx


def compile_model(model: Path | onnx.ModelProto, output: Path, options: Options, progress: Progress = SILENT) -> Report:
    """Compiles `model` to `output`, whose suffix decides what is written. OnnxcError; no partial file is left."""
    start = time.perf_counter()
    kind = _check_paths(model, output, options)
    run = Compilation(options, progress)
    progress.say(f"compiling for {run.report.target}")
    if kind == "mlir":
        write_output(output, _level_text(run, importer.read_model(model), options.symbol(output)).encode())
    else:
        source = importer.read_model(model)
        artefact = _realisations(run, source, options.symbol(output))
        if options.objective != "speed" and len(artefact.codes) == 1:
            _tell_trade(run, source, artefact)
        run.report.weights = artefact.parts.weight_bytes
        run.report.kernels, run.report.variants = len(artefact.kernels), len(artefact.codes)
        write_artefact(artefact, kind, output, progress)
    run.report.output = output
    run.report.size = output.stat().st_size
    run.report.seconds = time.perf_counter() - start
    return run.report


def check_request(model: Path, output: Path, options: Options) -> None:
    """Refuses, before any work, what `compile_model` would refuse of paths, options, dims and variants."""
    _check_paths(model, output, options)
    run = Compilation(options, SILENT)
    run.variants(run.import_model(importer.read_model(model), "model"))


def _check_paths(model: Path | onnx.ModelProto, output: Path, options: Options) -> str:
    """The kind of output. OnnxcError where it could not be written."""
    kind = options.kind(output)
    check_output(output)
    if isinstance(model, Path) and output.exists() and model.exists() and output.samefile(model):
        raise OnnxcError("the output is the model itself", file=output, exit_code=2)
    return kind


def _level_text(run: Compilation, source: importer.Source, name: str) -> str:
    """The module at the level that an .mlir output shows."""
    program, level = run.import_model(source, name), run.options.emit or "loops"
    with complete_refusals(program):
        run.run_passes(program, "loops" if level == "llvm" else level)
    run.tell(program)
    run.report.kernels, run.report.log = len(program.notes.get("kernels", ())), program.log
    if level == "loops":
        return run.loops_text(program)
    if level == "llvm":
        run.to_llvm(program)
        return run.llvm_text(program)
    return module_text(program)


def _realisations(run: Compilation, source: importer.Source, name: str) -> Artefact:
    """The artefact's parts: the generic program tells its signature, then each realisation is compiled in turn."""
    options = run.options
    first = run.import_model(source, name)
    inputs, chosen = run.variants(first)
    with complete_refusals(first):
        run.run_passes(first, "tensor")
    signature, metadata = (inputs, first.notes["outputs"]), first.notes.get("metadata", {})
    codes = []
    for one in realisations(chosen, options.generic, run.targets):
        program: Program | None = first
        if one.variant.bounds or one.target is not run.targets[0]:
            program = _variant(run, source, name, one)
        else:
            first.name = name + one.suffix
        with _naming(one if options.several else None):
            codes.append(run.realise(program, one))
        run.tell(program, one.label if options.several else None)
        run.report.log += program.log
    codes.sort(key=lambda code: code.realisation.number)
    return Artefact(name, *signature, metadata, run.targets[0], options, codes, run.parts, run.weights)


def _tell_trade(run: Compilation, source: importer.Source, artefact: Artefact) -> None:
    """Says what the objective comes to beside speed, for which the model goes through the passes once more."""
    speed = Compilation(replace(run.options, objective="speed"), SILENT)
    program = speed.import_model(source, artefact.name)
    speed.run_passes(program, "loops")
    (code,) = artefact.codes
    weights = speed.parts.weight_bytes, artefact.parts.weight_bytes
    workspaces = program.notes["memory"]["workspace"], code.report["memory"]["workspace"]
    for line in trade_table(run.options.objective, weights, workspaces, code.report["trade"]):
        run.progress.say(line)


def _variant(run: Compilation, source: importer.Source, name: str, one: Realisation) -> Program:
    """One realisation's program at level tensor."""
    with _naming(one):
        program = run.import_model(source, name, one)
        with complete_refusals(program):
            run.run_passes(program, "tensor")
    return program


@contextmanager
def _naming(one: Realisation | None) -> Iterator[None]:
    """A refusal says in which realisation the model is refused."""
    try:
        yield
    except OnnxcError as error:
        for each in error.errors if isinstance(error, Refusals) and one else [error] if one else []:
            each.message = f"{each.message} (in {one.label})"
        raise


def check_model(model: Path | onnx.ModelProto, options: Options) -> list[OnnxcError]:
    """Every node that cannot be compiled, with the reason; nothing is compiled."""
    run = Compilation(options, SILENT)
    try:
        program = run.import_model(importer.read_model(model), "model")
        with complete_refusals(program):
            run.run_passes(program, "loops")
    except OnnxcError as error:
        if error.exit_code != REFUSED:
            raise
        return list(error.errors) if isinstance(error, Refusals) else [error]
    return []
