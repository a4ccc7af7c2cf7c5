"""This file multiplies variants by instruction sets: the programs that an artefact is made of, in order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from onnxc.errors import UNREADABLE, OnnxcError
from onnxc.targets import Target, target_for
from onnxc.variants import GENERIC, Variant


@dataclass(frozen=True)
class Realisation:
    """One program of the artefact: a variant for a target. `number` is its place in the order that the user gave,
    `suffix` tells its symbols from the others'."""

    variant: Variant
    target: Target
    number: int = 0
    suffix: str = ""

    @property
    def label(self) -> str:
        """For messages."""
        return f"variant '{self.variant.name}' for {self.target.cpu}"


def targets_for(isa: Sequence[str], mcpu: str | None, triple: str | None) -> tuple[Target, ...]:
    """The targets to compile for, the best first. OnnxcError (exit code 2) where one could never be picked."""
    if not isa:
        return (target_for(mcpu, triple),)
    found: dict[tuple[str, ...], Target] = {}
    for name in isa:
        target = target_for(name, triple)
        if (twin := found.get(target.features)) is not None:
            why = f"it has the same CPU features as '{twin.cpu}'" if twin.cpu != name else "it is named twice"
            raise OnnxcError(f"code for '{name}' would never run", why=why, exit_code=UNREADABLE)
        found[target.features] = target
    # what has all features of another one and more comes before it
    return tuple(sorted(found.values(), key=lambda target: (-target.vector_bits, -len(target.features))))


def realisations(variants: Sequence[Variant], generic: bool, targets: Sequence[Target]) -> list[Realisation]:
    """In the order in which they are compiled: the first that wants a weight decides how it lies in memory.

    So the best instruction set comes first, and of its variants the largest exact shape: it computes most for each
    weight that it reads, while small shapes read weights at the memory's speed in any layout. The generic one is last.
    """
    chosen = [*variants, *([Variant({})] if generic else [])]
    pairs = [(variant, target) for target in targets for variant in chosen]
    ones = [Realisation(v, target, number, _suffix(number, v, targets)) for number, (v, target) in enumerate(pairs)]
    return sorted(ones, key=lambda one: (targets.index(one.target), -_size(one.variant)))


def _suffix(number: int, variant: Variant, targets: Sequence[Target]) -> str:
    """The generic variant's entries for the only instruction set keep the plain names."""
    return "" if variant.name == GENERIC and len(targets) == 1 else f"_v{number}"


def _size(variant: Variant) -> int:
    """The product of the dims that have a value; those of ranges and multiples count as 1, the generic variant 0."""
    return math.prod(variant.values.values()) if variant.bounds else 0
