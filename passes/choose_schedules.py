"""kernels -> kernels: every kernel gets its schedule and its launch.

Before:  func.func private @k(…) attributes {kernel.kind = "matmul", …}
After:   … {kernel.kind = "matmul", kernel.schedule = {mr = 6, …}, kernel.extent = "d0*8", kernel.grain = 4}
The schedule is what the kind's heuristic chooses for the shapes and the target; extent and grain say how a call may be
split over threads. Keeps: everything else.
"""

from __future__ import annotations

from mlir import ir

from onnxc.dialects.levels import KERNELS
from onnxc.passes.contract import Program, transforms
from onnxc.passes.kernels.kernel_function import KernelFunction
from onnxc.passes.kernels.kinds import KINDS


@transforms(KERNELS, KERNELS)
def choose_schedules(program: Program) -> None:
    """See the file's docstring."""
    i64 = ir.IntegerType.get_signless(64)
    for function in program.module.body.operations:
        if "kernel.kind" not in function.attributes:
            continue
        kernel = KernelFunction.of(function)
        kind = KINDS[kernel.kind]
        if hasattr(kind, "choose"):
            entries = kind.choose(kernel, program.options.target).items()
            function.attributes["kernel.schedule"] = ir.DictAttr.get(
                {k: ir.IntegerAttr.get(i64, v) if isinstance(v, int) else ir.StringAttr.get(v) for k, v in entries}
            )
        launch = kind.launch(kernel)
        function.attributes["kernel.extent"] = ir.StringAttr.get(str(launch.extent))
        function.attributes["kernel.grain"] = ir.IntegerAttr.get(i64, launch.grain)
