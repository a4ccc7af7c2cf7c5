"""This file is the command line of onnxc: it reads arguments, calls the API and prints; the work is done elsewhere.

Results go to standard output, progress and errors to standard error. Exit codes: 0 done, 1 a valid model or input is
refused, 2 a file cannot be read or the usage is wrong, 101 a fault of onnxc, 130 interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

import onnxc
from onnxc import faults
from onnxc.errors import REFUSED, UNREADABLE, OnnxcError, Refusals
from onnxc.options import KINDS, LEVELS, Options
from onnxc.terminal import Terminal, report_error

INTERRUPTED = 130


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


class Assignment(click.ParamType):
    """NAME=VALUE, split at the last `=` since names in models may hold any character."""

    name = "NAME=VALUE"

    def __init__(self, convert: Callable[[str], Any] = str) -> None:
        self.convert_value = convert

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, Any]:
        if isinstance(value, tuple):
            return value
        name, equals, text = value.rpartition("=")
        try:
            if not equals or not name:
                raise ValueError
            return name, self.convert_value(text)
        except ValueError:
            self.fail(
                f"'{value}' is not {self.name.replace('VALUE', 'INTEGER' if self.convert_value is int else 'VALUE')}"
            )


def compile_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that every command which compiles has."""
    for option in reversed(
        (
            click.option("--dim", "dims", type=Assignment(int), multiple=True, metavar="NAME=N",
                         help="Fix a dim by its name, or INPUT.AXIS=N for an unnamed one. Repeatable."),
            click.option("--mcpu", metavar="CPU", help="native, or the name of a CPU or ISA level."),
            click.option("--no-cache", is_flag=True, help="Neither read nor write the object cache."),
            click.option("-j", "--jobs", type=click.IntRange(min=1), metavar="N",
                         help="Processes that compile kernels (default: the CPUs this process may use)."),
            click.option("-v", "--verbose", is_flag=True, help="Show passes with their times."),
        )
    ):  # fmt: skip
        command = option(command)
    return command


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
@click.option("--verify", is_flag=True, help="Check the module after every pass.")
def compile_command(model: Path, output: Path, **arguments: Any) -> None:
    """Compile MODEL (.onnx) ahead of time."""
    options = read_options(arguments)
    options.kind(output)
    from onnxc.driver import compile_model

    with Terminal(options.verbose) as terminal:
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


def read_options(arguments: dict[str, Any]) -> Options:
    """The Options that a command's arguments ask for."""
    no_cache = arguments.pop("no_cache", False)
    return Options.of(**{**arguments, "dims": dict(arguments.get("dims", ())), "cache": not no_cache})
