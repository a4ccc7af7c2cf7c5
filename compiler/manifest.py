"""Describes one compiled model to everything that packs it: the stub's descriptor, the C header, the report."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

WEIGHTS_MAGIC = b"onnxc weights 1\n"
ANY = 2**63 - 1

Dim = int | str | None
"""A size, the name of a free dim, or None for a free dim without a name."""


@dataclass(frozen=True)
class Value:
    """An input or output: `dtype` is ONNX's number (TensorProto.DataType)."""

    name: str
    dtype: int
    dims: tuple[Dim, ...]


@dataclass(frozen=True)
class Guard:
    """`low <= d <= high and d % multiple == 0`; d is the dim at index `dim` of all inputs' dims, one after another."""

    dim: int
    low: int = 0
    high: int = ANY
    multiple: int = 1

    @property
    def rank(self) -> tuple[int, int]:
        """Sorts the more specific first: exact, then multiple, then narrower range."""
        if self.low == self.high:
            return 0, 0
        return (1, -self.multiple) if self.multiple > 1 else (2, self.high - self.low)


@dataclass(frozen=True)
class Variant:
    """One compiled realisation: the symbols of its two entries, and where it may run.

    `features` are LLVM's names; those that no generated code can use are ignored. `workspace` is -1 where it depends on
    the shapes; `kernels` is how many functions it calls.
    """

    name: str
    prepare: str
    run: str
    target: str
    features: tuple[str, ...] = ()
    guards: tuple[Guard, ...] = ()
    workspace: int = -1
    kernels: int = 0


@dataclass(frozen=True)
class Weights:
    """Where the weights are: behind a hidden symbol of another object, or in a file beside the artefact.

    `digest` (of the file's content, hexadecimal, 64 digits) ends that file, see `weights_trailer`.
    """

    size: int
    symbol: str | None = None
    file: str | None = None
    digest: str = ""


@dataclass(frozen=True)
class Manifest:
    """All that an artefact tells about itself. `errors[k - 1]` is the message of error code k of the entries.

    `variants` may come in any order: they are tried most specific first, then in the order given.
    """

    name: str
    inputs: tuple[Value, ...]
    outputs: tuple[Value, ...]
    variants: tuple[Variant, ...]
    errors: tuple[str, ...] = ()
    weights: Weights | None = None
    metadata: Mapping[str, str] = field(default_factory=dict)
    producer: str = "onnxc"
    report: str | None = None

    @property
    def symbol(self) -> str:
        """The model's name as a C identifier; the artefact exports `<symbol>_model`."""
        return identifier(self.name)

    @property
    def ordered_variants(self) -> tuple[Variant, ...]:
        """The variants in the order in which they are tried."""
        return tuple(sorted(self.variants, key=specificity))


def identifier(name: str) -> str:
    """A C identifier that resembles `name`."""
    word = re.sub(r"[^0-9A-Za-z_]", "_", name)
    return word if re.match(r"[A-Za-z]", word) else f"m{word}"


def weights_trailer(digest: str) -> bytes:
    """What follows the weights in a file beside the artefact, so that the stub can tell that they belong together."""
    return WEIGHTS_MAGIC + digest.encode("ascii").ljust(64, b"0")[:64]


def specificity(variant: Variant) -> list[tuple[int, int]]:
    """Sorts the more specific variants first."""
    # one (3, 0) at the end: more guards of the same kinds come before fewer
    return [*sorted(guard.rank for guard in variant.guards), (3, 0)]
