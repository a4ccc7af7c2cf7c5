"""graph -> graph: convolutions whose windows are better gathered before they are multiplied.

Before:  %0 = "kernel.conv"(%x, %w, %b) {…}
After:   %s = "kernel.scratch"()                                        : [pieces, size]
         %0 = "kernel.im2col"(%x, %w, %s, %b) {…, rows}
The case are few channels with windows or steps beyond patch_tiles.py: 1.3 to 1.7 times faster with 2 or 3 channels.
A piece holds the windows of `rows` pixels (kernels/im2col.py): as many as stay in cache beside a panel of weights.
The same bits as before, so with `strict` too. An op's attribute `algorithm` (conv_algorithms.py) goes before the
estimate. Keeps: everything else.
"""

from __future__ import annotations

from onnxc.dialects.levels import GRAPH
from onnxc.dialects.onnx import OnnxOp
from onnxc.dialects.types import Tensor
from onnxc.passes import conv_costs
from onnxc.passes.contract import Program, transforms
from onnxc.passes.conv_algorithms import (
    applicable_algorithms,
    bias_of,
    build_scratch,
    build_step,
    convolutions,
    replace,
    requested,
)
from onnxc.passes.conv_costs import Machine, Shape
from onnxc.passes.kernels import patch_tiles
from onnxc.passes.kernels.conv_problem import Conv
from onnxc.passes.kernels.gather import gathered_size
from onnxc.passes.kernels.scratch_pieces import PIECES


@transforms(GRAPH, GRAPH)
def use_im2col(program: Program) -> None:
    """See the file's docstring."""
    if program.options.target is None:
        return
    machine = Machine.of(program)
    for op in convolutions(program.module):
        if _wanted(program, op, machine):
            _rewrite(program, op)


def _wanted(program: Program, op: OnnxOp, machine: Machine) -> bool:
    asked = requested(program, op)
    strict = program.options.strict
    if asked not in (None, "im2col") or "im2col" not in applicable_algorithms(op, machine.target, strict):
        return False
    if asked == "im2col":
        return True
    patched = patch_tiles.applies(Conv.of_op(op, Tensor.of(op.operands[1].type).shape[:-2]), machine.target)
    return not patched and conv_costs.gathering_pays(Shape.of(op), machine)


def _rewrite(program: Program, op: OnnxOp) -> None:
    w, shape = Tensor.of(op.operands[1].type), Shape.of(op)
    pixels = shape.pixels if Tensor.of(op.results[0].type).is_static else None
    rows = conv_costs.gathered_rows(shape, pixels, program.options.target)
    size = gathered_size(shape.taps * w.shape[-2], rows)
    scratch = build_scratch(op, [PIECES, size])
    names = ("strides", "dilations", "pads", "group")
    attributes = {**{name: op.op.attributes[name] for name in names}, "rows": rows}
    operands = [*op.operands[:2], scratch, *bias_of(op)]
    out = build_step(op, "kernel.im2col", operands, Tensor.of(op.results[0].type), attributes)
    program.log.append(("use_im2col", f"{replace(op, out)}: windows of {rows} pixels at a time"))
