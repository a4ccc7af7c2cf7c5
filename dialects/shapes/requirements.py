"""This file states what must hold of symbolic sizes for a node to be legal; what cannot be proved is checked later."""

from __future__ import annotations

from dataclasses import dataclass

from onnxc.dialects import dims
from onnxc.dialects.dims import Dim


@dataclass(frozen=True)
class Requirement:
    """`a kind b`; kind is `==`, `!=`, `>=`, or `broadcasts` (equal, or one of them is 1). `what` tells what they are.

    `size` is `>=` for what is taken to be a size from then on: it is checked although proofs may assume it. `branch` is
    `==` for the condition of an If whose other branch cannot run; `what` says why.
    """

    kind: str
    a: Dim
    b: Dim
    what: str

    def holds(self) -> bool | None:
        """Whether it holds for all values of the symbols (True), for none (False), or that is not known (None)."""
        if self.kind == "broadcasts":
            return _broadcasts(self.a, self.b)
        if self.kind == "size":
            return self.a >= self.b if isinstance(self.a, int) and isinstance(self.b, int) else None
        gap = self.a - self.b
        if self.kind == ">=":
            return True if dims.nonnegative(gap) else False if dims.nonnegative(-gap - 1) else None
        low, high = dims.bounds(gap)
        equal = (gap == 0) if isinstance(gap, int) else False if low > 0 or high < 0 else None
        return not equal if self.kind == "!=" and equal is not None else equal

    def __str__(self) -> str:
        if self.kind == "broadcasts":
            return f"{self.what}: {self.a} and {self.b} do not broadcast"
        if self.kind in (">=", "size"):
            return f"{self.what}: {self.a} is less than {self.b}"
        if self.kind == "branch":
            return self.what
        if self.kind == "!=":
            return f"{self.what}: {self.a} is {self.b}"
        return f"{self.what}: {self.a} and {self.b} differ"


def _broadcasts(a: Dim, b: Dim) -> bool | None:
    if a is b or a == b or a == 1 or b == 1:
        return True
    if isinstance(a, int) and isinstance(b, int):
        return False
    return None
