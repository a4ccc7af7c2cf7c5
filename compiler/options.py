"""This file holds the options of a compilation, one frozen value shared by command line, API and passes."""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onnxc.dialects.errors import UNREADABLE, OnnxcError
from onnxc.manifest import identifier
from onnxc.variants import LARGEST_DIM, read_spec

if TYPE_CHECKING:
    from onnxc.passes.choices import Choices
    from onnxc.passes.overrides import Override
    from onnxc.targets import Target
    from onnxc.tuning.records import Records

#: The levels a compilation goes through, in order; `--emit` stops at one of them.
LEVELS = ("graph", "tensor", "kernels", "loops", "llvm")
#: What the suffix of the output file asks for.
KINDS = {".so": "shared", ".o": "object", ".a": "archive", ".ll": "llvm-ir", ".s": "assembly", ".mlir": "mlir"}
#: What a choice goes by where the fastest, the smallest in memory and the smallest on disk differ.
OBJECTIVES = ("speed", "memory", "size")

_SYMBOL = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


@dataclass(frozen=True)
class Options:
    """How to compile. Wrong values raise OnnxcError with exit code 2, so a made Options is always usable.

    dims          values for symbolic dims by name ("batch"), or by input and axis ("x.2") for unnamed ones
    mcpu          "native", a CPU's or an ISA level's name; None: the portable baseline of the target
    target        target triple; None: this machine's
    emit          the level an `.mlir` output shows
    save_stages   folder that gets the module at each level, numbered and named
    verbose       report passes with their times
    threads       1 leaves the thread code out; None: the artefact can use threads, their number is set at run time
    cache         use the object cache
    jobs          processes that compile kernels; None: the CPUs this process may use
    variants      conditions of dims, such as "batch=1,seq=1..512", each of which gets code of its own
    generic       code for all other shapes, too
    isa           CPUs or ISA levels, each of which gets code of its own (instead of `mcpu`)
    strict        no algorithm that gives other bits than the plain sum (Winograd's filtering, FFT)
    tuning        a file of tuning records, or Records, that the passes prefer to their heuristics
    override      a TOML file with algorithms, schedules and precisions of nodes by name
    objective     speed, memory (the smallest workspace) or size (no transformed copies of weights)
    verify        check each pass's level and the module after it
    name          prefix of the C symbols; None: made from the output file's name
    """

    dims: Mapping[str, int] = field(default_factory=dict, hash=False)
    mcpu: str | None = None
    target: str | None = None
    emit: str | None = None
    save_stages: Path | None = None
    verbose: bool = False
    threads: int | None = None
    cache: bool = True
    jobs: int | None = None
    variants: tuple[str, ...] = ()
    generic: bool = True
    isa: tuple[str, ...] = ()
    strict: bool = False
    tuning: Path | Records | Choices | None = None
    override: Path | None = None
    objective: str = "speed"
    verify: bool = False
    name: str | None = None

    def __post_init__(self) -> None:
        self._check_types()
        object.__setattr__(self, "dims", {dim: _whole(value) for dim, value in self.dims.items()})
        for dim, value in self.dims.items():
            if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < LARGEST_DIM:
                raise _wrong(f"dim '{dim}' is set to {value!r}", why="a dim is an integer, 0 to 2^47")
        if self.mcpu == "":
            raise _wrong("no CPU is named", hint="native, a CPU's or an ISA level's name")
        if self.emit is not None and self.emit not in LEVELS:
            raise _wrong(f"no level is named '{self.emit}'", hint=f"the levels are {', '.join(LEVELS)}")
        if self.objective not in OBJECTIVES:
            raise _wrong(f"no objective is named '{self.objective}'", hint=f"one of {', '.join(OBJECTIVES)}")
        for name in ("threads", "jobs"):
            value = _whole(getattr(self, name))
            if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 1):
                raise _wrong(f"{name} is set to {value!r}", why="it is a positive integer")
            object.__setattr__(self, name, value)
        self._check_variants()
        if self.name is not None and not _SYMBOL.match(self.name):
            raise _wrong(f"'{self.name}' cannot prefix C symbols", why="it is letters, digits and underscores")

    def _check_types(self) -> None:
        """Refuses values of other types than a field's, and makes paths of texts that name files."""
        for name in ("verbose", "cache", "generic", "strict", "verify"):
            if not isinstance(value := getattr(self, name), bool):
                raise _wrong(f"{name} is set to {value!r}", why="it is True or False")
        for name in ("mcpu", "target", "emit", "name"):
            if not isinstance(value := getattr(self, name), str | None):
                raise _wrong(f"{name} is set to {value!r}", why="it is a text or None")
        for name in ("save_stages", "override", "tuning"):
            value = getattr(self, name)
            if isinstance(value, str | os.PathLike):
                object.__setattr__(self, name, Path(value))
            elif value is not None and (name != "tuning" or not _knows_choices(value)):
                raise _wrong(f"{name} is set to {value!r}", why="it is a path or None")
        if not isinstance(self.dims, Mapping):
            raise _wrong(f"dims is set to {self.dims!r}", why="it is a mapping of names to sizes")

    def _check_variants(self) -> None:
        for name in ("variants", "isa"):
            value = getattr(self, name)
            if not isinstance(value, list | tuple) or not all(isinstance(item, str) for item in value):
                raise _wrong(f"{name} is set to {value!r}", why="it is a sequence of texts")
            object.__setattr__(self, name, tuple(value))
        for text in self.variants:
            read_spec(text)
        if not self.generic and not self.variants:
            raise _wrong("without the generic variant there is nothing to compile", hint="add a --variant")
        if self.isa and self.mcpu is not None:
            raise _wrong("the CPU is named twice, by --mcpu and by --isa", hint="leave one of them away")
        if not all(self.isa):
            raise _wrong("no CPU is named", hint="native, a CPU's or an ISA level's name")

    @property
    def several(self) -> bool:
        """Whether the artefact holds more than one realisation of the model."""
        return bool(self.variants) or len(self.isa) > 1

    @classmethod
    def of(cls, **options: Any) -> Options:
        """Options from keyword arguments of the API; an unknown one is an OnnxcError that lists the known."""
        known = [f.name for f in fields(cls)]
        unknown = sorted(set(options) - set(known))
        if unknown:
            raise _wrong(f"no option is named '{unknown[0]}'", hint=f"the options are {', '.join(known)}")
        return cls(**options)

    def kind(self, output: Path) -> str:
        """What `output`'s suffix asks for, one of the values of KINDS; checks that `emit` goes with it."""
        kind = KINDS.get(output.suffix)
        if kind is None:
            raise _wrong(f"cannot tell what to write from the name '{output}'", hint=f"end it in {', '.join(KINDS)}")
        if kind == "mlir" and self.emit is None:
            raise _wrong(f"'{output}' does not say which level to write", hint=f"add --emit {'|'.join(LEVELS)}")
        if kind == "mlir" and self.several:
            raise _wrong("a level is written of one variant", hint="leave away --variant and --isa")
        if kind != "mlir" and self.emit is not None:
            raise _wrong(
                f"a level is written as .mlir, not as '{output.suffix}'", hint="end the output's name in .mlir"
            )
        return kind

    def symbol(self, output: Path) -> str:
        """The prefix of the artefact's C symbols: `name`, or made from the output's file name."""
        return self.name or identifier(output.name.split(".")[0] or "model")


@dataclass(frozen=True)
class ResolvedOptions:
    """What passes read (passes/contract.py): the options for one target, with its choices and the dims of one value."""

    options: Options
    target: Target
    dims: Mapping[str, int]
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


def _knows_choices(value: object) -> bool:
    """Whether it is what passes can ask for choices, or what they can be made from."""
    from onnxc.passes.choices import Choices
    from onnxc.tuning.records import Records

    return isinstance(value, Records | Choices)


def _whole(value: object) -> object:
    """An integer of any kind, such as numpy's, as Python's own; what is none as it is."""
    try:
        return value if isinstance(value, bool) else operator.index(value)  # type: ignore[arg-type]
    except TypeError:
        return value


def _wrong(message: str, *, why: str | None = None, hint: str | None = None) -> OnnxcError:
    return OnnxcError(message, why=why, hint=hint, exit_code=UNREADABLE)
