"""Which calls of main may take turns by rows (interleave_kernels.py), in which chains, and by which plan.

A chain: each call reads the result of the one before by windows over rows (kernels/row_order.py), nothing else does,
and that result is larger than half of L2. What a thread keeps must fit in the other half, beside all weights.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from mlir import ir

from onnxc.dialects.onnx import is_constant
from onnxc.dialects.types import Tensor
from onnxc.passes.band_plan import ALIGNMENT, BandPlan, band_plan
from onnxc.passes.choose_schedules import Schedule, set_schedule
from onnxc.passes.contract import Program
from onnxc.passes.kernel_calls import callee_of, kernel_calls, nodes_of
from onnxc.passes.kernels.kernel_function import KernelFunction, launch_of
from onnxc.passes.kernels.kinds import KINDS
from onnxc.passes.kernels.row_order import RowOrder
from onnxc.passes.kernels.scalars import byte_width
from onnxc.passes.overrides import ALWAYS, APART, NEVER, asked, overrides

LARGE = 2  # what takes more than this part of L2 is read from L3: it was followed there by what else was written
ROOM = 2  # the part of L2 that a thread's buffers and all weights may take
ROOM_OF_MORE = 8  # of three kernels and more, where L3 is near (`usual_cuts`)
WORD = 8


@dataclass(frozen=True)
class Turn:
    """A call that may take turns with others: its kernel's order, time in picoseconds, and how wide its pixels are.

    wanted   whether the user wants it to, however small what is between"""

    call: ir.Operation
    order: RowOrder
    picoseconds: int
    width: int
    wanted: bool = False

    @property
    def x(self) -> ir.Value:
        """What it reads by windows."""
        return self.call.operands[self.order.operand]

    @property
    def bytes(self) -> int:
        """Of the result."""
        return self.order.bounds[-1] * self.width

    @property
    def constants(self) -> int:
        """Bytes of the weights."""
        tensors = [Tensor.of(v.type) for v in self.call.operands if is_constant(v)]
        return sum(t.numel * byte_width(t.elem) for t in tensors)

    @property
    def words(self) -> int:
        """The kernel's function and arguments."""
        return 1 + len(self.call.operands) + len(self.call.results)


Turns = Mapping[ir.Value, Turn]
Chain = Sequence[Turn]


def shorten(program: Program, kernels: Mapping[str, KernelFunction]) -> dict[str, Schedule]:
    """Gives kernels that may take turns shorter units, where the user asked for no others and their kind knows some.

    The schedules that they had before, by their symbols."""
    turns = _turns_of(program, kernels)
    links = [turn for turn in turns.values() if _linked(turns, turn, program.options.target.l2_bytes)]
    linked = {callee_of(turns[turn.x].call) for turn in links} | {callee_of(turn.call) for turn in links}
    before: dict[str, Schedule] = {}
    for symbol in sorted(linked):
        kernel, kind = kernels[symbol], KINDS[kernels[symbol].kind]
        asked_for = program.notes.get("choices", {}).get(symbol) == "override"
        schedule = None if asked_for or not hasattr(kind, "finer") else kind.finer(kernel, program.options.target)
        if schedule is not None:
            before[symbol] = kernel.schedule
            set_schedule(kernel, kind, schedule)
    return before


def restore(kernels: Mapping[str, KernelFunction], before: Mapping[str, Schedule]) -> None:
    """Undoes `shorten` for some kernels."""
    for symbol, schedule in before.items():
        set_schedule(kernels[symbol], KINDS[kernels[symbol].kind], schedule)


def _turns_of(program: Program, kernels: Mapping[str, KernelFunction]) -> dict[ir.Value, Turn]:
    """By their results the calls of main that may take turns, in order."""
    taken = {symbol: _turn_taker(kernel) for symbol, kernel in kernels.items()}
    found: dict[ir.Value, Turn] = {}
    for call in kernel_calls(program.module):
        known, wishes = taken[callee_of(call)], _wishes(program, call)
        if known is not None and wishes.isdisjoint((NEVER, APART)):
            found[call.results[0]] = Turn(call, *known, ALWAYS in wishes)
    return found


def _wishes(program: Program, call: ir.Operation) -> set[str | None]:
    """What the user wants of its nodes."""
    nodes = nodes_of(call) if overrides(program) else []
    wanted = [(what, asked(program, node, what)) for node in nodes for what in ("fusion", "turns")]
    return {getattr(override, what) for what, override in wanted if override is not None}


def _turn_taker(kernel: KernelFunction) -> tuple[RowOrder, int, int] | None:
    """(order, picoseconds, bytes of a pixel of the result) of a kernel that may take turns."""
    kind, launch = KINDS[kernel.kind], launch_of(kernel.func)
    if not hasattr(kind, "order") or kernel.failures or len(kernel.results) != 1 or kernel.symbols:
        return None
    order = kind.order(kernel)
    if order is None or launch.round is not None:
        return None
    result = Tensor.of(kernel.results[0].type)
    return order, launch.extent * launch.picoseconds, result.shape[-1] * byte_width(result.elem)


def chains_of(program: Program, kernels: Mapping[str, KernelFunction]) -> list[Chain]:
    """Chains of calls, as long as they may be."""
    turns, l2 = _turns_of(program, kernels), program.options.target.l2_bytes
    found: list[Chain] = []
    of_last: dict[ir.Value, Chain] = {}
    for result, turn in turns.items():
        before = of_last.pop(turn.x, ()) if _linked(turns, turn, l2) else ()
        if before and _plan_of([*before, turn], l2) is None:
            found, before = [*found, before], ()
        of_last[result] = [*before, turn]
    return [chain for chain in [*found, *of_last.values()] if len(chain) > 1]


def _linked(turns: Turns, turn: Turn, l2: int) -> bool:
    """Whether `turn` alone reads what one of the calls makes, once, and that is too large to wait in L2."""
    before = turns.get(turn.x)
    if before is None or before.call.block != turn.call.block:
        return False
    if before.bytes <= l2 // LARGE and not (before.wanted or turn.wanted):
        return False
    uses = list(turn.x.uses)
    return len(uses) == 1 and before.order.bounds[-1] == turn.order.images * turn.order.height * turn.order.width


def chain_signature(signatures: Sequence[str]) -> str:
    """The signature of a chain of kernels with these signatures."""
    return f"turns({' | '.join(signatures)})"


def groups_of(chain: Chain, after: Sequence[int], l2: int) -> list[tuple[Chain, BandPlan | None]]:
    """What is left of a chain that falls apart after the calls of these numbers; without a plan, calls are alone."""
    ends = [0, *(number + 1 for number in after), len(chain)]
    groups = [chain[begin:end] for begin, end in pairwise(ends)]
    return [(group, _plan_of(group, l2) if len(group) > 1 else None) for group in groups]


def usual_cuts(chain: Chain, target: Any) -> tuple[int, ...]:
    """The calls after which a chain falls apart where nothing has been measured.

    A core with L3 near has what lies there soon enough, and gains by long chains only where little waits in L2: on
    Zen 4 (1 MB), with the first kernel apart, an inverted residual of 24 and 144 channels over 56² takes 0.93 of the
    time, a face detector 0.91, mobilenetv2 0.99; on Zen 3 (0.5 MB) mobilenetv2 0.93.
    """
    if not target.core.near_l3 or any(turn.wanted for turn in chain):
        return ()
    first = 0
    while len(chain) - first > 2 and _plan_of(chain[first:], target.l2_bytes, ROOM_OF_MORE) is None:
        first += 1
    return tuple(range(first))


def _plan_of(chain: Chain, l2: int, part: int = ROOM) -> BandPlan | None:
    """None where what a thread keeps between its kernels, and their weights, would take more than this part of L2."""
    room = l2 // part - sum(turn.constants for turn in chain)
    return band_plan([turn.order for turn in chain], [turn.width for turn in chain[:-1]], room)


def plan_words(chain: Chain, plan: BandPlan) -> tuple[list[int], int]:
    """The plan as the stub reads it (onnxc_bands in runtime_stub/entry.h), and the bytes of a thread's room."""
    first = [sum(turn.words for turn in chain[:i]) for i in range(len(chain) + 1)]
    at = -(-first[-1] * WORD // ALIGNMENT) * ALIGNMENT
    kernels: list[int] = []
    for i, turn in enumerate(chain):
        result = operand = 0
        if i < len(plan.buffers):
            result = first[i] + 1 + len(turn.call.operands)
            operand = first[i + 1] + 1 + chain[i + 1].order.operand
        kernels += [first[i], result, operand, at]
        at += plan.buffers[i] if i < len(plan.buffers) else 0
    picoseconds = sum(turn.picoseconds for turn in chain) // len(plan.steps)
    steps = [n for band in plan.steps for s in band for n in (s.fresh, s.end, s.base, s.top)]
    return [len(plan.steps), len(chain), first[-1], at, picoseconds, *kernels, *steps], at
