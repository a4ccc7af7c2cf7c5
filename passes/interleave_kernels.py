"""kernels -> kernels: kernels that follow each other take turns where what is between them leaves the cache.

Before:  %1 = "kernel.call"(%x, %w) {callee = @expand, …}                112×112×96: 4.8 MB, to L3 and back
         %2 = "kernel.call"(%1, %v) {callee = @depthwise, …}
After:   %s = "kernel.scratch"() : tensor<327936xui8>                     a thread's room
         %2 = "kernel.bands"(%s, %x, %w, %v) ({^bb0(%a0, %a1, %a2):
           %3 = "kernel.call"(%a0, %a1) {callee = @expand, …}
           %4 = "kernel.call"(%3, %a2) {callee = @depthwise, …}; "kernel.yield"(%4) }) {plan = array<i64: …>, …}
The kernels are the same functions as before, called with parts of their extents: a band of the last one's result at a
time, and before it what it reads. Rows stay as long as they are still to be read, so no memory is planned for the rest.
Bits are the same, since a kernel's extent may be split anywhere. `plan` is what the stub reads (onnxc_bands in
runtime_stub/entry.h); kernels that take turns get shorter units where their kind says that nothing is lost by it.
Keeps:   kernels and their schedules.      Leaves: chains of calls as `kernel.bands`, where sizes are known.

Which calls: each reads the result of the one before by windows over rows (kernels/row_order.py), nothing else does, and
that result is larger than half of L2. What a thread keeps must fit in the other half, beside all weights.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from onnxc.dialects.levels import KERNELS
from onnxc.dialects.onnx import is_constant
from onnxc.dialects.types import Tensor
from onnxc.passes.band_plan import ALIGNMENT, BandPlan, band_plan
from onnxc.passes.choose_schedules import set_schedule
from onnxc.passes.contract import Program, transforms
from onnxc.passes.kernel_calls import callee_of, kernel_calls, nodes_of
from onnxc.passes.kernels.kernel_function import KernelFunction, launch_of
from onnxc.passes.kernels.kinds import KINDS
from onnxc.passes.kernels.row_order import RowOrder
from onnxc.passes.kernels.scalars import byte_width
from onnxc.passes.overrides import APART, asked, overrides
from onnxc.passes.rewriting import move_into

LARGE = 2  # what takes more than this part of L2 is read from L3: it was followed there by what else was written
ROOM = 2  # the part of L2 that a thread's buffers and all weights may take
WORD = 8


@dataclass(frozen=True)
class Turn:
    """A call that may take turns with others: its kernel's order, time in picoseconds, and how wide its pixels are."""

    call: ir.Operation
    order: RowOrder
    picoseconds: int
    width: int

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


@transforms(KERNELS, KERNELS)
def interleave_kernels(program: Program) -> None:
    """See the file's docstring."""
    target = program.options.target
    kernels = {ir.StringAttr(f.attributes["sym_name"]).value: KernelFunction.of(f)
               for f in program.module.body.operations if "kernel.kind" in f.attributes}  # fmt: skip
    turns = _turns(program, kernels)
    links = [turn for turn in turns.values() if _linked(turns, turn, target.l2_bytes)]
    long = {callee_of(turns[turn.x].call) for turn in links} | {callee_of(turn.call) for turn in links}
    for symbol in sorted(long):
        _shorten(program, kernels[symbol])
    turns = _turns(program, kernels)
    for chain, plan in _chains(turns, target.l2_bytes):
        names = ", ".join(callee_of(turn.call) for turn in chain)
        program.log.append(
            ("interleave_kernels", f"{names} in {len(plan.steps)} bands, {sum(plan.buffers)} bytes a thread")
        )
        _interleave(chain, plan)


def _turns(program: Program, kernels: dict[str, KernelFunction]) -> dict[ir.Value, Turn]:
    """By their results the calls of main that may take turns, in order."""
    taken = {symbol: _turn_taker(kernel) for symbol, kernel in kernels.items()}
    calls = [call for call in kernel_calls(program.module) if not _apart(program, call)]
    return {call.results[0]: Turn(call, *found) for call in calls if (found := taken[callee_of(call)]) is not None}


def _apart(program: Program, call: ir.Operation) -> bool:
    """Whether the user wants one of its nodes to be computed by itself."""
    wanted = [asked(program, node, "fusion") for node in nodes_of(call)] if overrides(program) else []
    return any(override is not None and override.fusion == APART for override in wanted)


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


def _shorten(program: Program, kernel: KernelFunction) -> None:
    """Gives a kernel shorter units, if nobody asked for others and its kind knows some."""
    kind, symbol = KINDS[kernel.kind], ir.StringAttr(kernel.func.attributes["sym_name"]).value
    asked = program.notes.get("choices", {}).get(symbol) != "heuristic"
    schedule = None if asked or not hasattr(kind, "finer") else kind.finer(kernel, program.options.target)
    if schedule is not None:
        set_schedule(kernel, kind, schedule)


def _chains(turns: dict[ir.Value, Turn], l2: int) -> list[tuple[list[Turn], BandPlan]]:
    """Chains of calls, as long as they may be, with their plans."""
    found: list[tuple[list[Turn], BandPlan]] = []
    of_last: dict[ir.Value, tuple[list[Turn], BandPlan | None]] = {}
    for result, turn in turns.items():
        x = turn.x
        before, _ = of_last.pop(x, ([], None)) if _linked(turns, turn, l2) else ([], None)
        plan = _plan([*before, turn], l2) if before else None
        if before and plan is None:
            of_last[x] = (before, _plan(before, l2) if len(before) > 1 else None)
            before = []
        of_last[result] = ([*before, turn], plan)
    found += [(chain, plan) for chain, plan in of_last.values() if plan is not None]
    return found


def _linked(turns: dict[ir.Value, Turn], turn: Turn, l2: int) -> bool:
    """Whether `turn` alone reads what one of the calls makes, once, and that is too large to wait in L2."""
    before = turns.get(turn.x)
    if before is None or before.call.block != turn.call.block or before.bytes <= l2 // LARGE:
        return False
    uses = list(turn.x.uses)
    return len(uses) == 1 and before.order.bounds[-1] == turn.order.images * turn.order.height * turn.order.width


def _plan(chain: list[Turn], l2: int) -> BandPlan | None:
    room = l2 // ROOM - sum(turn.constants for turn in chain)
    return band_plan([turn.order for turn in chain], [turn.width for turn in chain[:-1]], room)


def _interleave(chain: list[Turn], plan: BandPlan) -> None:
    """Moves the calls into a `kernel.bands` at the last one's place."""
    calls = [turn.call for turn in chain]
    last = calls[-1]
    made = {r for call in calls for r in call.results}
    outside = list(dict.fromkeys(v for call in calls for v in call.operands if v not in made))
    words, bytes_ = _words(chain, plan)
    scratch_type = Tensor("ui8", (bytes_,)).type(last.context)
    ip = ir.InsertionPoint(last)
    scratch = ir.Operation.create("kernel.scratch", results=[scratch_type], loc=last.location, ip=ip)
    bands = ir.Operation.create(
        "kernel.bands",
        results=[r.type for r in last.results],
        operands=[scratch.results[0], *outside],
        attributes={"plan": ir.DenseI64ArrayAttr.get(words)},
        regions=1,
        loc=last.location,
        ip=ip,
    )
    move_into(bands, calls, outside)


def _words(chain: list[Turn], plan: BandPlan) -> tuple[list[int], int]:
    """The plan as the stub reads it, and the bytes of a thread's room."""
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
