"""kernels -> kernels: every kernel gets its schedule and its launch.

Before:  func.func private @k(…) attributes {kernel.kind = "matmul", …}
After:   … {kernel.kind = "matmul", kernel.schedule = {mr = 6, …}, kernel.extent = "d0*8", kernel.picoseconds = "…"}
The schedule is what tuning has found for the kernel's signature (`options.choices`), else what the kind's heuristic
chooses for the shapes and the target; entries in the attribute `schedule` of the kernel's root are laid over either.
Threads may divide the extent, a unit of which takes about that many picoseconds (and `kernel.round`: of which so many
units are independent). `notes["choices"]`: kernel → heuristic, record or override; `notes["signatures"]`: kernel →
signature, where there is anybody to ask. Where the model's weights are too many to stay in caches from run to run,
kernels that have some are marked `kernel.streams_weights` before.
Keeps: everything else.      Leaves: no attribute `schedule` on an op.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType

from mlir import ir

from onnxc.dialects.errors import OnnxcError
from onnxc.dialects.levels import KERNELS
from onnxc.dialects.onnx import is_constant
from onnxc.dialects.weights import weight_key
from onnxc.passes.contract import Program, transforms
from onnxc.passes.fusion_rules import short
from onnxc.passes.kernel_calls import callee_of, calls_by_kernel, kernel_calls, nodes_of
from onnxc.passes.kernels.kernel_function import (
    KernelFunction,
    kernels_of,
    read_schedule,
    schedule_attribute,
    set_launch,
)
from onnxc.passes.kernels.kinds import KINDS
from onnxc.passes.kernels.prefetching import MEMORY_BYTES
from onnxc.passes.kernels.schedule_rules import refusal, same_bits
from onnxc.passes.overrides import Override, asked
from onnxc.passes.signatures import kernel_signature

Schedule = Mapping[str, int | str]


@transforms(KERNELS, KERNELS)
def choose_schedules(program: Program) -> None:
    """See the file's docstring. OnnxcError where a node asks for what its kernel cannot do."""
    chooser = _Chooser(program)
    kernels = list(kernels_of(program.module).values())
    stream = _weight_bytes(program, kernels) > MEMORY_BYTES
    if program.options.choices is not None:
        program.notes["signatures"] = {kernel.symbol: kernel_signature(kernel) for kernel in kernels}
    for kernel in kernels:
        if stream and kernel.constants:
            kernel.func.attributes["kernel.streams_weights"] = ir.UnitAttr.get()
        kind = KINDS[kernel.kind]
        if hasattr(kind, "choose"):
            set_schedule(kernel, kind, chooser.schedule(kernel, kind))
            continue
        if "schedule" in kernel.root.op.attributes:
            raise chooser.refused(kernel, f"kernels of kind {kernel.kind} have no schedule")
        set_schedule(kernel, kind, None)
    chooser.tell()


def _weight_bytes(program: Program, kernels: Sequence[KernelFunction]) -> int:
    """Of all weights that contractions go through in a run, each once (no tables of which a few rows are taken)."""
    contractions = {kernel.symbol for kernel in kernels if hasattr(KINDS[kernel.kind], "packings")}
    calls = (call for call in kernel_calls(program.module) if callee_of(call) in contractions)
    keys = {weight_key(v.owner) for call in calls for v in call.operands if is_constant(v)}
    return sum(program.weights.nbytes(key) for key in keys if key is not None)


def set_schedule(kernel: KernelFunction, kind: ModuleType, schedule: Schedule | None) -> None:
    """Gives the kernel a schedule (None: its kind has none) and the launch that follows."""
    if schedule is not None:
        kernel.func.attributes["kernel.schedule"] = schedule_attribute(schedule)
    set_launch(kernel.func, kind.launch(kernel))


class _Chooser:
    """Chooses the schedules of one program and tells where they came from."""

    def __init__(self, program: Program) -> None:
        self.program, self.target = program, program.options.target
        self.choices = program.options.choices
        self.sources: dict[str, str] = program.notes.setdefault("choices", {})
        self.misses: list[tuple[str, str]] = []

    def schedule(self, kernel: KernelFunction, kind: ModuleType) -> Schedule:
        schedule, source = self._recorded(kernel), "record"
        if schedule is None:
            schedule, source = kind.choose(kernel, self.target), "heuristic"
        wanted = read_schedule(kernel.root.op, "schedule")
        if wanted:
            del kernel.root.op.attributes["schedule"]
            schedule, source = {**schedule, **wanted}, "override"
            why = refusal(kernel, schedule, self.target)
            if why is not None:
                raise self.refused(kernel, why)
        self.sources[kernel.symbol] = source
        return schedule

    def _recorded(self, kernel: KernelFunction) -> Schedule | None:
        """What tuning has found, if it is possible here."""
        if self.choices is None:
            return None
        signature = self.program.notes["signatures"][kernel.symbol]
        schedule = self.choices.schedule(signature)
        if schedule is None:
            self.misses.append((kernel.symbol, signature))
            return None
        why = refusal(kernel, schedule, self.target)
        if why is not None:
            place = self.choices.origin(signature, "schedule")
            self.program.warnings.append(f"{place}: {why}: the heuristic chooses the schedule of {signature}")
            return None
        if self.program.options.strict and not same_bits(schedule, KINDS[kernel.kind].choose(kernel, self.target)):
            told = f"a record's schedule gives other bits, so it is not used with --strict: {signature}"
            self.program.log.append(("choose_schedules", told))
            return None
        return schedule

    def refused(self, kernel: KernelFunction, why: str) -> OnnxcError:
        nodes = self._nodes().get(kernel.symbol, [""])
        node = next((n for n in nodes if asked(self.program, n, "schedule")), nodes[0])
        override = asked(self.program, node, "schedule") or Override(node)
        return override.refuse("the schedule asked for is not possible", node=node, op=short(kernel.root.op), why=why)

    def tell(self) -> None:
        """Which kernels tuning knows nothing of, and what is like them."""
        if self.choices is None:
            return
        hits = sum(source == "record" for source in self.sources.values())
        log = self.program.log
        log.append(("choose_schedules", f"{hits} kernels by records, {len(self.misses)} without one"))
        nodes = self._nodes()
        for symbol, signature in self.misses:
            nearest = self.choices.nearest(signature)
            known = "none is of this kind" if nearest is None else f"the nearest is {nearest}"
            log.append(("choose_schedules", f"node '{nodes.get(symbol, [''])[0]}': no record for {signature}; {known}"))

    def _nodes(self) -> dict[str, list[str]]:
        """The nodes of each kernel's first call, by the kernel's symbol."""
        calls = calls_by_kernel(self.program.module)
        return {symbol: nodes_of(first) or [""] for symbol, (first, *_) in calls.items()}
