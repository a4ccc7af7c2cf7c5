"""This file says what a task of the tuner is: one problem, and candidates that compute it by calls of kernels.

Everything is told by names, texts and numbers, so that a task is built, shipped and measured without the model's IR.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from onnxc.passes.kernels.schedule_rules import same_bits

Schedule = Mapping[str, "int | str"]
TOLERANCE = 1e-4  # of the results' scale: what another algorithm, or another order of terms, may change


@dataclass(frozen=True)
class Buffer:
    """Memory that calls read or write: `role` is input, output, scratch or weight; weights have a content."""

    size: int
    dtype: str
    role: str
    content: Callable[[], np.ndarray] | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Call:
    """A call of the kernel whose function, at level kernels with a schedule but not packed, is `text`.

    `operands`, `results`: buffers' names; `values`: the sizes that the kernel's symbols stand for; `schedule`: in place
    of the one in the text.
    """

    text: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    values: Mapping[str, int] = field(hash=False)
    schedule: Schedule | None = field(default=None, hash=False)

    def with_schedule(self, schedule: Schedule) -> Call:
        return replace(self, schedule=dict(schedule))


@dataclass(frozen=True)
class Candidate:
    """A choice as records have it ({"schedule": …}, {"algorithm": …}, …), and the calls that it comes to.

    `tolerance`: how far its results may be from the first candidate's, as a share of their scale; 0: not by one bit.
    `turns`: plans (passes/row_turns.py) of calls that take turns by rows, by the number of the first of them.
    """

    choice: Mapping[str, Any] = field(hash=False)
    calls: tuple[Call, ...]
    tolerance: float = 0.0
    turns: Mapping[int, Sequence[int]] = field(default_factory=dict, hash=False)


@dataclass
class Task:
    """A problem: its signature, how often the model has it, its buffers, and candidates, the heuristic's choice first.

    reference   the candidate whose results the others must have
    ns   nanoseconds of the heuristic's choice; 0: not measured yet
    """

    signature: str
    count: int
    buffers: dict[str, Buffer]
    candidates: list[Candidate]
    reference: int = 0
    ns: float = 0.0

    def scheduled(self, schedule: Schedule) -> Candidate:
        """Of a kernel's task, the candidate with this schedule."""
        first, (call,) = self.candidates[0].choice["schedule"], self.candidates[0].calls
        tolerance = 0.0 if same_bits(first, schedule) else TOLERANCE
        return Candidate({"schedule": dict(schedule)}, (call.with_schedule(schedule),), tolerance)

    @property
    def what(self) -> str:
        """What is chosen: "schedule", "algorithm", "fusion" or "turns"."""
        return next(iter(self.candidates[0].choice))

    @property
    def problem(self) -> tuple[str, str]:
        """Signature and what is chosen: one kernel's schedule is another problem than where it ends."""
        return self.signature, self.what

    @property
    def weight(self) -> float:
        """Nanoseconds of a run of the model that go into this problem."""
        return self.count * self.ns
