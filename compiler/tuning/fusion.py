"""This file makes the tasks of where kernels end: a kernel as it is fused, and as two that are called in turn.

Of all boundaries few can pay, since what is between is written and read once more. Tried are those that let the two
sides have loops of their own where one hinders the other: a long epilogue of a contraction (its registers, its tiles),
element-wise operators in front of a reduction, and moves among element-wise operators, whose loops run across rows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence

from mlir import ir

from onnxc.dialects import dims
from onnxc.dialects.types import Tensor
from onnxc.dialects.weights import dtype_of
from onnxc.passes.choose_schedules import set_schedule
from onnxc.passes.kernel_calls import callee_of
from onnxc.passes.kernels.boundaries import INLINED, Part, divisions
from onnxc.passes.kernels.contraction import COSTLY
from onnxc.passes.kernels.kernel_function import KernelFunction, launch_of
from onnxc.passes.kernels.kinds import KINDS
from onnxc.passes.lowering.registry import MOVES
from onnxc.passes.signatures import kernel_signature
from onnxc.passes.split_kernels import part_function
from onnxc.tuning.extraction import Chain, Lowered, UnknownSize
from onnxc.tuning.tasks import Buffer, Call, Candidate, Task

Places = Mapping[int, Sequence[Part]]  # boundary → the kernel's parts

LONG = 3  # element-wise operators that a contraction's tile has no registers for
MOST = 3  # boundaries of a kernel that are tried
LEAST = 0.001  # of the model's time by the estimate: a kernel that takes less is left as it is


def fusion_tasks(lowered: Lowered) -> list[Task]:
    """A task for each distinct kernel that might be faster in parts, takes a part of the model's time that matters, and
    whose sizes are known."""
    tasks: dict[str, Task] = {}
    with lowered.program.context:
        times = _estimates(lowered)
        for name, function in lowered.functions.items():
            kernel = KernelFunction.of(function)
            calls = [op for op in lowered.calls if op.name == "kernel.call" and callee_of(op) == name]
            places = promising(kernel) if times[name] > LEAST * sum(times.values()) else {}
            if not places:
                continue
            signature = kernel_signature(kernel)
            if signature in tasks:
                tasks[signature].count += len(calls)
            elif (task := _task(lowered, kernel, signature, calls, places)) is not None:
                tasks[signature] = task
    return list(tasks.values())


def _estimates(lowered: Lowered) -> dict[str, int]:
    """Picoseconds of a run that each kernel takes, as the compiler estimates them; 0 where sizes are not known."""
    times = dict.fromkeys(lowered.functions, 0)
    for op in lowered.calls:
        if op.name == "kernel.call":
            name, launch = callee_of(op), launch_of(lowered.functions[callee_of(op)])
            with contextlib.suppress(UnknownSize):
                (call,) = Chain(lowered, [op]).calls
                times[name] += dims.evaluate(launch.extent * launch.picoseconds, call.values)
    return times


def promising(kernel: KernelFunction) -> Places:
    """The boundaries that may pay, whatever the sizes, and the kernel's parts with each."""
    return {number: found for number, found in divisions(kernel).items() if _may_pay(kernel, number, *found)}


def _may_pay(kernel: KernelFunction, number: int, front: Part, back: Part) -> bool:
    if kernel.kind == "map":
        last, reader = kernel.ops[number], [kernel.ops[n] for n in back.numbers]
        return last.name in MOVES or any(op.name in MOVES and last.op.results[0] in op.op.operands for op in reader)
    if back.root is not None:
        return kernel.ops[number].op.results[0] in kernel.ops[back.root].op.operands or len(front.numbers) == 1
    left = [kernel.ops[n].name for n in back.numbers if kernel.ops[n].name not in INLINED]
    return len(left) >= LONG or not COSTLY.isdisjoint(left)


def _task(
    lowered: Lowered, kernel: KernelFunction, signature: str, calls: Sequence[ir.Operation], places: Places
) -> Task | None:
    """None where sizes are not known, or what would be between two kernels does not stay in L2."""
    try:
        chain = Chain(lowered, calls[:1])
    except UnknownSize:
        return None
    (whole,) = chain.calls
    buffers, tried = dict(chain.buffers), []
    for number, divided in places.items():
        calls_of_parts, between = _in_parts(lowered, kernel, whole, divided)
        size = sum(buffer.size for buffer in between.values())
        if size <= lowered.program.options.target.l2_bytes:
            tried.append((size, number, calls_of_parts, between))
    candidates = [Candidate({"fusion": []}, (whole,))]
    for _, number, calls_of_parts, between in sorted(tried, key=lambda t: t[:2])[:MOST]:
        candidates.append(Candidate({"fusion": [number]}, calls_of_parts))
        buffers |= between
    return Task(signature, len(calls), buffers, candidates) if tried else None


def _in_parts(
    lowered: Lowered, kernel: KernelFunction, whole: Call, divided: Sequence[Part]
) -> tuple[tuple[Call, ...], dict[str, Buffer]]:
    """The calls of a kernel's parts in place of the whole one, and the buffers between them."""
    names = dict(zip([*kernel.operands, *kernel.results], [*whole.operands, *whole.results], strict=True))
    calls, between = [], {}
    for part in divided:
        function, opaque = part_function(lowered.program, kernel, part)
        own = KernelFunction.of(function)
        kind = KINDS[own.kind]
        set_schedule(own, kind, kind.choose(own, lowered.program.options.target) if hasattr(kind, "choose") else None)
        if part.result not in names:
            tensor = Tensor.of(part.result.type)
            dtype = dtype_of(tensor.elem)
            names[part.result] = f"after {part.numbers[-1]}"
            size = dims.evaluate(tensor.numel, whole.values) * dtype.itemsize
            between[names[part.result]] = Buffer(size, dtype.name, "scratch")
        values = {str(symbol): dims.evaluate(unit, whole.values) for unit, symbol in opaque.names.items()}
        operands = tuple(names[v] for v in part.operands)
        calls.append(Call(str(function.operation), operands, (names[part.result],), values))
        function.operation.erase()
    return tuple(calls), between
