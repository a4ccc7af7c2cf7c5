"""This file is the command line of onnxc: it reads arguments, calls the API and prints; the work is done elsewhere.

Results go to standard output, progress and errors to standard error. Exit codes: 0 done, 1 a valid model or input is
refused, 2 a file cannot be read or the usage is wrong, 101 a fault of onnxc, 130 interrupted.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import onnxc
from onnxc import faults
from onnxc.cli_options import TUNE_SECONDS, Duration, Milliseconds, compile_options, input_options, once
from onnxc.errors import REFUSED, UNREADABLE, OnnxcError, Refusals
from onnxc.leftovers import INTERRUPTED, temporary_folder
from onnxc.options import KINDS, LEVELS, Options
from onnxc.terminal import Terminal, report_error

if TYPE_CHECKING:
    from onnxc.runtime import InferenceSession

OPTION_NAMES = frozenset(field.name for field in fields(Options))


def run_command_line(arguments: Sequence[str]) -> int:
    """Runs one command and returns its exit code; every exception becomes a message."""
    try:
        return commands.main(args=list(arguments), prog_name="onnxc", standalone_mode=False) or 0
    except click.exceptions.Exit as leave:
        return leave.exit_code
    except click.ClickException as wrong:
        wrong.show()
        return UNREADABLE
    except (KeyboardInterrupt, click.Abort):
        report_error("interrupted")
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output, such as `head`, has left
        faults.silence_stdout()
        return 0
    except Exception as error:
        message, code = faults.explain(error, arguments)
        report_error(message)
        return code


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(onnxc.__version__, prog_name="onnxc")
def commands() -> None:
    """Compiles ONNX models to native code that runs without a runtime library."""


@commands.command("compile")
@click.argument("model", type=Path)
@click.option("-o", "--output", type=Path, required=True,
              help=f"What to write; its suffix decides: {' '.join(KINDS)}.")  # fmt: skip
@compile_options
@click.option("--target", metavar="TRIPLE", help="Compile for another machine (default: this one's kind).")
@click.option("--threads", type=click.IntRange(min=1), metavar="N",
              help="1 leaves the thread code out; else their number is set at run time.")  # fmt: skip
@click.option("--emit", type=click.Choice(LEVELS), help="The level that an .mlir output shows.")
@click.option("--save-stages", type=Path, metavar="DIR", help="Write the module at each level, numbered and named.")
@click.option("--name", metavar="NAME", help="Prefix of the C symbols (default: from the output's name).")
@click.option("--variant", "variants", multiple=True, metavar="CONDITIONS",
              help="Code of its own for shapes: NAME=V, NAME=L..H, NAME%M=0, with commas. Repeatable.")  # fmt: skip
@click.option("--no-generic", is_flag=True, help="No code for shapes that no --variant names.")
@click.option("--isa", metavar="CPU,…", multiple=True, callback=once("several CPUs: with commas between them"),
              help="Code for each of these CPUs or ISA levels, picked at run time.")  # fmt: skip
@click.option("--strict", is_flag=True, help="No algorithm that gives other bits than the plain sum (Winograd, FFT).")
@click.option("--verify", is_flag=True, help="Check the module after every pass.")
@click.option("--tune", is_flag=True, help="Measure on this machine first which schedules are the fastest.")
@click.option("--tune-budget", type=Duration(), help=f"About how long that may take.  [default: {TUNE_SECONDS}s]")
def compile_command(model: Path, output: Path, tune: bool, tune_budget: float | None, **arguments: Any) -> None:
    """Compile MODEL (.onnx) ahead of time."""
    if tune_budget is not None and not tune:
        raise click.UsageError("--tune-budget says how long --tune may take: add --tune")
    options = read_options(arguments)
    options.kind(output)
    from onnxc.driver import check_request, compile_model

    with Terminal(options.verbose) as terminal:
        if tune:
            from onnxc.tuning.command import tuned_options

            check_request(model, output, options)
            options = tuned_options(model, options, tune_budget or TUNE_SECONDS, terminal)
        report = compile_model(model, output, options, progress=terminal)
    terminal.say(report.summary())


@commands.command("check")
@click.argument("model", type=Path)
@compile_options
def check_command(model: Path, **arguments: Any) -> None:
    """List every node of MODEL that cannot be compiled, and why, without compiling."""
    from onnxc.driver import check_model

    options = read_options(arguments)
    refusals = check_model(model, options)
    if refusals:
        for refusal in refusals:
            click.echo(str(refusal))
        raise OnnxcError(Refusals(refusals).message, file=model, exit_code=REFUSED)
    click.echo(f"{model}: every node can be compiled")


@commands.command("run")
@click.argument("model", type=Path)
@input_options
@click.option("--save", type=Path, metavar="FILE.npz", help="Save the outputs, by name.")
@click.option("--threads", type=click.IntRange(min=1), metavar="N",
              help="How many (default: the CPUs this process may use).")  # fmt: skip
@click.option("--trace", is_flag=True, help="Tell which variant ran, and why no more specific one did.")
@compile_options
def run_command(model: Path, inputs: tuple[str, ...], seed: int, save: Path | None, threads: int | None,
                trace: bool, **arguments: Any) -> None:  # fmt: skip
    """Run MODEL (.so, or .onnx, which is compiled for this CPU first) and print its outputs."""
    import numpy as np

    from onnxc.feeds import save_outputs
    from onnxc.link import check_output

    if save is not None:
        check_output(save)
    told = partial(click.echo, err=True) if trace else None
    with open_session(model, threads, arguments, told) as session:
        feeds = make_feeds(model, session, inputs, seed, arguments["dims"])
        results = session.run(None, feeds)
        names = [output.name for output in session.get_outputs()]
    with np.printoptions(threshold=24, edgeitems=3, linewidth=110, precision=6):
        for name, result in zip(names, results, strict=True):
            click.echo(f"{name}: {describe(result)}\n{result}")
    if save is not None:
        save_outputs(save, dict(zip(names, results, strict=True)))


@commands.command("bench")
@click.argument("model", type=Path)
@click.option("--against", metavar="RUNTIMES", multiple=True,
              callback=once("both: with a comma between them"),
              help="To measure beside: onnxruntime, openvino, or both with a comma.")  # fmt: skip
@input_options
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True, help="On both sides.")
@click.option("--rounds", type=click.IntRange(min=2), default=12, show_default=True, help="Blocks of each side.")
@click.option("--block-ms", type=Milliseconds(), default=80.0, show_default=True, help="Length of a block.")
@click.option("--json", "json_file", type=Path, metavar="FILE", help="Write the measurements.")
@compile_options
def bench_command(model: Path, **arguments: Any) -> None:
    """Measure MODEL (.onnx, compiled for this CPU, or .so), interleaved with another runtime on equal terms."""
    from onnxc.bench_report import bench_model

    bench_model(model, arguments)


@commands.command("tune")
@click.argument("files", metavar="MODEL", type=Path, nargs=-1, required=True)
@click.option("-o", "--output", type=Path, required=True, help="The records, .jsonl, or the bundle.")
@click.option(
    "--budget", type=Duration(), default=f"{TUNE_SECONDS}s", show_default=True, help="About how long it may take."
)
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True, help="As the model will run.")
@click.option("--strict", is_flag=True, help="Only what gives the bits of the plain sums.")
@click.option("--resume", is_flag=True, help="Go on from the records in the output's file.")
@click.option("--force", is_flag=True, help="Replace the records in the output's file.")
@click.option("--runner", default="local", show_default=True, metavar="WHERE",
              help="Where candidates are measured: local; ssh:[USER@]HOST; dask://HOST:PORT; 'COMMAND {bundle}'; "
              "program or bundle: from a file.")  # fmt: skip
@click.option("--merge", is_flag=True, help="Join records and results of bundles, given in place of MODEL.")
@click.option("--target", metavar="TRIPLE", help="Of the machine that measures (default: this one's kind).")
@compile_options
def tune_command(files: tuple[Path, ...], **arguments: Any) -> None:
    """Find the fastest algorithms and schedules for MODEL (.onnx) by measuring, and write them as records."""
    from onnxc.tuning.command import tune

    tune(files, arguments)


@commands.command("advise")
@click.argument("model", type=Path)
@click.option("--shapes", type=Path, required=True, metavar="FILE.json", multiple=True,
              callback=once("one file can list any number of shapes"),
              help='What comes: a list of {INPUT: SHAPE} or {DIM: SIZE}, perhaps each with a "weight".')  # fmt: skip
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True, help="Of each run.")
@click.option("--rounds", type=click.IntRange(min=2), default=12, show_default=True, help="Blocks of each side.")
@click.option("--block-ms", type=Milliseconds(), default=80.0, show_default=True, help="Length of a block.")
@click.option("--json", "as_json", is_flag=True, help="Everything as JSON.")
@compile_options
def advise_command(model: Path, shapes: Path, threads: int, rounds: int, block_ms: float, as_json: bool,
                   **arguments: Any) -> None:  # fmt: skip
    """Measure which variants of MODEL (.onnx) pay for the shapes that come, and what each one costs."""
    from onnxc import advise, bench, bench_report

    plan = bench.Plan(threads, rounds, block_ms / 1e3)
    options = compile_arguments(arguments)
    with temporary_folder() as folder, Terminal(arguments["verbose"]) as terminal:
        candidates = advise.advise(model, shapes, options, plan, folder, terminal)
    if as_json:
        click.echo(json.dumps(advise.as_json(candidates), indent=1))
    else:
        click.echo(advise.as_table(candidates, shlex.quote, bench_report.duration), nl=False)


@commands.command("inspect")
@click.argument("model", type=Path)
@click.option("--json", "as_json", is_flag=True, help="Everything as JSON.")
@click.option("--check", is_flag=True, help="Read the weights' file beside the artefact and compare its checksum.")
@click.option("--weights", type=Path, metavar="FILE", help="The same of that file, where it is not beside.")
def inspect_command(model: Path, as_json: bool, check: bool, weights: Path | None) -> None:
    """Show what is in a compiled MODEL: inputs, outputs, dims, variants, ISA, sizes, workspace, versions."""
    from onnxc.inspection import as_text, check_weights, inspect_artefact

    facts = inspect_artefact(model)
    if check or weights is not None:
        check_weights(model, facts, weights)
    click.echo(json.dumps(facts, indent=2) if as_json else as_text(facts))


@commands.command("cache")
@click.option("--clear", is_flag=True, help="Remove all cached objects.")
def cache_command(clear: bool) -> None:
    """Show where the object cache lies and how large it is, or clear it."""
    from onnxc.cache import user_cache

    cache = user_cache()
    count, size = cache.clear() if clear else cache.size()
    click.echo(f"{cache.folder}: {count} objects, {size / 1e6:.1f} MB{' removed' if clear else ''}")


@commands.command("demo")
@click.argument("folder", type=Path, default=Path("onnxc-demo"), metavar="[DIR]")
def demo_command(folder: Path) -> None:
    """Compile a small convnet into DIR, let it read ten handwritten digits, and show how to go on in C."""
    from onnxc.demo.show import show_demo

    show_demo(folder, click.echo)


@contextmanager
def open_session(
    model: Path, threads: int | None, arguments: dict[str, Any], trace: Callable[[str], object] | None = None
) -> Iterator[InferenceSession]:
    """A session on an artefact, or on an ONNX model that is compiled with progress on the terminal."""
    from onnxc.api import InferenceSession, compile_for_here, needs_compiling

    if not needs_compiling(model):
        yield InferenceSession(model, threads=threads, trace=trace)
        return
    options = compile_arguments(arguments)
    with temporary_folder() as folder:
        with Terminal(options.get("verbose", False)) as terminal:
            artefact = compile_for_here(model, folder, options, terminal)
        yield InferenceSession(artefact, threads=threads, trace=trace)


def make_feeds(
    model: Path, session: InferenceSession, inputs: tuple[str, ...], seed: int, dims: dict[str, int]
) -> dict[str, Any]:
    """The inputs that the arguments name, and random ones for the rest."""
    from onnxc.api import needs_compiling
    from onnxc.feeds import check_dims, complete_feeds, read_feeds

    if not needs_compiling(model):  # else the compilation has checked them
        check_dims(session.get_inputs(), dims)

    files = []
    for text in inputs:
        name, equals, path = text.rpartition("=")
        files.append((name if equals else None, Path(path)))
    return complete_feeds(session.get_inputs(), read_feeds(files), dims, seed)


def describe(value: Any) -> str:
    """`float32[1, 10]`, or what else an output is."""
    if isinstance(value, list | tuple):
        return f"sequence of {len(value)}"
    return f"{value.dtype}{list(value.shape)}" if hasattr(value, "dtype") else type(value).__name__


def read_options(arguments: dict[str, Any]) -> Options:
    """The Options that a command's arguments ask for."""
    return Options.of(**compile_arguments(arguments))


def compile_arguments(arguments: dict[str, Any]) -> dict[str, Any]:
    """Those of a command's arguments that are set fields of Options."""
    chosen = {name: value for name, value in arguments.items() if name in OPTION_NAMES and value is not None}
    if arguments.get("isa") is not None:
        chosen["isa"] = tuple(name.strip() for name in arguments["isa"].split(","))
    generic = {"generic": False} if arguments.get("no_generic") else {}
    return {**chosen, **generic, "cache": not arguments["no_cache"]}
