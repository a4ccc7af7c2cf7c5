"""This file makes one task of a whole model, untuned and tuned, for devices that only run programs of candidates.

Its candidates are all calls of main in order, with the same weights and turns as in the artefact; what is between calls
lies in buffers of its own instead of the workspace, on both sides alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mlir import ir

from onnxc.passes.interleave_kernels import groups_that_take_turns
from onnxc.passes.kernel_calls import callee_of
from onnxc.passes.row_turns import Chain as Turns
from onnxc.passes.row_turns import plan_words
from onnxc.tuning.extraction import Chain, Lowered, UnknownSize
from onnxc.tuning.tasks import Buffer, Candidate, Task
from onnxc.tuning.turns import shortened
from onnxc.tuning.whole_model import Comparison

TOLERANCE = 1e-3  # of the outputs' scale, through all layers
NAME = "the whole model"


def whole_task(untuned: Lowered, tuned: Lowered) -> Task | None:
    """The task; None where calls depend on values, or sizes are not known."""
    sides = {"untuned": untuned, "tuned": tuned}
    candidates, buffers = [], []
    for name, lowered in sides.items():
        with lowered.program.context:
            side = _side(lowered, name)
        if side is None:
            return None
        candidates.append(side[0])
        buffers.append(side[1])
    ends = [{n: (b.size, b.dtype) for n, b in own.items() if b.role in ("input", "output")} for own in buffers]
    return Task(NAME, 1, {**buffers[0], **buffers[1]}, candidates) if ends[0] == ends[1] else None


def _side(lowered: Lowered, name: str) -> tuple[Candidate, Mapping[str, Buffer]] | None:
    """All calls of one side, those that take turns together."""
    program = lowered.program
    if any(op.operation.parent.operation.name != "func.func" for op in lowered.calls):
        return None
    with shortened(program) as (kernels, alone):
        groups = groups_that_take_turns(program, kernels)
        taking = {turn.call: group for group, _ in groups for turn in group}
        ordered = _ordered(lowered.calls, taking)
        try:
            chain = Chain(lowered, ordered, f"{name} ")
        except UnknownSize:
            return None
    ops = [op for op in ordered if op.name == "kernel.call"]
    calls = tuple(
        call if op in taking else replace(call, text=alone[callee_of(op)])
        for op, call in zip(ops, chain.calls, strict=True)
    )
    turns = {ops.index(group[0].call): tuple(plan_words(group, plan)[0]) for group, plan in groups}
    return Candidate({"model": name}, calls, TOLERANCE, turns), chain.buffers


def _ordered(calls: Sequence[ir.Operation], taking: Mapping[ir.Operation, Turns]) -> list[ir.Operation]:
    """The calls, those that take turns where the last of them stands."""
    ordered: list[ir.Operation] = []
    for op in calls:
        group = taking.get(op)
        if group is None:
            ordered.append(op)
        elif op == group[-1].call:
            ordered += [turn.call for turn in group]
    return ordered


def comparison_of(result: Mapping[str, Any]) -> Comparison | None:
    """What the device says of the task; None where it could not run both."""
    told: Sequence[Mapping[str, Any]] = result.get("candidates", ())
    if "error" in result or len(told) != 2 or "ratio" not in told[1]:
        return None
    own, half = told[1], told[1]["spread"] / 2
    return Comparison(own["ns"] / 1e9, own["other_ns"] / 1e9, own["ratio"] - half, own["ratio"], own["ratio"] + half)
