"""This file is what commands have in common: types of arguments, and the options of all that compile or make inputs."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from onnxc.options import OBJECTIVES

#: seconds: ten days, which timers of every kind can hold
LONGEST = 240 * 3600
#: of tuning, unless its budget is given
TUNE_SECONDS = 120


class DimSize(click.ParamType):
    """NAME=N, split at the last `=` since names in models may hold any character."""

    name = "NAME=N"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, int]:
        name, equals, text = value.rpartition("=")
        if not equals or not name or not re.fullmatch("[0-9]{1,18}", text):
            self.fail(f"'{value}' is not NAME=N, N an integer, 0 or more")
        return name, int(text)


class Duration(click.ParamType):
    """Seconds: 90, 90s, 2m, 1.5h."""

    name = "TIME"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found = re.fullmatch(r"([0-9]+\.?[0-9]*)([smh]?)", str(value))
        if not found or float(found[1]) <= 0:
            self.fail(f"'{value}' is no time such as 90s, 2m or 1h")
        seconds = float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[found[2]]
        if seconds > LONGEST:
            self.fail(f"'{value:.40}' is longer than {LONGEST // 3600} h")
        return seconds


class Milliseconds(click.FloatRange):
    """A number of at least 1 that is neither infinite nor none."""

    def __init__(self) -> None:
        super().__init__(min=1)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = super().convert(value, param, ctx)
        if not number <= 1000 * LONGEST:
            self.fail(f"'{value}' is no number of milliseconds up to {LONGEST // 3600} h")
        return number


def once(instead: str) -> Callable[[click.Context, click.Parameter, tuple[Any, ...]], Any]:
    """The callback of an option, declared with `multiple`, that holds one value: a second would silence the first.

    `instead`: what to do where there are several.
    """

    def sole(ctx: click.Context, param: click.Parameter, values: tuple[Any, ...]) -> Any:
        if len(values) > 1:
            raise click.BadParameter(f"it is given {len(values)} times ({instead})", ctx, param)
        return values[0] if values else None

    return sole


def distinct_dims(ctx: click.Context, param: click.Parameter, dims: tuple[tuple[str, int], ...]) -> dict[str, int]:
    """The dims by name; none may be set twice."""
    chosen: dict[str, int] = {}
    for name, size in dims:
        if chosen.setdefault(name, size) != size:
            raise click.BadParameter(f"'{name}' is set to {chosen[name]} and to {size}", ctx, param)
    return chosen


def compile_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that every command which compiles has."""
    for option in reversed(
        (
            click.option("--dim", "dims", type=DimSize(), multiple=True, metavar="NAME=N", callback=distinct_dims,
                         help="Fix a dim by its name, or INPUT.AXIS=N for an unnamed one. Repeatable."),
            click.option("--mcpu", metavar="CPU", help="native, or the name of a CPU or ISA level."),
            click.option("--tuning", type=Path, metavar="FILE.jsonl", multiple=True,
                         callback=once("onnxc tune --merge makes one file of several"),
                         help="Tuning records to prefer to the heuristics."),
            click.option("--override", type=Path, metavar="FILE.toml", multiple=True,
                         callback=once("one file can hold tables for any number of patterns"),
                         help="Algorithms, schedules or precisions for nodes by name."),
            click.option("--objective", type=click.Choice(OBJECTIVES), help="What to go by (default: speed)."),
            click.option("--no-cache", is_flag=True, help="Neither read nor write the object cache."),
            click.option("-j", "--jobs", type=click.IntRange(min=1), metavar="N",
                         help="Processes that compile kernels (default: the CPUs this process may use)."),
            click.option("-v", "--verbose", is_flag=True, help="Show passes with their times."),
        )
    ):  # fmt: skip
        command = option(command)
    return command


def input_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that choose the inputs of a run."""
    for option in reversed(
        (
            click.option("--input", "inputs", multiple=True, metavar="NAME=FILE.npy|FILE.npz",
                         help="An input, or an archive of inputs by name; the rest is random. Repeatable."),
            click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True,
                         help="Seed of the random inputs."),
        )
    ):  # fmt: skip
        command = option(command)
    return command
