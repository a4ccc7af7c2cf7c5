"""This file is the contract of a pass: what it is given (`Program`), what levels it takes and gives (`@transforms`)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from mlir import ir

from onnxc.dialects.dims import Facts
from onnxc.dialects.errors import CompilerBug
from onnxc.dialects.levels import Level
from onnxc.dialects.weights import WeightStore
from onnxc.passes.artefact_parts import Parts
from onnxc.passes.choices import Choices

PassFunction = Callable[["Program"], None]


class PassOptions(Protocol):
    """What passes read of the compiler's options; any object with these attributes serves. Meanings: Options."""

    @property
    def dims(self) -> Mapping[str, int]: ...
    @property
    def threads(self) -> int | None: ...
    @property
    def verify(self) -> bool: ...
    @property
    def strict(self) -> bool: ...
    @property
    def target(self) -> Any: ...
    @property
    def choices(self) -> Choices | None: ...
    @property
    def overrides(self) -> tuple[Any, ...]: ...
    @property
    def objective(self) -> str: ...


@dataclass(frozen=True)
class Options:
    """The plainest `PassOptions`, for tests and for onnxc-opt.

    dims      values of symbolic dims, by name or INPUT.AXIS (bound on import)
    threads   1: code without threads; None: the artefact may use threads
    verify    check level and dialect rules after each pass
    strict    no algorithm whose result differs from the plain one (Winograd, FFT)
    target    the machine to compile for; None where no pass asks
    choices   what tuning has found; None: nothing
    overrides what the user asks of single nodes (overrides.py)
    objective speed, memory or size: what a choice between algorithms goes by
    """

    dims: Mapping[str, int] = field(default_factory=dict)
    threads: int | None = None
    verify: bool = True
    strict: bool = False
    target: Any = None
    choices: Choices | None = None
    overrides: tuple[Any, ...] = ()
    objective: str = "speed"


@dataclass
class Program:
    """A model on its way through the compiler. Passes change `module` in place and add to `weights` and `log`.

    name      prefix of the C symbols
    file      the ONNX file, for messages
    facts     what is known of free sizes of the inputs; set it before the first pass (see passes/apply_facts.py)
    log       facts for the report and -v, in order: (pass, text)
    warnings  what everybody should read: lines
    notes     what later stages need and IR cannot hold, by pass
    parts     what the program has in common with the other realisations of its artefact
    """

    module: ir.Module
    weights: WeightStore = field(default_factory=WeightStore)
    options: PassOptions = field(default_factory=Options)
    name: str = "model"
    file: str | None = None
    facts: Facts = field(default_factory=Facts)
    log: list[tuple[str, str]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)
    parts: Parts = field(default_factory=Parts)

    @property
    def context(self) -> ir.Context:
        return self.module.context


def transforms(takes: Level, gives: Level) -> Callable[[PassFunction], PassFunction]:
    """Declare a pass: it runs inside the module's context, takes level `takes` and gives level `gives`.

    With `options.verify` the result is checked against `gives` and the dialect's rules. An MLIR error is a CompilerBug.
    """

    def declare(function: PassFunction) -> PassFunction:
        name = function.__name__

        @functools.wraps(function)
        def run(program: Program) -> None:
            with program.module.context, ir.Location.unknown():
                try:
                    function(program)
                except ir.MLIRError as error:
                    raise CompilerBug(name, str(error)) from error
                if program.options.verify:
                    check(program.module, gives, name)

        run.takes, run.gives = takes, gives  # type: ignore[attr-defined]
        return run

    return declare


def check(module: ir.Module, level: Level, pass_name: str) -> None:
    """Raise CompilerBug where `module` is not valid, not of `level`, or breaks a rule of our dialects."""
    from onnxc.dialects.verifier import verify  # the verifier loads every schema: only where it is asked for

    level.check(module, pass_name)
    verify(module, pass_name)
