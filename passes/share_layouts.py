"""kernels -> kernels: kernels read weights in the layouts that other programs of the artefact have given them.

Before:  func.func private @k(…) attributes {kernel.schedule = {vectors = 6, lanes = 8, …}}       : panels of 48 columns
         called with a weight that an earlier program (`program.parts`) keeps in panels of 32
After:   … {kernel.schedule = {vectors = 2, lanes = 8, panel = 32, …}}                   : tiles of half a panel
The kind's heuristic chooses anew among the tiles that a whole number of make a panel, so that an artefact of many
variants holds each large weight once. Schedules that were recorded or asked for stay. Small weights and those in other
layouts (Winograd's in a variant where another one convolves directly) may lie there twice.
Keeps:   everything else; all in a program compiled alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from inspect import signature
from types import ModuleType

import numpy as np
from mlir import ir

from onnxc.dialects.levels import KERNELS
from onnxc.dialects.types import Tensor
from onnxc.dialects.weights import weight_key
from onnxc.passes.choose_schedules import set_schedule
from onnxc.passes.contract import Program, transforms
from onnxc.passes.kernel_calls import calls_by_kernel
from onnxc.passes.kernels.kernel_function import KernelFunction, kernels_of
from onnxc.passes.kernels.kinds import KINDS
from onnxc.passes.kernels.packing import Packing
from onnxc.passes.kernels.scalars import byte_width

SMALL_BYTES = 4096  # a weight that may lie there twice


@transforms(KERNELS, KERNELS)
def share_layouts(program: Program) -> None:
    """See the file's docstring."""
    if not program.parts.has_panels:
        return
    calls = calls_by_kernel(program.module)
    for symbol, kernel in kernels_of(program.module).items():
        kind = KINDS[kernel.kind]
        if _reads_panels(kind) and program.notes.get("choices", {}).get(symbol) == "heuristic":
            _share(program, kernel, kind, calls.get(symbol, ()))


def _reads_panels(kind: ModuleType) -> bool:
    """Whether kernels of the kind can read panels that are wider than their tiles."""
    return hasattr(kind, "packings") and "panel" in signature(kind.choose).parameters


def _share(program: Program, kernel: KernelFunction, kind: ModuleType, calls: Sequence[ir.Operation]) -> None:
    """Another schedule, if that is all that keeps the kernel from a layout that its weights have already."""
    for packing in kind.packings(kernel):
        if not packing.panel or _bytes(kernel, packing) < SMALL_BYTES:
            continue
        keys = dict.fromkeys(weight_key(call.operands[packing.position].owner) for call in calls)
        known = Counter(width for key in keys if key is not None for width in program.parts.panels(key, packing))
        # of widths that serve as many weights the first, which is the one that was there first
        for width, count in sorted(known.items(), key=lambda entry: -entry[1]):
            if count <= known[packing.panel]:
                break
            schedule = kind.choose(kernel, program.options.target, width)
            tile = schedule["vectors"] * schedule["lanes"]
            if width % tile == 0 and (schedule.get("panel") or tile) == width:
                set_schedule(kernel, kind, schedule)
                program.log.append(("share_layouts", f"panels of {width} instead of {packing.panel} columns"))
                break


def _bytes(kernel: KernelFunction, packing: Packing) -> int:
    element = Tensor.of(kernel.operands[packing.position].type).elem
    return int(np.prod(packing.shape)) * byte_width(element)
