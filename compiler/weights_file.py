"""Writes the weights into a file of their own, which lies beside the artefact and is mapped when it is loaded.

For models whose weights are too large to be a section (past 1 GiB): wheels, git, zip and 32-bit offsets end there.
Loading looks at the file's length and at the digest that ends it; `check_weights_file` reads all of it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from onnxc.errors import UNREADABLE, OnnxcError
from onnxc.manifest import Weights, weights_trailer

CHUNK = 16 << 20
LARGEST_SECTION = 1 << 30  # larger weights go into a file


def write_weights_file(path: Path, entries: Iterable[tuple[np.ndarray, int]], size: int, name: str) -> Weights:
    """Writes each array at its offset (ascending), zeros between them, and the trailer by which the stub knows them.

    `name` is what the file will be called beside the artefact. Holds one array at a time.
    """
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for piece in _pieces(entries, size):
            file.write(piece)
            digest.update(piece)
        file.write(weights_trailer(digest.hexdigest()))
    return Weights(size, file=name, digest=digest.hexdigest())


def check_weights_file(path: Path, weights: Weights) -> None:
    """Reads the file and compares its content with the digest. OnnxcError (exit code 2) that says what is wrong."""
    trailer, digest = weights_trailer(weights.digest), hashlib.sha256()
    try:
        found, wanted = path.stat().st_size, weights.size + len(trailer)
        if found != wanted:
            raise _wrong(path, f"it has {found} bytes, not {wanted}", "copy it again, or compile the model again")
        with path.open("rb") as file:
            for start in range(0, weights.size, CHUNK):
                digest.update(file.read(min(CHUNK, weights.size - start)))
            if file.read() != trailer:
                raise _wrong(path, "it belongs to another artefact", "name the right file, or compile the model again")
    except OSError as error:
        raise _wrong(path, (error.strerror or str(error)).lower(), None) from error
    if digest.hexdigest() != weights.digest:
        raise _wrong(path, "its content is damaged", "copy it again, or compile the model again")


def _wrong(path: Path, why: str, hint: str | None) -> OnnxcError:
    return OnnxcError("these are not the artefact's weights", file=path, why=why, hint=hint, exit_code=UNREADABLE)


def _pieces(entries: Iterable[tuple[np.ndarray, int]], size: int) -> Iterator[bytes | memoryview]:
    """The content in order, in pieces that are never large copies."""
    at = 0
    for array, offset in entries:
        if offset < at:
            raise ValueError(f"weights overlap at offset {offset}")
        yield from _zeros(offset - at)
        data = memoryview(np.ascontiguousarray(array).reshape(-1).view(np.uint8))
        for start in range(0, len(data), CHUNK):
            yield data[start : start + CHUNK]
        at = offset + len(data)
    if at > size:
        raise ValueError(f"the weights take {at} bytes, not {size}")
    yield from _zeros(size - at)


def _zeros(count: int) -> Iterator[bytes]:
    while count > 0:
        yield bytes(min(count, CHUNK))
        count -= CHUNK
