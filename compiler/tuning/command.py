"""This file is the `onnxc tune` command, and `compile --tune`: arguments in, records and a report out."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from onnxc.bench_report import duration
from onnxc.errors import UNREADABLE, OnnxcError
from onnxc.leftovers import temporary_folder
from onnxc.link import check_output
from onnxc.options import Options
from onnxc.progress import Progress
from onnxc.terminal import Terminal
from onnxc.tuning.chosen import shortened
from onnxc.tuning.records import Records
from onnxc.tuning.results import merge, read_records
from onnxc.tuning.runners import runner_for
from onnxc.tuning.tune import Summary, Tuner
from onnxc.variants import read_spec

#: runners that only write what is to be measured: its form, and what to do with it
BUNDLES = {
    "bundle": ("library", "python -m onnxc.runtime.measure {} -o results.json"),
    "program": ("program", "{} > results.json"),
}
SHOWN = 12  # records, those that save most


def tune(files: Sequence[Path], arguments: dict[str, Any]) -> None:
    """Tunes, joins records, or goes one of the two ways of a bundle, as the arguments say."""
    from onnxc.cli import read_options

    output: Path = arguments["output"]
    check_output(output)
    if arguments["merge"]:
        _merge(files, output, arguments["force"])
        return
    if len(files) > 1:
        raise OnnxcError("one model is tuned at a time", hint="files of records: --merge", exit_code=UNREADABLE)
    (model,) = files
    if output.exists() and model.exists() and output.samefile(model):
        raise OnnxcError("the output is the model itself", file=output, exit_code=UNREADABLE)
    options = read_options({**arguments, "threads": None})
    options = replace(options, mcpu=options.mcpu or ("native" if options.target is None else None))
    with Terminal(options.verbose) as terminal, temporary_folder() as folder:
        known = _known(arguments, output, terminal)
        tuner = Tuner(model, options, known, output, threads=arguments["threads"], progress=terminal)
        if arguments["runner"] in BUNDLES:
            form, how = BUNDLES[arguments["runner"]]
            count = tuner.write_bundle(folder / "bundle", arguments["budget"], form)
            sys.stdout.write(f"{output}: {count} problems; on the device: {how.format(_as_command(output))}\n")
            return
        with runner_for(arguments["runner"], tuner.target) as runner:
            summary = tuner.run(runner, folder, arguments["budget"])
    sys.stdout.write(report(model, tuner, summary))


def tuned_options(model: Path, options: Options, budget: float, progress: Progress) -> Options:
    """The options with records of tunings that take about `budget` seconds together, added to those that they have.

    Each variant is tuned by itself, its free dims at usual sizes that it takes, for each CPU that the artefact is for.
    """
    if not options.isa:
        options = replace(options, mcpu=options.mcpu or "native")
    records = options.tuning if isinstance(options.tuning, Records) else Records()
    if isinstance(options.tuning, Path):
        records = _read(options.tuning, progress)
    each = [_realisation(one, cpu) for one in _shapes(options) for cpu in options.isa or (options.mcpu,)]
    for one in each:
        with temporary_folder() as folder:
            output, threads = folder / "records.jsonl", options.threads or 1
            tuner = Tuner(model, one, records, output, threads=threads, progress=progress)
            with runner_for("local", tuner.target) as runner:
                summary = tuner.run(runner, folder, budget / len(each))
        records = summary.records
        for line in report(model, tuner, summary).splitlines()[:-1]:
            progress.say(line)
    return replace(options, tuning=records)


def _shapes(options: Options) -> list[Options]:
    """Those of the generic variant alone, and of each other: its exact dims are set, its ranges and multiples, which
    kernels know, stay a variant."""
    generic = replace(options, variants=(), generic=True)
    shapes = [generic] if options.generic or not options.variants else []
    for spec in map(read_spec, options.variants):
        exact = {dim: b.low for dim, b in spec.bounds.items() if b.exact}
        if len(exact) == len(spec.bounds):
            shapes.append(replace(generic, dims={**options.dims, **exact}))
        else:
            shapes.append(replace(options, variants=(spec.text,), generic=False))
    return [shape for i, shape in enumerate(shapes) if shape not in shapes[:i]]


def _realisation(options: Options, cpu: str | None) -> Options:
    """The options of tuning it for one CPU: what is written in the end is the compilation's matter."""
    return replace(options, mcpu=cpu, isa=(), emit=None, save_stages=None)


def _known(arguments: dict[str, Any], output: Path, progress: Progress) -> Records:
    """Records to go on from: those of --tuning, and of the output's file with --resume.

    Records that are there already are neither lost nor used without a word: they took time to measure.
    """
    known = Records()
    if output.exists() and arguments["runner"] != "bundle" and not (arguments["resume"] or arguments["force"]):
        _check_replaceable(output, "--resume goes on with them, --force replaces them once there is a new one")
    for path in (arguments["tuning"], output if arguments["resume"] and output.exists() else None):
        if path is not None:
            known = known.merge(_read(path, progress))
    return known


def _check_replaceable(output: Path, hint: str) -> None:
    """Refuses an output that has records, also such as this version cannot read, or anything else.

    `hint`: what to do with records.
    """
    there, unusable = Records.read(output)
    if len(there):
        message, why = f"the output has {len(there)} records already", None
    elif unusable:
        message, why = "the output is there already, and no file of records", unusable[0].removeprefix(f"{output}:")
        why, hint = f"line {why}", "--force replaces it once there is a record"
    else:
        return
    raise OnnxcError(message, file=output, why=why, hint=hint, exit_code=UNREADABLE)


def _read(path: Path, progress: Progress) -> Records:
    """The records of a file; warnings are told."""
    records, warnings = Records.read(path)
    for line in shortened(warnings, path):
        progress.say(f"warning: {line}")
    return records


def _as_command(path: Path) -> str:
    """The path as a shell takes it for a program: not one to look for on PATH."""
    return shlex.quote(str(path) if path.parent != Path() else f"./{path}")


def _merge(files: Sequence[Path], output: Path, force: bool) -> None:
    """Joins the files. What the output has is joined, too, where it is one of them, and else only lost if asked for."""
    if output.is_file() and not force and not any(file.exists() and output.samefile(file) for file in files):
        _check_replaceable(output, f"{output} as one more of the files keeps what it has; --force replaces it")
    merged, warnings = merge([read_records(file) for file in files], output)
    for line in warnings:
        sys.stderr.write(f"warning: {line}\n")
    sys.stdout.write(f"{output}: {len(merged)} records from {len(files)} files\n")


def report(model: Path, tuner: Tuner, summary: Summary) -> str:
    """What was found, a line a record that saves time, and what came of it for the model."""
    plural = "" if tuner.threads == 1 else "s"
    lines = [
        f"{model.name} for {tuner.target}, {tuner.threads} thread{plural}: {summary.problems} problems, "
        f"{summary.measured} candidates measured in {summary.seconds:.0f} s, {summary.better} better than the heuristic"
    ]
    if summary.rejected:
        lines.append(f"  {summary.rejected} candidates were rejected (-v tells why)")
    better = sorted((s for s in tuner.states if s.better), key=lambda state: -state.saved)
    for state in better[:SHOWN]:
        ns, before = state.figures["ns"] / 1e9, state.figures["default_ns"] / 1e9
        lines.append(f"  {duration(before):>9} → {duration(ns):>9}  ×{state.task.count:<3} {state.task.signature[:90]}")
    if len(better) > SHOWN:
        lines.append(f"  … and {len(better) - SHOWN} more")
    c = summary.comparison
    if c is not None:
        lines.append(
            f"the tuned model takes {c.ratio:.3f} of the untuned one's time (quartiles {c.low:.3f} – {c.high:.3f}): "
            f"{duration(c.untuned)} → {duration(c.tuned)}"
        )
    elif summary.better:
        lines.append(f"the tuned model was not run beside the untuned one: {tuner.uncompared}")
    if summary.dropped:
        lines.append(f"as a whole it was slower: {summary.dropped} is dropped")
    written = f"{len(summary.records)} records" if tuner.file.written else "stays as it is: nothing was measured"
    return "\n".join(lines) + f"\n{tuner.output}: {written}\n"
