"""This file makes the tasks of who takes turns by rows: a chain of kernels as the heuristic has it, and fallen apart.

Each chain that passes/interleave_kernels.py would make is one problem, measured with the schedules that its kernels
have: shorter units where they take turns, their own where not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain as joined
from itertools import combinations, islice

from onnxc.passes.contract import Program
from onnxc.passes.kernel_calls import callee_of
from onnxc.passes.kernels.kernel_function import KernelFunction, kernels_of
from onnxc.passes.row_turns import (
    Chain,
    chain_signature,
    chains_of,
    groups_of,
    plan_words,
    restore,
    shorten,
    usual_cuts,
)
from onnxc.passes.signatures import kernel_signature
from onnxc.tuning import extraction
from onnxc.tuning.extraction import Lowered
from onnxc.tuning.tasks import Call, Candidate, Task

MOST = 7  # ways in which a chain may fall apart that are tried: all of four kernels


def turn_tasks(lowered: Lowered) -> list[Task]:
    """A task for each distinct chain of kernels that take turns; none with objective memory, where all that can do."""
    program, tasks = lowered.program, {}
    if program.options.objective == "memory":
        return []
    with program.context, shortened(program) as (kernels, alone):
        for chain in chains_of(program, kernels):
            signature = _signature(chain, kernels)
            if signature in tasks:
                tasks[signature].count += 1
            else:
                tasks[signature] = _task(lowered, chain, signature, alone)
    return list(tasks.values())


@contextmanager
def shortened(program: Program) -> Iterator[tuple[Mapping[str, KernelFunction], Mapping[str, str]]]:
    """The kernels, meanwhile with units as short as turns want them, and by symbol their texts as they are without."""
    kernels = kernels_of(program.module)
    alone = {symbol: str(kernel.func) for symbol, kernel in kernels.items()}
    before = shorten(program, kernels)
    try:
        yield kernels, alone
    finally:
        restore(kernels, before)


def _signature(chain: Chain, kernels: Mapping[str, KernelFunction]) -> str:
    return chain_signature([kernel_signature(kernels[callee_of(turn.call)]) for turn in chain])


def _task(lowered: Lowered, chain: Chain, signature: str, alone: Mapping[str, str]) -> Task:
    calls = extraction.Chain(lowered, [turn.call for turn in chain])
    target = lowered.program.options.target
    usual, others = usual_cuts(chain, target), ((), *islice(_ways(len(chain)), MOST))
    ways = [usual, *(after for after in others if after != usual)]
    candidates = [_candidate(chain, calls.calls, after, target.l2_bytes, alone) for after in ways]
    return Task(signature, 1, dict(calls.buffers), candidates)


def _ways(length: int) -> Iterator[tuple[int, ...]]:
    """The calls after which a chain may fall apart: each by itself first, then the fewest cuts."""
    places = range(length - 1)
    counts = dict.fromkeys((length - 1, *range(1, length - 1)))
    return joined.from_iterable(combinations(places, count) for count in counts)


def _candidate(
    chain: Chain, calls: Sequence[Call], after: Sequence[int], l2: int, alone: Mapping[str, str]
) -> Candidate:
    """The chain's calls, those that are left alone as they are without turns."""
    made, plans = list(calls), {}
    at = 0
    for group, plan in groups_of(chain, after, l2):
        if plan is not None:
            plans[at] = tuple(plan_words(group, plan)[0])
        else:
            for i, turn in enumerate(group, at):
                made[i] = replace(calls[i], text=alone[callee_of(turn.call)])
        at += len(group)
    return Candidate({"turns": list(after)}, tuple(made), turns=plans)
