"""This file reads what variants are asked for: `batch=1,seq=1..512,h%32=0` becomes bounds of dims, guards,
and facts for the passes.

A variant is one more realisation of the model, for the inputs whose dims meet its conditions. `manifest.py` says in
which order they are tried.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from onnxc.dialects.dims import Facts
from onnxc.dialects.errors import UNREADABLE, OnnxcError
from onnxc.manifest import ANY, Guard, Value

GENERIC = "generic"
SYNTAX = "conditions are NAME=V, NAME=L..H or NAME%M=0, with commas between them"
#: no tensor that fits into an address space is longer
LARGEST_DIM = 1 << 47
_CONDITIONS = {
    "exact": re.compile(r"(?s)(?P<dim>.+?)\s*=\s*(?P<low>[0-9]{1,4000})\Z"),
    "range": re.compile(r"(?s)(?P<dim>.+?)\s*=\s*(?P<low>[0-9]{1,4000})\.\.(?P<high>[0-9]{1,4000})\Z"),
    "multiple": re.compile(r"(?s)(?P<dim>.+?)\s*%\s*(?P<multiple>[0-9]{1,4000})\s*=\s*0\Z"),
}


@dataclass(frozen=True)
class Bounds:
    """`low <= d <= high and d % multiple == 0`, with low and high multiples themselves."""

    low: int = 0
    high: int = ANY
    multiple: int = 1

    @property
    def exact(self) -> bool:
        return self.low == self.high

    def __and__(self, other: Bounds) -> Bounds | None:
        """What meets both; None: nothing does."""
        multiple = math.lcm(self.multiple, other.multiple)
        low = -(-max(self.low, other.low) // multiple) * multiple
        high = min(self.high, other.high)
        high = high if high == ANY else high // multiple * multiple
        if low > high:
            return None
        return Bounds(low, high, multiple)

    def near(self, size: int) -> int:
        """A size that meets them, as close below `size` as they allow, of one multiple at least."""
        return max(self.low, min(max(size, self.multiple), self.high) // self.multiple * self.multiple)

    def text(self, name: str) -> str:
        """As it is written in a variant."""
        if self.exact:
            return f"{name}={self.low}"
        parts = [f"{name}%{self.multiple}=0"] if self.multiple > 1 else []
        if self.low > 0 or self.high != ANY:
            parts.append(f"{name}={self.low}..{self.high}")
        return ",".join(parts)


@dataclass(frozen=True)
class Spec:
    """A variant's conditions: bounds by the dim's name as the user wrote it, none contradicting another."""

    text: str
    bounds: Mapping[str, Bounds]


@dataclass(frozen=True)
class Variant:
    """A variant of a certain model: bounds by the dim's own name. No bounds: the generic one."""

    bounds: Mapping[str, Bounds]
    guards: tuple[Guard, ...] = ()

    @property
    def name(self) -> str:
        return ",".join(bounds.text(dim) for dim, bounds in self.bounds.items()) or GENERIC

    @property
    def values(self) -> dict[str, int]:
        """The dims that have one value."""
        return {dim: bounds.low for dim, bounds in self.bounds.items() if bounds.exact}


def read_spec(text: str) -> Spec:
    """The conditions that `text` spells. OnnxcError (exit code 2) for wrong syntax and contradictions."""
    bounds: dict[str, Bounds] = {}
    for part in text.split(","):
        dim, condition = _read_condition(part.strip(), text)
        bounds[dim] = _meet(bounds.get(dim, Bounds()), condition, dim, text)
    return Spec(text, bounds)


def _meet(before: Bounds, condition: Bounds, dim: str, text: str) -> Bounds:
    both = before & condition
    if both is None:
        raise _wrong(text, f"no size of '{dim}' meets all its conditions")
    return both


def _fit(bounds: Bounds, dim: str, text: str) -> Bounds:
    """The bounds, of one value with no multiple. OnnxcError where no memory holds what they ask for."""
    if bounds.low >= LARGEST_DIM:
        raise _wrong(text, f"'{dim}' would be larger than any memory")
    if bounds.exact:
        return Bounds(bounds.low, bounds.low)
    if bounds.multiple >= LARGEST_DIM:
        raise _wrong(text, f"but for 0, '{dim}' would be larger than any memory", f"say {dim}=0")
    return bounds


def _read_condition(part: str, text: str) -> tuple[str, Bounds]:
    for kind in ("range", "multiple", "exact"):
        found = _CONDITIONS[kind].match(part)
        if found is None:
            continue
        dim = found["dim"]
        if kind == "exact":
            return dim, Bounds(_size(found["low"]), _size(found["low"]))
        if kind == "range":
            low, high = int(found["low"]), int(found["high"])
            if low > high:
                raise _wrong(text, f"the range {low}..{high} is empty")
            return dim, Bounds(_size(found["low"]), _size(found["high"]))
        if int(found["multiple"]) < 2:
            raise _wrong(text, f"every size is a multiple of 1, none of 0, so '{part}' says nothing")
        return dim, Bounds(multiple=int(found["multiple"]))
    raise _wrong(text, f"'{part}' is no condition" if part else "a condition is empty", SYNTAX)


def _size(digits: str) -> int:
    """No memory tells apart what is larger than the largest."""
    return min(int(digits), LARGEST_DIM)


def find_variants(specs: Sequence[Spec], inputs: Sequence[Value]) -> list[Variant]:
    """The variants of a model with these inputs. OnnxcError (exit code 2) for dims that it has not, and duplicates."""
    places = _free_dims(inputs)
    found: dict[tuple[Guard, ...], str] = {}
    variants = []
    for spec in specs:
        variant = _resolve(spec, places, inputs)
        key = tuple(sorted(variant.guards, key=lambda guard: guard.dim))
        if key in found:
            raise _wrong(spec.text, f"it takes the same shapes as '{found[key]}'")
        found[key] = spec.text
        variants.append(variant)
    return variants


def _resolve(spec: Spec, places: Mapping[str, tuple[str, int]], inputs: Sequence[Value]) -> Variant:
    bounds: dict[str, Bounds] = {}
    for written, condition in spec.bounds.items():
        if written not in places:
            raise _unknown(spec.text, written, places, inputs)
        dim, _ = places[written]
        if dim in _ambiguous(inputs):
            raise _wrong(spec.text, f"'{dim}' is the name of one dim and the place of another")
        bounds[dim] = _meet(bounds.get(dim, Bounds()), condition, dim, spec.text)
    bounds = {dim: _fit(both, dim, spec.text) for dim, both in bounds.items()}
    guards = [Guard(places[dim][1], b.low, b.high, b.multiple) for dim, b in bounds.items()]
    return Variant(bounds, tuple(guards))


def _ambiguous(inputs: Sequence[Value]) -> set[str]:
    """Names of dims that are another dim's INPUT.AXIS."""
    places = [(f"{value.name}.{axis}", dim) for value in inputs for axis, dim in enumerate(value.dims)]
    return {place for place, dim in places if dim != place} & {dim for _, dim in places if isinstance(dim, str)}


def facts_of(variant: Variant, symbols: Sequence[str]) -> Facts:
    """What its ranges and multiples say of a program; `symbols`: the dims of all inputs as the program spells them."""
    ranges: dict[str, tuple[int, int | None]] = {}
    multiples: dict[str, int] = {}
    for guard in variant.guards:
        if guard.low == guard.high:  # the dim is bound
            continue
        if guard.low > 0 or guard.high != ANY:
            ranges[symbols[guard.dim]] = guard.low, None if guard.high == ANY else guard.high
        if guard.multiple > 1:
            multiples[symbols[guard.dim]] = guard.multiple
    return Facts(ranges, multiples)


def _free_dims(inputs: Sequence[Value]) -> dict[str, tuple[str, int]]:
    """Each name of a free dim, and each INPUT.AXIS of one → (the dim's own name, its index among all inputs' dims)."""
    found: dict[str, tuple[str, int]] = {}
    index = 0
    for value in inputs:
        for axis, dim in enumerate(value.dims):
            place = f"{value.name}.{axis}"
            if not isinstance(dim, int):
                found.setdefault(place, found.setdefault(dim or place, (dim or place, index)))
            index += 1
    return found


def _unknown(text: str, dim: str, places: Mapping[str, tuple[str, int]], inputs: Sequence[Value]) -> OnnxcError:
    fixed = {f"{v.name}.{axis}": d for v in inputs for axis, d in enumerate(v.dims) if isinstance(d, int)}
    if dim in fixed:
        return _wrong(text, f"dim '{dim}' is fixed to {fixed[dim]}")
    known = list(dict.fromkeys(name for name, _ in places.values()))
    hint = f"its free dims are {', '.join(known)}" if known else "all its dims are fixed, by the model or by --dim"
    if re.search(r"%\s*[0-9]+\Z", dim):
        hint = f"{SYNTAX}: a remainder is 0"
    return _wrong(text, f"the model has no free dim '{dim}'", hint)


def _wrong(text: str, why: str, hint: str | None = None) -> OnnxcError:
    return OnnxcError(f"variant '{text}' cannot be compiled", why=why, hint=hint, exit_code=UNREADABLE)
