"""What must hold of a schedule that somebody else than the kind's own heuristic asks for: a record, a user, the tuner.

`refusal(kernel, schedule, target)` says why a schedule cannot be used for a kernel; whatever passes compiles to a
correct kernel that keeps its tiles in registers and its scratch within a thread's stack. A field is a range of integers
here, or it may only have the value that the heuristic gives it; so new fields, algorithms and kinds are strict until
they have rules.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from onnxc.passes.kernels import attention, depthwise, patch_tiles, planes_problem, scalars
from onnxc.passes.kernels.attention_problem import Attention
from onnxc.passes.kernels.contraction import BLOCK, arithmetic
from onnxc.passes.kernels.conv_planes import MOST_DEEP
from onnxc.passes.kernels.conv_problem import Conv
from onnxc.passes.kernels.kernel_function import KernelFunction
from onnxc.passes.kernels.kinds import KINDS
from onnxc.passes.kernels.matmul_problem import Matmul
from onnxc.passes.kernels.matmul_schedule import CHUNK_BYTES, COPY_BYTES
from onnxc.passes.kernels.packing import UNSAID
from onnxc.passes.kernels.register_tiles import MOST_VECTORS, tile_registers
from onnxc.passes.kernels.scratch_pieces import PIECES

Schedule = Mapping[str, int | str]
Rules = Mapping[str, Collection[int | str]]

MOST_GROUP = 1 << 20
MOST_AHEAD = 1024
UNROLLED = (1, 2, 4)
LOOPS: Rules = {"unroll": UNROLLED, "order": ("rows", "columns"), "apart": (0, 1)}


#: entries that change the order in which terms are added up, and so bits
REORDERING = ("keys",)


def same_bits(one: Schedule, other: Schedule) -> bool:
    """Whether two schedules of a kernel give the same bits."""
    return all(one.get(name, UNSAID[name]) == other.get(name, UNSAID[name]) for name in REORDERING)


class Refused(Exception):
    """Why a schedule cannot be used."""


def refusal(kernel: KernelFunction, schedule: Schedule, target: Any) -> str | None:
    """Why `schedule` cannot be used for the kernel on the target; None where it can."""
    kind = KINDS[kernel.kind]
    if not hasattr(kind, "choose"):
        return f"kernels of kind {kernel.kind} have no schedule"
    chosen = kind.choose(kernel, target)
    algorithm = schedule.get("algorithm", chosen.get("algorithm"))
    rules = RULES.get((kernel.kind, algorithm))
    try:
        allowed = {} if rules is None else dict(rules(kernel, schedule, target))
    except Refused as why:
        return str(why)
    if algorithm == chosen.get("algorithm"):
        allowed = {**{name: (value,) for name, value in chosen.items()}, **allowed}
    return _mismatch(schedule, allowed)


def _mismatch(schedule: Schedule, allowed: Rules) -> str | None:
    """Every field is there, no other, each with a value that is allowed."""
    if not allowed:
        return f"the algorithm '{schedule['algorithm']}' is not possible here"
    for name in sorted({*allowed, *schedule}):
        if name not in allowed:
            return f"there is no entry '{name}' (there are {', '.join(sorted(allowed))})"
        if name not in schedule:
            if name in UNSAID:
                continue
            return f"the entry '{name}' is missing"
        if schedule[name] not in allowed[name]:
            return f"{name} = {schedule[name]} is not possible here"
    return None


def _number(schedule: Schedule, name: str) -> int:
    value = schedule.get(name)
    if not isinstance(value, int):
        raise Refused(f"the entry '{name}' is missing" if value is None else f"{name} = '{value}' is no number")
    return value


def _tile(schedule: Schedule, elem: str, columns: Any, target: Any) -> Rules:
    """The register tile's entries: accumulators, a row of vectors and a broadcast fit into the registers."""
    rows, vectors, lanes = (_number(schedule, name) for name in ("rows", "vectors", "lanes"))
    if rows > 0 and vectors > 0 and tile_registers(rows, vectors, target) > target.vector_registers:
        raise Refused(f"a tile of {rows} × {vectors} vectors does not fit into {target.vector_registers} registers")
    most = arithmetic(elem, target, columns).lanes
    widths = [1] if most == 1 else [1 << i for i in range(1, most.bit_length()) if 1 << i <= most]
    heights = range(1, target.vector_registers)
    return {"rows": heights, "vectors": range(1, 2 if lanes == 1 else MOST_VECTORS + 1), "lanes": widths}


def _matmul(kernel: KernelFunction, schedule: Schedule, target: Any) -> Rules:
    p = Matmul.of(kernel)
    rules = {**_tile(schedule, p.elem, p.n, target), "group": range(1, MOST_GROUP), "prefetch": range(MOST_AHEAD)}
    can_pack = p.b_position in kernel.constants and p.has_n and not p.transposed_batch_b
    group, packed, chunk, copied = (_number(schedule, name) for name in ("group", "packed", "chunk", "copied"))
    width = schedule["vectors"] * schedule["lanes"] * scalars.byte_width(arithmetic(p.elem, target).compute)
    if chunk and group * schedule["rows"] * width > CHUNK_BYTES:
        raise Refused("the sums of a unit are too large for the stack")
    terms = chunk or p.k
    if copied and (not isinstance(terms, int) or terms * width > COPY_BYTES):
        raise Refused("the copy of a panel is too large for the stack")
    return {
        **rules,
        **LOOPS,
        "packed": (0, 1) if can_pack else (0,),
        "copied": (0,) if packed or p.n == 1 else (0, 1),
        "chunk": range(0, 1 << 20, BLOCK),  # whole blocks, so that sums are the same
    }


def _pixels(kernel: KernelFunction, schedule: Schedule, target: Any) -> Rules:
    """Of ConvSchedule."""
    p = Conv.of(kernel)
    constant = kernel.operands.index(kernel.root.operands[1]) in kernel.constants
    tile = _tile(schedule, p.elem, p.filters, target)
    packed = (0, 1) if constant else (0,)
    return {**tile, "group": range(1, MOST_GROUP), "packed": packed, "algorithm": ("direct",)}


def _direct(kernel: KernelFunction, schedule: Schedule, target: Any) -> Rules:
    ahead = range(MOST_AHEAD if _number(schedule, "packed") else 1)
    return {**_pixels(kernel, schedule, target), **LOOPS, "prefetch": ahead}


def _patch(kernel: KernelFunction, schedule: Schedule, target: Any) -> Rules:
    p = Conv.of(kernel)
    constant = kernel.operands.index(kernel.root.operands[1]) in kernel.constants
    if not (patch_tiles.applies(p, target) and constant):
        raise Refused("the algorithm 'patch' is for few channels and constant weights")
    row = ((_number(schedule, "run") - 1) * p.strides[-1] + p.kernel[-1]) * p.channels
    size = p.taps // p.kernel[-1] * row * scalars.byte_width(arithmetic(p.elem, target).compute)
    if schedule["run"] > patch_tiles.choose(p, target)["run"] and size > patch_tiles.PATCH_BYTES:
        raise Refused("the patch of a unit is too large for the stack")
    tile = _tile(schedule, p.elem, p.filters, target)
    return {**tile, "run": range(1, 1 << 16), "packed": (1,), "algorithm": ("patch",)}


def _depthwise(kernel: KernelFunction, schedule: Schedule, target: Any) -> Rules:
    p = Conv.of(kernel)
    if not depthwise.applies(p):
        raise Refused("the algorithm 'depthwise' is for one channel and one filter a group")
    lanes = arithmetic(p.elem, target).lanes
    pixels = range(1, target.vector_registers // 2 + 1)
    return {"pixels": pixels, "lanes": (lanes, max(1, lanes // 2)), "algorithm": ("depthwise",)}


def _planes(kernel: KernelFunction, schedule: Schedule, target: Any) -> Rules:
    p = planes_problem.of_kernel(kernel)
    chosen = KINDS[kernel.kind].choose(kernel, target)
    run, lanes = (_number(schedule, name) for name in ("run", "lanes"))
    most = max(planes_problem.PATCH_BYTES, planes_problem.patch_bytes(p, chosen["run"]))
    if run > 0 and planes_problem.patch_bytes(p, run) > most:
        raise Refused("the patch of a unit is too large for the stack")
    if run != p.out[-1] and lanes > 0 and run % lanes:
        raise Refused(f"run = {run} is neither whole vectors nor a whole row")
    rules = _tile(schedule, p.elem, None, target)
    most_deep = MOST_DEEP if planes_problem.shares_rows(p) else 1
    return {**rules, "run": range(1, 1 << 20), "deep": range(1, most_deep + 1)}


def _points(kernel: KernelFunction, schedule: Schedule, target: Any) -> Rules:
    lanes = arithmetic("f32", target).lanes  # the transforms' too
    return {**_tile(schedule, "f32", None, target), "lanes": (lanes,), "unroll": UNROLLED}


def _im2col(kernel: KernelFunction, schedule: Schedule, target: Any) -> Rules:
    p, pixels = Conv.of(kernel), kernel.root.attr("rows")
    return {
        **_tile(schedule, p.elem, p.filters, target),
        "group": range(1, pixels // max(1, _number(schedule, "rows")) + 1),
        "slices": range(1, PIECES + 1),
        "prefetch": range(MOST_AHEAD),
        "packed": (1,),
    }


def _attention(kernel: KernelFunction, schedule: Schedule, target: Any) -> Rules:
    p = Attention.of(kernel)
    rows, vectors = _number(schedule, "rows"), _number(schedule, "vectors")
    if rows > 0 and vectors > 0 and tile_registers(rows, vectors, target) > target.vector_registers:
        raise Refused(f"a tile of {rows} × {vectors} vectors does not fit into {target.vector_registers} registers")
    queries, keys = _number(schedule, "queries"), schedule.get("keys", 0)
    possible = [0, *attention.key_blocks(p, queries)] if queries > 0 else [0]
    block = keys if isinstance(keys, int) and keys > 0 else attention.key_block(p)
    wide = [v for v in range(1, MOST_VECTORS + 1) if block % (v * arithmetic(p.elem, target).lanes) == 0]
    rules = {"queries": range(1, attention.QUERIES + 1), "rows": range(1, target.vector_registers)}
    return {**rules, "vectors": wide, "keys": possible}


#: (kind, algorithm) → what its fields may be
RULES: dict[tuple[str, str | None], Callable[[KernelFunction, Schedule, Any], Rules]] = {
    ("matmul", None): _matmul,
    ("conv", "direct"): _direct,
    ("conv", "patch"): _patch,
    ("conv", "depthwise"): _depthwise,
    ("conv_planes", None): _planes,
    ("conv_transpose", "direct"): _pixels,
    ("attention", None): _attention,
    ("fft", None): _points,
    ("im2col", None): _im2col,
    ("winograd", None): _points,
}
