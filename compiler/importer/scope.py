"""This file is what names mean while a graph is built: IR values, and constants that become IR where they are used."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from mlir import ir

from onnxc.importer.nodes import Name


class Constant:
    """A constant that no operation has asked for yet; `read` gives its value, `hint` names it."""

    __slots__ = ("hint", "read")

    def __init__(self, read: Callable[[], np.ndarray], hint: str) -> None:
        self.read = read
        self.hint = hint


class Absent:
    """The meaning of a function's formal input that a call leaves out."""


ABSENT = Absent()
Meaning = ir.Value | Constant | Absent


class Scope:
    """The names of one graph or function; those of the graph around it are seen through `outer`."""

    def __init__(self, outer: Scope | None = None) -> None:
        self.outer = outer
        self.meanings: dict[Name, Meaning] = {}

    def find(self, name: Name) -> Meaning | None:
        """What `name` means here, or None."""
        scope: Scope | None = self
        while scope is not None:
            meaning = scope.meanings.get(name)
            if meaning is not None:
                return meaning
            scope = scope.outer
        return None

    def __contains__(self, name: Name) -> bool:
        return self.find(name) is not None


def fresh_names() -> Iterator[Name]:
    """Names that no model has."""
    number = 0
    while True:
        yield (number,)
        number += 1
