"""This file reads lists of shapes for `onnxc advise`: JSON that a person or a session's `record_shapes` wrote.

    [{"x": [1, 128], "weight": 5}, {"batch": 8, "seq": 128}, …]

An entry names inputs with their shapes, or dims with their sizes; its weight says how often it comes (default: once).
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from onnxc.errors import UNREADABLE, OnnxcError
from onnxc.variants import LARGEST_DIM

MOST_WEIGHT = 1e15  # sums of which are exact enough


class Value(Protocol):
    """An input of the model, as the runtime tells it."""

    name: str
    shape: list[int | str | None]


Dims = dict[str, int]


def free_dims(inputs: Sequence[Value]) -> dict[str, str]:
    """What a free dim may be called → its name in conditions: the model's where these can hold it, else INPUT.AXIS."""
    found: dict[str, str] = {}
    for value in inputs:
        for axis, dim in enumerate(value.shape):
            if not isinstance(dim, int):
                place = f"{value.name}.{axis}"
                own = dim if dim and "," not in dim and dim == dim.strip() else place
                found[place] = found.setdefault(dim or place, own)
    return found


def read_shapes(path: Path, inputs: Sequence[Value]) -> list[tuple[Dims, float]]:
    """The distinct shapes with their weights, in the order of the file. OnnxcError (exit code 2) where it is wrong."""
    try:
        entries = json.loads(path.read_text("utf-8"))
    except OSError as error:
        raise OnnxcError("cannot read the shapes", file=path, why=error.strerror, exit_code=UNREADABLE) from error
    except (ValueError, RecursionError) as error:
        raise OnnxcError("the shapes are no JSON", file=path, why=str(error), exit_code=UNREADABLE) from error
    if not isinstance(entries, list) or not entries:
        raise OnnxcError("the shapes are no list of objects", file=path, exit_code=UNREADABLE)
    weights: dict[tuple[tuple[str, int], ...], float] = {}
    for number, entry in enumerate(entries, 1):
        try:
            dims, weight = _read_entry(entry, inputs)
        except OnnxcError as error:
            error.message = f"shape {number}: {error.message}"
            raise error.at(file=path) from None
        key = tuple(dims.items())
        weights[key] = weights.get(key, 0.0) + weight
    return [(dict(key), weight) for key, weight in weights.items()]


def _read_entry(entry: Any, inputs: Sequence[Value]) -> tuple[Dims, float]:
    if not isinstance(entry, dict):
        raise _wrong(f"{entry!r} is no object")
    names, shapes = free_dims(inputs), {value.name: value.shape for value in inputs}
    known: Dims = {}
    weight = 1.0
    for key, given in entry.items():
        if key in shapes and isinstance(given, list):
            for axis, (dim, size) in enumerate(zip(_same_rank(key, given, shapes[key]), given, strict=True)):
                _note(known, names.get(f"{key}.{axis}"), dim, size, f"{key}.{axis}")
        elif key in names:
            _note(known, names[key], None, given, key)
        elif key == "weight":
            weight = _weight(given)
        elif key in shapes:
            raise _wrong(f"the shape of input '{key}' is {given!r:.40}, not a list")
        else:
            known_names = ", ".join(dict.fromkeys([*shapes, *names]))
            raise _wrong(f"there is no input or free dim '{key}'", f"known: {known_names}")
    order = list(dict.fromkeys(names.values()))
    missing = [name for name in order if name not in known]
    if missing:
        raise _wrong(f"dim '{missing[0]}' is left open")
    return {name: known[name] for name in order}, weight


def _same_rank(name: str, given: list[Any], shape: list[int | str | None]) -> list[int | str | None]:
    if len(given) != len(shape):
        raise _wrong(f"input '{name}' has {len(shape)} dims, not {len(given)}")
    return shape


def _note(known: Dims, name: str | None, dim: int | str | None, size: Any, place: str) -> None:
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < LARGEST_DIM:
        raise _wrong(f"'{place}' is {size!r:.40}, which is no size")
    if name is None:
        if size != dim:
            raise _wrong(f"'{place}' is {size}, but the model fixes it to {dim}")
    elif known.setdefault(name, size) != size:
        raise _wrong(f"dim '{name}' is {known[name]} and {size}")


def _weight(given: Any) -> float:
    if isinstance(given, bool) or not isinstance(given, int | float) or not 0 < given <= MOST_WEIGHT:
        raise _wrong(f"the weight is {given!r:.40}, not a positive number up to {MOST_WEIGHT:.0e}")
    return float(given)


def _wrong(message: str, hint: str | None = None) -> OnnxcError:
    return OnnxcError(message, hint=hint, exit_code=UNREADABLE)


def spec_of(dims: Mapping[str, int]) -> str:
    """The variant of exactly these sizes."""
    return ",".join(f"{name}={size}" for name, size in dims.items())


def covering_spec(shapes: Sequence[Dims]) -> str | None:
    """One variant of all the shapes: exact where they agree, else multiples and ranges; None: it says nothing."""
    parts = []
    for name in shapes[0]:
        sizes = [dims[name] for dims in shapes]
        if min(sizes) == max(sizes):
            parts.append(f"{name}={sizes[0]}")
            continue
        multiple = math.gcd(*sizes)
        parts += [f"{name}%{multiple}=0"] if multiple > 1 else []
        parts.append(f"{name}={min(sizes)}..{max(sizes)}")
    return ",".join(parts) or None
