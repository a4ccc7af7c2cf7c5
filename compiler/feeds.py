"""This file makes inputs for `onnxc run` and `onnxc bench`: from .npy and .npz files, else random; and saves outputs.

It must not import the compiler: it serves artefacts on devices that only run.
"""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from onnxc.errors import UNREADABLE, OnnxcError
from onnxc.link import publish, scratch_beside
from onnxc.runtime.element_types import numpy_type

_WORDS = ("a", "model", "reads", "text", "too")


class Value(Protocol):
    """An input as the session describes it: type `tensor(float)` and its ONNX number, dims as numbers or names."""

    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def dtype(self) -> int: ...
    @property
    def shape(self) -> Sequence[int | str | None]: ...


def read_feeds(files: Iterable[tuple[str | None, Path]]) -> dict[str, np.ndarray]:
    """Arrays from files: (name, one.npy) gives one input, (None, all.npz) those that the archive names."""
    feeds: dict[str, np.ndarray] = {}
    for name, path in files:
        try:
            loaded = np.load(path, allow_pickle=False)
            if isinstance(loaded, np.ndarray):
                if name is None:
                    raise OnnxcError("does not name its input", file=path, hint="NAME=FILE.npy", exit_code=UNREADABLE)
                feeds[name] = loaded
            elif name is None:
                feeds.update({key: loaded[key] for key in loaded.files})
            else:
                raise OnnxcError("holds several arrays", file=path, hint="give it without NAME=", exit_code=UNREADABLE)
        except OSError as error:
            raise OnnxcError(f"cannot be read: {error.strerror or error}", file=path, exit_code=UNREADABLE) from error
        except (ValueError, EOFError) as error:
            raise OnnxcError("is not an .npy or .npz file", file=path, why=str(error), exit_code=UNREADABLE) from error
    return feeds


def save_outputs(path: Path, outputs: Mapping[str, Any]) -> None:
    """Writes an .npz of the outputs by name, whole or not at all; strings as numpy's own, sequences item by item."""
    arrays: dict[str, np.ndarray] = {}
    for name, value in outputs.items():
        items = {f"{name}.{i}": item for i, item in enumerate(value)} if isinstance(value, list) else {name: value}
        arrays |= {key: np.asanyarray(item) for key, item in items.items()}
    with scratch_beside(path) as scratch:
        # not numpy.savez, which takes names as keyword arguments and adds a suffix
        with zipfile.ZipFile(scratch / "outputs", "w") as archive:
            for name, array in arrays.items():
                with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                    np.lib.format.write_array(member, array.astype(str) if array.dtype.kind == "O" else array)
        publish({path: scratch / "outputs"})


def check_dims(inputs: Sequence[Value], dims: Mapping[str, int]) -> None:
    """Refuses a dim that no input has, by name or INPUT.AXIS, or that the artefact fixes to another size."""
    known: dict[str, int | str | None] = {}
    for value in inputs:
        for axis, dim in enumerate(value.shape):
            known[f"{value.name}.{axis}"] = dim
            if isinstance(dim, str):
                known[dim] = dim
    for name, size in dims.items():
        if name not in known:
            free = ", ".join(name for name, dim in known.items() if not isinstance(dim, int)) or "all fixed"
            raise OnnxcError(f"the model has no dim '{name}' to set", hint=f"its dims are {free}", exit_code=UNREADABLE)
        if isinstance(fixed := known[name], int) and fixed != size:
            raise OnnxcError(f"dim '{name}' cannot be {size}: it is fixed to {fixed}", exit_code=UNREADABLE)


def complete_feeds(
    inputs: Sequence[Value], given: Mapping[str, np.ndarray], dims: Mapping[str, int], seed: int
) -> dict[str, Any]:
    """`given`, and random values for the inputs that it lacks; symbolic dims agree between all inputs.

    `dims` sets dims by name or INPUT.AXIS; a dim that a given array fixes is that; the rest are guessed.
    """
    known = dict(dims)
    for value in inputs:
        for axis, dim in enumerate(value.shape):
            if isinstance(dim, str) and f"{value.name}.{axis}" in dims:
                known.setdefault(dim, dims[f"{value.name}.{axis}"])
        if value.name in given:
            for dim, size in zip(value.shape, np.shape(given[value.name]), strict=False):
                if isinstance(dim, str):
                    known.setdefault(dim, int(size))
    random = np.random.default_rng(seed)
    unknown = sorted(set(given) - {value.name for value in inputs})
    if unknown:
        names = ", ".join(value.name for value in inputs)
        raise OnnxcError(f"the model has no input '{unknown[0]}'", hint=f"its inputs are {names}")
    return {
        value.name: given[value.name] if value.name in given else random_value(value, known, random) for value in inputs
    }


def random_value(value: Value, dims: dict[str, int], random: np.random.Generator) -> np.ndarray:
    """A random array that the input accepts. Integers are 0 or 1, so that they are valid as indices of most tables."""
    if not value.type.startswith("tensor("):
        raise OnnxcError(f"input '{value.name}' is a {value.type}", why="only tensors can be made up")
    dtype = numpy_type(value.dtype)
    shape = resolve_shape(value, dims)
    try:
        return _random_array(value.name, dtype, shape, random)
    except (MemoryError, ValueError) as error:  # numpy's ValueError: more bytes than addresses
        raise OnnxcError(f"input '{value.name}' of the shape {list(shape)} does not fit into memory") from error


def _random_array(name: str, dtype: np.dtype, shape: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
    if "mask" in name.lower() and dtype.kind != "f":
        return np.ones(shape, dtype)
    if dtype.kind == "b":
        return random.integers(0, 2, shape).astype(np.bool_)
    if dtype == np.uint8:  # images
        return random.integers(0, 256, shape, dtype=np.uint8)
    if dtype.kind in "iu":
        return random.integers(0, 2, shape).astype(dtype)
    if dtype.kind == "O":
        return np.array(_WORDS, dtype=np.object_)[random.integers(0, len(_WORDS), shape)]
    return np.asarray(random.standard_normal(shape, dtype=np.float32)).astype(dtype)


def resolve_shape(value: Value, dims: dict[str, int]) -> tuple[int, ...]:
    """The input's shape with each free dim set: by `dims`, else by a guess, which joins `dims`."""
    shape = []
    for axis, dim in enumerate(value.shape):
        if isinstance(dim, int) and dim >= 0:
            shape.append(dim)
            continue
        name = dim if isinstance(dim, str) and dim else f"{value.name}.{axis}"
        size = dims.get(f"{value.name}.{axis}")
        shape.append(dims.setdefault(name, _guess(name, axis, len(value.shape))) if size is None else size)
    return tuple(shape)


def _guess(name: str, axis: int, rank: int) -> int:
    """A usual size: one item a batch, 64 tokens or frames, images of 224 by 224 with three channels."""
    if any(word in name.lower() for word in ("past", "cache")):
        return 0 if rank == 4 and axis == 2 else 16
    if any(word in name.lower() for word in ("seq", "len", "time", "frame", "token")):
        return 64
    if axis == 0 or "batch" in name.lower():
        return 1
    if rank == 4:
        return 3 if axis == 1 else 224
    return 64
