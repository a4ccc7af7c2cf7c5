"""kernels -> kernels: every kernel gets its schedule and its launch.

Before:  func.func private @k(…) attributes {kernel.kind = "matmul", …}
After:   … {kernel.kind = "matmul", kernel.schedule = {mr = 6, …}, kernel.extent = "d0*8", kernel.grain = 4}
The schedule is what tuning has found for the kernel's signature (`options.choices`), else what the kind's heuristic
chooses for the shapes and the target; entries in the attribute `schedule` of the kernel's root are laid over either.
Extent and grain say how a call may be split over threads. `notes["choices"]`: kernel → heuristic, record or override.
Keeps: everything else.      Leaves: no attribute `schedule` on an op.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType

from mlir import ir

from onnxc.dialects.levels import KERNELS
from onnxc.passes.contract import Program, transforms
from onnxc.passes.kernels.kernel_function import KernelFunction, read_schedule
from onnxc.passes.kernels.kinds import KINDS
from onnxc.passes.signatures import kernel_signature

Schedule = Mapping[str, int | str]


@transforms(KERNELS, KERNELS)
def choose_schedules(program: Program) -> None:
    """See the file's docstring."""
    i64 = ir.IntegerType.get_signless(64)
    sources = program.notes.setdefault("choices", {})
    for function in program.module.body.operations:
        if "kernel.kind" not in function.attributes:
            continue
        kernel = KernelFunction.of(function)
        kind = KINDS[kernel.kind]
        if hasattr(kind, "choose"):
            schedule, source = _schedule(program, kernel, kind)
            sources[ir.StringAttr(function.attributes["sym_name"]).value] = source
            function.attributes["kernel.schedule"] = ir.DictAttr.get(
                {
                    k: ir.IntegerAttr.get(i64, v) if isinstance(v, int) else ir.StringAttr.get(v)
                    for k, v in schedule.items()
                }
            )
        launch = kind.launch(kernel)
        function.attributes["kernel.extent"] = ir.StringAttr.get(str(launch.extent))
        function.attributes["kernel.grain"] = ir.IntegerAttr.get(i64, launch.grain)


def _schedule(program: Program, kernel: KernelFunction, kind: ModuleType) -> tuple[Schedule, str]:
    """The kernel's schedule and where it comes from."""
    target, choices = program.options.target, getattr(program.options, "choices", None)
    schedule, source = None, "heuristic"
    if choices is not None:
        schedule, source = choices.schedule(kernel_signature(kernel)), "record"
    if schedule is None:
        schedule, source = kind.choose(kernel, target), "heuristic"
    laid_over = read_schedule(kernel.root.op, "schedule")
    if laid_over:
        del kernel.root.op.attributes["schedule"]
        schedule, source = {**schedule, **laid_over}, "override"
    return schedule, source
