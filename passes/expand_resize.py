"""graph -> graph: a Resize becomes `kernel.resize`, whose factors stand beside it.

Before:  %y = "onnx.Resize"(%x, none, %scales, none) {mode = "nearest", …}
After:   %y = "kernel.resize"(%x) {scales = [1.0, 2.0, 2.0, 1.0], mode = "nearest", …}
scales has an entry for every axis of x: the factor, 0 where it is (size of the result) / (size of x), or -1 where it
is an element of the second operand, the scales that are known at run time only. 1 with equal sizes: the axis is kept.
Keeps:   types, locations.      Leaves: no Resize. Antialiasing and tf_crop_and_resize are refused.
"""

from __future__ import annotations

import numpy as np
from mlir import ir

from onnxc.dialects.errors import OnnxcError, Refusals
from onnxc.dialects.levels import GRAPH
from onnxc.dialects.onnx import OnnxOp, attribute
from onnxc.dialects.types import Tensor
from onnxc.dialects.weights import constant_array
from onnxc.passes.contract import Program, transforms
from onnxc.passes.rewriting import functions, operations, replace_op

KEPT = ("mode", "nearest_mode", "coordinate_transformation_mode", "cubic_coeff_a", "exclude_outside")


@transforms(GRAPH, GRAPH)
def expand_resize(program: Program) -> None:
    """See the file's docstring."""
    refused: list[OnnxcError] = []
    for function in functions(program.module):
        for op in [o for o in operations(function.regions[0].blocks[0]) if o.name == "onnx.Resize"]:
            view = OnnxOp(op)
            error = _refusal(view)
            if error is not None:
                refused.append(error)
            else:
                _expand(view, program)
    if refused:
        raise Refusals(refused)


def _refusal(op: OnnxOp) -> OnnxcError | None:
    if op.attr("antialias", 0):
        return op.refuse("Resize with antialias cannot be compiled yet")
    if op.attr("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize":
        return op.refuse("Resize with tf_crop_and_resize cannot be compiled yet")
    return None


def _expand(op: OnnxOp, program: Program) -> None:
    source, result = Tensor.of(op.operands[0].type).dims, Tensor.of(op.results[0].type).dims
    rank = len(source)
    axes = [a % rank for a in op.attr("axes", None) or range(rank)]
    scales = [1.0] * rank
    given = op.operands[2] if len(op.operands) > 2 else None
    known = None if given is None or isinstance(given.owner, ir.Block) else constant_array(given.owner, program.weights)
    if given is not None and (known is None or known.size):
        values = [-1.0] * len(axes) if known is None else [float(s) for s in known]
    else:
        given = None
        values = [1.0 if source[a] == result[a] else 0.0 for a in axes]
    for axis, value in zip(axes, values, strict=True):
        scales[axis] = value
    context = op.op.context
    attributes = {name: attribute(op.attr(name), context) for name in KEPT if op.attr(name) is not None}
    attributes["scales"] = attribute(np.asarray(scales, np.float32).tolist(), context, "floats")
    attributes["axes"] = attribute(axes, context, "ints")
    operands = [op.operands[0]] + ([given] if given is not None and known is None else [])
    replace_op(op.op, "kernel.resize", operands, attributes)
