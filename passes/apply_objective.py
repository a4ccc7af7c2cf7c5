"""graph -> graph: no transformed weights where size is the objective, and no scratch either where memory is.

Before:  %0 = "kernel.conv"(%x, %w, %b) {pads = …}
After:   %0 = "kernel.conv"(%x, %w, %b) {pads = …, algorithm = "direct"}      with `options.objective` memory;
size leaves gathering (im2col) to the heuristic and to records, since its weights are the plain ones.
With speed, an algorithm from a record stays unless it was measured to gain less than 5 % on a heuristic that needs no
copy of the weights: that is not worth one. With memory attention stays one kernel, whatever a record says.
What the estimates (conv_costs.py) say of either way is noted down:
`notes["gains"]`: weight → how many times as fast its convolution is on a transformed copy, where one is made.
`notes["trade"]`: what leaving them out saves and costs, by times that records have of both ways where they have them.
What the user asks for by name stays. Keeps: everything else.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from onnxc.dialects.levels import GRAPH
from onnxc.dialects.onnx import OnnxOp
from onnxc.dialects.types import Tensor
from onnxc.dialects.weights import weight_key
from onnxc.passes import conv_costs
from onnxc.passes.algorithms import choosing
from onnxc.passes.contract import Program, transforms
from onnxc.passes.conv_algorithms import ATTRIBUTE, DIRECT, applicable_algorithms, convolutions, winograd_name
from onnxc.passes.conv_costs import Machine, Shape
from onnxc.passes.kernels.winograd_points import SIZES
from onnxc.passes.signatures import operator_signature
from onnxc.passes.transformed_constant import stored_transforms
from onnxc.passes.use_fft import best_transform
from onnxc.passes.use_winograd import best_tile

LEAST_GAIN = 1.05  # what a copy of weights must be worth


@dataclass(frozen=True)
class Copy:
    """What a transformed copy is worth: nanoseconds of a run with it and without, by the estimate or as `measured`;
    times as fast by the estimate; bytes beyond the plain weights."""

    fast: float
    plain: float
    measured: bool
    gain: float
    extra: int


@transforms(GRAPH, GRAPH)
def apply_objective(program: Program) -> None:
    """See the file's docstring."""
    if program.options.target is None:
        return
    machine, speed = Machine.of(program), program.options.objective == "speed"
    left_out: list[Copy] = []
    for op in convolutions(program.module):
        if program.notes.get("algorithms", {}).get(op.node) == "override":
            continue
        asked = op.attr(ATTRIBUTE) if op.has_attr(ATTRIBUTE) else None
        copy = _copy(program, op, machine, asked)
        if speed and copy is not None:
            if asked is not None and not _is_worth_it(program, op, machine):
                op.op.attributes[ATTRIBUTE] = ir.StringAttr.get(DIRECT)
                program.log.append(("apply_objective", f"{op.node}: {asked} gains too little for a copy of weights"))
            else:
                _note_gain(program, op, copy)
        elif not speed and (copy is not None or program.options.objective == "memory"):
            op.op.attributes[ATTRIBUTE] = ir.StringAttr.get(DIRECT)
            left_out += [] if copy is None else [copy]
    if program.options.objective == "memory":
        _fuse_attention(program)
    if not speed:
        program.notes["trade"] = {
            "layers": len(left_out),
            "bytes": sum(copy.extra for copy in left_out),
            "measured": sum(copy.measured for copy in left_out),
            "fast": sum(copy.fast for copy in left_out),
            "plain": sum(copy.plain for copy in left_out),
        }


def _fuse_attention(program: Program) -> None:
    """Takes back what a record says of attention by its steps, whose scores would take room."""
    for op in choosing(program.module, "kernel.attention"):
        if op.has_attr(ATTRIBUTE) and program.notes["algorithms"].get(op.node) != "override":
            del op.op.attributes[ATTRIBUTE]
            program.log.append(("apply_objective", f"{op.node}: attention stays one kernel, which takes less memory"))


def _is_worth_it(program: Program, op: OnnxOp, machine: Machine) -> bool:
    """Whether a copy that a record wants gains enough on the heuristic's choice, or that needs a copy as well."""
    choices = program.options.choices
    gain = None if choices is None else choices.gain(operator_signature(op))
    return gain is None or gain >= LEAST_GAIN or _copy(program, op, machine, None) is not None


def _copy(program: Program, op: OnnxOp, machine: Machine, asked: str | None) -> Copy | None:
    """The copy of its weights that `op` needs with the algorithm `asked` for, else the heuristic's; None: none."""
    strict = program.options.strict
    can = applicable_algorithms(op, machine.target, strict)
    shape, plain = Shape.of(op), Tensor.of(op.operands[1].type)
    direct = conv_costs.direct(shape, machine)
    stored = stored_transforms(program, op.operands[1].owner)
    costs: list[tuple[float, int, str]] = []  # nanoseconds, values of the copy for each of a filter's window, the name
    for tile in SIZES:
        if asked == winograd_name(tile) or (asked is None and not strict and best_tile(op, machine, stored) == tile):
            points = SIZES[tile] ** 2 * shape.planes.channels // shape.channels
            costs.append((conv_costs.winograd(shape, tile, machine), points, winograd_name(tile)))
    if asked == "fft" or (asked is None and not costs and "fft" in can):
        transform = best_transform(op, machine, wanted=asked == "fft", stored=stored)
        costs += [] if transform is None else [(conv_costs.fft(shape, transform, machine), transform.points, "fft")]
    if not costs or not isinstance(plain.numel, int):
        return None
    cost, points, name = min(costs)
    extra = 4 * (points * shape.channels * shape.filters - plain.numel)
    choices = program.options.choices
    times = {} if choices is None else choices.times(operator_signature(op))
    if name in times and DIRECT in times:
        return Copy(times[name], times[DIRECT], True, direct / cost, extra)
    return Copy(cost, max(cost, direct), False, direct / cost, extra)


def _note_gain(program: Program, op: OnnxOp, copy: Copy) -> None:
    key = weight_key(op.operands[1].owner)
    if key is not None:
        gains = program.notes.setdefault("gains", {})
        gains[key] = min(gains.get(key, copy.gain), round(copy.gain, 2))
