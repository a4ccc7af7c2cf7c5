"""kernels -> kernels: with the objective memory, calls in an order in which less is in use at once.

Before:  %1 = call(%x)  %2 = call(%x)  %3 = call(%1)  %4 = call(%2)       : %1, %2 large, %3, %4 small
After:   %1 = call(%x)  %3 = call(%1)  %2 = call(%x)  %4 = call(%2)
Two orders are tried: of the calls whose operands are there, that which adds least to what is in use; and each result
with all that it needs before the next one is begun. The model's own stays where neither lowers the peak. Scratch comes
right before the call that uses it. Sizes that only a run tells are compared as if their dims were 128. Only main itself
is ordered, and nothing across control flow.
Keeps:   every op; results do not depend on the order.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mlir import ir

from onnxc.dialects import dims
from onnxc.dialects.levels import KERNELS
from onnxc.dialects.types import Tensor
from onnxc.passes.contract import Program, transforms
from onnxc.passes.kernels.scalars import byte_width
from onnxc.passes.rewriting import main_function

MOVABLE = frozenset({"kernel.call", "kernel.bands", "kernel.scratch", "kernel.view", "kernel.join"})
PLACELESS = ("onnx.Constant", "onnx.None")
USUAL = 128  # what a dim that only a run tells is taken for


@transforms(KERNELS, KERNELS)
def order_for_memory(program: Program) -> None:
    """See the file's docstring."""
    if program.options.objective != "memory":
        return
    main = main_function(program.module)
    run: list[ir.Operation] = []
    for op in [view.operation for view in main.regions[0].blocks[0].operations]:
        if op.name in MOVABLE:
            run.append(op)
        elif op.name not in PLACELESS:
            _order(program, run, op)
            run = []


def _order(program: Program, ops: list[ir.Operation], end: ir.Operation) -> None:
    """Orders calls that follow each other without control flow before `end`."""
    steps = _steps(ops)
    found = min(_scheduled(steps), _depth_first(steps), key=_peak)
    before, after = _peak(steps), _peak(found)
    if after >= before:
        return
    owners = [v.owner for s in steps for o in s.ops for v in o.operands if not isinstance(v.owner, ir.Block)]
    constants = {owner.operation for owner in owners}
    for constant in sorted((c for c in constants if c.name in PLACELESS), key=lambda c: str(c.results[0])):
        if constant.block == end.block:
            constant.move_before(ops[0])
    for step in found:
        for op in step.ops:
            op.move_before(end)
    program.log.append(("order_for_memory", f"{before} bytes in use at once, {after} in another order"))


@dataclass(eq=False)
class _Step:
    """A call with its scratch, or another op: what it needs, what it brings into use, and its scratch's bytes."""

    number: int
    ops: list[ir.Operation]
    needs: set[_Step] = field(default_factory=set)
    reads: set[_Tensor] = field(default_factory=set)
    makes: set[_Tensor] = field(default_factory=set)
    scratch: int = 0

    @property
    def made(self) -> int:
        return sum(tensor.size for tensor in self.makes)


@dataclass(eq=False)
class _Tensor:
    """Memory that steps make and read; `stays`: others read it as well, so it is in use to the end."""

    size: int
    readers: set[_Step] = field(default_factory=set)
    stays: bool = False


def _steps(ops: list[ir.Operation]) -> list[_Step]:
    steps: list[_Step] = []
    maker: dict[ir.Value, _Step] = {}
    tensors = _tensors(ops)
    scratch = {op.results[0]: op for op in ops if op.name == "kernel.scratch"}
    inside = {r for op in ops for r in op.results}
    for op in (op for op in ops if op.name != "kernel.scratch"):
        own = [scratch.pop(v) for v in op.operands if v in scratch]
        step = _Step(len(steps), [*own, op], scratch=sum(_bytes(s.results[0]) for s in own))
        steps.append(step)
        for v in op.operands:
            if v in maker:
                step.needs.add(maker[v])
            if v in tensors:
                step.reads.add(tensors[v])
                tensors[v].readers.add(step)
        for r in op.results:
            maker[r] = step
            if r in tensors:
                step.makes.add(tensors[r])
    for v, tensor in tensors.items():
        tensor.stays = tensor.stays or any(
            not (len(u.results) and u.results[0] in inside) for u in (use.owner.operation for use in v.uses)
        )
    return steps


def _tensors(ops: list[ir.Operation]) -> dict[ir.Value, _Tensor]:
    """What each value lies in: views in what they view, parts of a joined tensor in that."""
    found: dict[ir.Value, _Tensor] = {}
    for op in ops:
        if op.name == "kernel.join":
            found.update(dict.fromkeys([*op.operands, op.results[0]], _Tensor(_bytes(op.results[0]))))
    for op in ops:
        if op.name == "kernel.view":
            if op.operands[0] in found:
                found[op.results[0]] = found[op.operands[0]]
        elif op.name in ("kernel.call", "kernel.bands"):
            for r in op.results:
                found.setdefault(r, _Tensor(_bytes(r)))
    return found


def _bytes(v: ir.Value) -> int:
    tensor = Tensor.of(v.type)
    size = dims.evaluate(tensor.numel, dict.fromkeys(dims.symbols(tensor.numel), USUAL))
    return max(0, size) * byte_width(tensor.elem)


class _Use:
    """What is in use after some steps."""

    def __init__(self) -> None:
        self.bytes = self.peak = 0
        self.done: set[_Step] = set()
        self.live: set[_Tensor] = set()

    def change(self, step: _Step) -> tuple[int, int]:
        """Bytes that are more in use after a step, and while it runs."""
        new = sum(t.size for t in step.makes if t not in self.live)
        freed = sum(t.size for t in step.reads if not t.stays and t.readers <= self.done | {step})
        return new - freed, new + step.scratch

    def take(self, step: _Step) -> None:
        change, more = self.change(step)
        self.peak = max(self.peak, self.bytes + more)
        self.bytes += change
        self.live |= step.makes
        self.done.add(step)


def _peak(order: list[_Step]) -> int:
    use = _Use()
    for step in order:
        use.take(step)
    return use.peak


def _depth_first(steps: list[_Step]) -> list[_Step]:
    """Whatever nobody waits for, in turn, each after all that it needs, what is small and waits the longest first."""
    needed = {need for step in steps for need in step.needs}
    order: list[_Step] = []
    done: set[_Step] = set()
    for last in (step for step in steps if step not in needed):
        pending = [last]
        while pending:
            step = pending[-1]
            waiting = sorted((s for s in step.needs if s not in done), key=lambda s: (-s.made, -s.number))
            if waiting and step not in done:
                pending += waiting
                continue
            pending.pop()
            if step not in done:
                done.add(step)
                order.append(step)
    return order


def _scheduled(steps: list[_Step]) -> list[_Step]:
    """In each turn, of the steps whose operands are there, the one that adds least; the earlier of equal ones."""
    use, order = _Use(), []
    followers: dict[_Step, list[_Step]] = {step: [] for step in steps}
    missing = {step: len(step.needs) for step in steps}
    for step in steps:
        for needed in step.needs:
            followers[needed].append(step)
    ready = [step for step in steps if not missing[step]]
    while ready:
        best = min(ready, key=lambda s: (*use.change(s), s.number))
        use.take(best)
        order.append(best)
        ready.remove(best)
        for follower in followers[best]:
            missing[follower] -= 1
            if not missing[follower]:
                ready.append(follower)
    return order
