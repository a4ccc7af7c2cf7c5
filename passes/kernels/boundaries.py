"""Where a kernel may fall into several kernels, and what these are.

A boundary lies after an operator: that one and all that is computed for it become a kernel of their own, whose result
what is left reads. Operators go by their numbers in the kernel, which are those of its signature (signatures.py).
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from mlir import ir

from onnxc.passes.kernels.kernel_function import KernelFunction

#: made where they are read, in each part
INLINED = {"Constant", "None"}


@dataclass(frozen=True)
class Part:
    """A kernel that a part of another one becomes: its operators by number, and what it reads, arguments of the whole
    kernel or other parts' results; `root`: the number of the operator that gives it its kind, None for a map."""

    numbers: tuple[int, ...]
    operands: tuple[ir.Value, ...]
    result: ir.Value
    root: int | None


class Indivisible(Exception):
    """Why a kernel cannot fall apart there."""


def parts(kernel: KernelFunction, after: Sequence[int]) -> list[Part]:
    """The parts in the order in which they are computed, with boundaries after the operators `after`. Indivisible."""
    graph = _Graph(kernel)
    graph.check(after)
    pieces = graph.pieces(after)
    for last, inside in pieces:
        escaped = graph.escaped(last, inside)
        if escaped:
            raise Indivisible(f"operator {min(escaped)} is read on both sides of the boundary after {last}")
    return [graph.part(last, inside) for last, inside in pieces]


def refusal(kernel: KernelFunction, after: Sequence[int]) -> str | None:
    """Why the kernel cannot have these boundaries; None where it can."""
    try:
        parts(kernel, after)
    except Indivisible as why:
        return str(why)
    return None


def divisions(kernel: KernelFunction) -> dict[int, list[Part]]:
    """The operators after which the kernel may fall into two, and what these are."""
    found: dict[int, list[Part]] = {}
    for number in range(len(kernel.ops)):
        with contextlib.suppress(Indivisible):
            found[number] = parts(kernel, [number])
    return found


def around(kernel: KernelFunction, apart: Collection[int]) -> list[int]:
    """The boundaries with which no part has both operators of `apart` and others. Indivisible."""
    graph = _Graph(kernel)
    after = {n for n in graph.numbers for user in graph.users[n] if (n in apart) != (user in apart)}
    escaped = after
    while escaped:  # what is read on both sides of a boundary is made before it
        escaped = {n for last, inside in graph.pieces(sorted(after)) for n in graph.escaped(last, inside)}
        after |= escaped
    graph.check(sorted(after))
    return sorted(after)


class _Graph:
    """Who reads whom in a kernel, by numbers; what is made where it is read is left out."""

    def __init__(self, kernel: KernelFunction) -> None:
        self.kernel = kernel
        self.numbers = [n for n, op in enumerate(kernel.ops) if op.name not in INLINED]
        self.makers = {r: n for n, op in enumerate(kernel.ops) for r in op.op.results}
        self.reads = [{self.makers[v] for v in op.op.operands if v in self.makers} for op in kernel.ops]
        self.users: list[set[int]] = [set() for _ in kernel.ops]
        for user in self.numbers:
            for number in self.reads[user]:
                self.users[number].add(user)
        self.last = self.makers.get(kernel.results[0], -1)

    def check(self, after: Sequence[int]) -> None:
        if after and (len(self.kernel.results) != 1 or any(len(op.op.results) != 1 for op in self.kernel.ops)):
            raise Indivisible("it has more than one result")
        if list(after) != sorted(set(after)):
            raise Indivisible("boundaries are named in order, each once")
        for number in after:
            if number not in self.numbers:
                raise Indivisible(f"there is no operator {number} that a kernel could end with")
            if number == self.last:
                raise Indivisible(f"nothing is left after operator {number}")

    def pieces(self, after: Sequence[int]) -> list[tuple[int, set[int]]]:
        """Of each part the last operator, and all."""
        found, left = [], set(self.numbers)
        for last in (*after, self.last):
            inside = self._needed(last) & left
            left -= inside
            if inside:
                found.append((last, inside))
        return found

    def escaped(self, last: int, inside: Collection[int]) -> set[int]:
        """What others than the part read of it, beside its result."""
        return {n for n in inside if n != last and not self.users[n] <= set(inside)}

    def _needed(self, number: int) -> set[int]:
        """The operator and all that is computed for it."""
        found: set[int] = set()
        queue = [number]
        while queue:
            at = queue.pop()
            if at not in found and at in self.numbers:
                found.add(at)
                queue += self.reads[at]
        return found

    def part(self, last: int, inside: Collection[int]) -> Part:
        inlined = {m for n in inside for m in self.reads[n]} - set(self.numbers)
        numbers = sorted({*inside, *inlined})
        made = {r for n in numbers for r in self.kernel.ops[n].op.results}
        operands = dict.fromkeys(v for n in numbers for v in self.kernel.ops[n].op.operands if v not in made)
        root = None if self.kernel.kind == "map" else self.makers[self.kernel.root.op.results[0]]
        (result,) = self.kernel.ops[last].op.results
        return Part(tuple(numbers), tuple(operands), result, root if root in inside else None)
