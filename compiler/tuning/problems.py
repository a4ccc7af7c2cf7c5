"""This file makes the tasks of a model: one for each distinct convolution or attention, one for each distinct kernel.

The candidates of a convolution, or attention, are the algorithms that can do it (passes/algorithms.py), each with all
its kernels at the heuristic's schedules; a kernel's are what its kind proposes (`candidates`), in the order of its cost
model.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

from mlir import ir

from onnxc.options import Options
from onnxc.passes.algorithms import ATTRIBUTE, FUSED, applicable, choosing
from onnxc.passes.contract import Program
from onnxc.passes.kernel_calls import callee_of, nodes_of
from onnxc.passes.kernels.kernel_function import KernelFunction
from onnxc.passes.kernels.kinds import KINDS
from onnxc.passes.kernels.schedule_rules import refusal, same_bits
from onnxc.passes.overrides import asked, marked
from onnxc.passes.signatures import kernel_signature, operator_signature
from onnxc.progress import SILENT, Progress
from onnxc.tuning.extraction import Chain, Lowered, UnknownSize, lower
from onnxc.tuning.tasks import TOLERANCE, Candidate, Task


def kernel_tasks(lowered: Lowered, among: Collection[str] | None = None) -> list[Task]:
    """A task for each distinct kernel that has a choice, and whose sizes are known; `among`: only of those texts."""
    tasks: dict[str, Task] = {}
    with lowered.program.context:
        for name, function in lowered.functions.items():
            kernel = KernelFunction.of(function)
            calls = [op for op in lowered.calls if op.name == "kernel.call" and callee_of(op) == name]
            propose = getattr(KINDS[kernel.kind], "candidates", None)
            if propose is None or not calls or (among is not None and str(function) not in among):
                continue
            target = lowered.program.options.target
            first, *others = [s for s in propose(kernel, target) if refusal(kernel, s, target) is None]
            others = [s for s in others if not lowered.program.options.strict or same_bits(first, s)]
            signature = kernel_signature(kernel)
            if signature in tasks:
                tasks[signature].count += len(calls)
            elif others and (chain := _chain(lowered, calls[:1])) is not None:
                (call,) = chain.calls
                heuristic = Candidate({"schedule": dict(first)}, (call.with_schedule(first),))
                task = tasks[signature] = Task(signature, len(calls), chain.buffers, [heuristic])
                task.candidates += [task.scheduled(schedule) for schedule in others]
    return list(tasks.values())


def _chain(lowered: Lowered, ops: Iterable[ir.Operation], prefix: str = "") -> Chain | None:
    try:
        return Chain(lowered, ops, prefix)
    except UnknownSize:
        return None


class Algorithms:
    """Convolutions and attention of a model, each marked by a location of its own that stays with all it becomes.

    `among`: the only signatures that matter, with the algorithms that do."""

    def __init__(
        self, model: Path, options: Options, progress: Progress = SILENT,
        among: Mapping[str, Collection[str]] | None = None,
    ) -> None:  # fmt: skip
        self.model, self.options, self.among = model, options, among
        self.signatures: dict[str, str] = {}  # mark → signature
        self.algorithms: dict[str, tuple[str, ...]] = {}  # signature → those that can do it
        self.plain = lower(model, options, self._mark, progress)
        names = sorted({name for can in self.algorithms.values() for name in can})
        self.variants = {
            name: self.plain if name == FUSED else lower(model, options, lambda p, n=name: self._mark(p, n), progress)
            for name in names  # no heuristic takes attention apart
        }

    def _mark(self, program: Program, algorithm: str = "") -> None:
        target, strict = program.options.target, self.options.strict
        for number, op in enumerate(choosing(program.module)):
            if asked(program, op.node, "algorithm") or asked(program, op.node, "plain"):
                continue  # the user has chosen
            mark, signature = marked(op.node, number), operator_signature(op)
            op.op.location = ir.Location.name(mark)
            can = self.algorithms.get(signature) or self._matter(signature, applicable(op, target, strict))
            self.algorithms[signature], self.signatures[mark] = can, signature
            if algorithm in can:
                op.op.attributes[ATTRIBUTE] = ir.StringAttr.get(algorithm)

    def _matter(self, signature: str, can: tuple[str, ...]) -> tuple[str, ...]:
        if self.among is None:
            return can
        return tuple(name for name in can if name == can[0] or name in self.among.get(signature, ()))

    def tasks(self) -> list[Task]:
        """A task for each distinct operator that several algorithms can do."""
        marks: dict[str, list[str]] = {}
        for mark, signature in self.signatures.items():
            if len(self.algorithms[signature]) > 1:
                marks.setdefault(signature, []).append(mark)
        found = [self._task(signature, own) for signature, own in marks.items()]
        return [task for task in found if task is not None]

    def _task(self, signature: str, marks: list[str]) -> Task | None:
        names = self.algorithms[signature]
        nodes = self._fused_with(marks[0], names)
        chains = {name: self._calls_of(self.variants[name], nodes, f"{name} ") for name in names}
        plain = self._calls_of(self.plain, nodes, "")
        if plain is None or chains[names[0]] is None:
            return None
        default = next((n for n, c in chains.items() if c is not None and _same(c, plain)), None)
        if default is None:
            return None
        order = [default, *(name for name in names if name != default)]
        able = [(name, chain) for name in order if (chain := chains[name]) is not None and _fits(chain, plain)]
        tolerance = 0.0 if self.options.strict else TOLERANCE
        candidates = [Candidate({"algorithm": name}, chain.calls, tolerance) for name, chain in able]
        buffers = {name: buffer for _, chain in able for name, buffer in chain.buffers.items()}
        reference = [name for name, _ in able].index(names[0])
        return Task(signature, len(marks), buffers, candidates, reference) if len(able) > 1 else None

    def _fused_with(self, mark: str, names: Iterable[str]) -> set[str]:
        """The nodes that some algorithm's kernels compute together with the operator."""
        nodes = {mark}
        while True:
            wider = set(nodes)
            for lowered in (self.plain, *(self.variants[name] for name in names)):
                with lowered.program.context:
                    wider.update(n for op in lowered.calls for n in _nodes(op) if nodes & _nodes(op))
            if wider == nodes or any(node in self.signatures for node in wider - {mark}):
                return nodes if wider == nodes else {mark}
            nodes = wider

    def _calls_of(self, lowered: Lowered, nodes: set[str], prefix: str) -> Chain | None:
        with lowered.program.context:
            calls = [op for op in lowered.calls if op.name == "kernel.call" and nodes & _nodes(op)]
            if any(node in self.signatures and node not in nodes for op in calls for node in _nodes(op)):
                return None  # computed together with another such operator
            used = {v for op in calls for v in op.operands}
            scratch = [op for op in lowered.calls if op.name == "kernel.scratch" and op.results[0] in used]
            return _chain(lowered, [*scratch, *calls], prefix) if calls else None


def _nodes(op: ir.Operation) -> set[str]:
    return set(nodes_of(op)) if op.name == "kernel.call" else set()


def _same(one: Chain, other: Chain) -> bool:
    """Whether they are the same kernels; that one was asked for by name, which its hash tells, does not matter."""
    asked = re.compile(rf'@k_\w+|\b{ATTRIBUTE} = "\w+"(, )?')
    texts = [[(asked.sub("", call.text), call.values) for call in chain.calls] for chain in (one, other)]
    return texts[0] == texts[1]


def _fits(chain: Chain, plain: Chain) -> bool:
    """Whether it reads and writes what the plain one does."""

    def ends(c: Chain) -> dict:
        return {n: replace(b, content=None) for n, b in c.buffers.items() if b.role in ("input", "output")}

    return ends(chain) == ends(plain)
