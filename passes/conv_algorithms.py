"""This file says which algorithms can do a convolution, and which one a `kernel.conv` asks for.

An op may carry `algorithm = "winograd4"`, say: a tuning record or the user wants it. Passes and kernels obey where the
algorithm can do this convolution; else the attribute goes, with a line in the log, and the heuristics decide.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlir import ir

from onnxc.dialects import dims
from onnxc.dialects.onnx import OnnxOp, is_constant
from onnxc.dialects.types import Tensor
from onnxc.passes.contract import Program
from onnxc.passes.conv_costs import fft_tiles
from onnxc.passes.kernels.winograd_points import SIZES
from onnxc.passes.rewriting import functions, operations

ATTRIBUTE = "algorithm"
DIRECT, IM2COL, FFT = "direct", "im2col", "fft"


def winograd_name(tile: int) -> str:
    """Winograd's filtering by tiles of so many results a side, as an algorithm and as a form of weights."""
    return f"winograd{tile}"


ALGORITHMS = (DIRECT, IM2COL, *map(winograd_name, SIZES), FFT)


def convolutions(module: ir.Module) -> list[OnnxOp]:
    """Every `kernel.conv` of the module, in program order; they may be replaced on the way."""
    blocks = [function.regions[0].blocks[0] for function in functions(module)]
    return [OnnxOp(op) for block in blocks for op in operations(block) if op.name == "kernel.conv"]


def applicable_algorithms(op: OnnxOp, target, strict: bool) -> tuple[str, ...]:
    """The names of the algorithms that can do this `kernel.conv` on the target, the plain one first.

    With `strict` those whose bits differ from the plain sum's are left out.
    """
    names = [DIRECT]
    if _im2col_can(op):
        names.append(IM2COL)
    if not strict and target.has_fma and _winograd_can(op):
        names += map(winograd_name, SIZES)
    if not strict and target.has_fma and _fft_can(op):
        names.append(FFT)
    return tuple(names)


def requested(program: Program, op: OnnxOp) -> str | None:
    """The algorithm that `op` asks for; one that cannot do it is logged and taken off."""
    if not op.has_attr(ATTRIBUTE):
        return None
    name = op.attr(ATTRIBUTE)
    can = applicable_algorithms(op, program.options.target, program.options.strict)
    if name in can:
        return name
    del op.op.attributes[ATTRIBUTE]
    program.log.append(("conv_algorithms", f"{op.node}: {name} cannot do this convolution, only {', '.join(can)}"))
    return None


def has_constant_weights(op: OnnxOp) -> bool:
    return is_constant(op.operands[1])


def has_unit_steps(op: OnnxOp) -> bool:
    """Neither strides, dilations nor groups."""
    return set(op.attr("strides")) == set(op.attr("dilations")) == {1} and op.attr("group") == 1


def bias_of(op: OnnxOp) -> list[ir.Value]:
    """The bias as a list, empty where there is none."""
    return [v for v in op.operands[2:] if v is not None]


def build_step(
    op: OnnxOp,
    name: str,
    operands: Sequence[ir.Value],
    result: Tensor,
    attributes: Mapping[str, int | Sequence[int] | ir.Attribute] | None = None,
) -> ir.Value:
    """The result of a new op before the convolution `op`, at its location: a step of the algorithm that replaces it."""
    ip, given = ir.InsertionPoint(op.op), {name: _attribute(value) for name, value in (attributes or {}).items()}
    return ir.Operation.create(
        name, results=[result.type()], operands=operands, attributes=given, loc=op.op.location, ip=ip
    ).result


def _attribute(value: int | Sequence[int] | ir.Attribute) -> ir.Attribute:
    if isinstance(value, ir.Attribute):
        return value
    if isinstance(value, int):
        return ir.IntegerAttr.get(ir.IntegerType.get_signless(64), value)
    return ir.DenseI64ArrayAttr.get(list(value))


def build_scratch(op: OnnxOp, shape: Sequence[dims.Dim]) -> ir.Value:
    """Memory for the steps of `op`'s algorithm, of its element type, which main provides."""
    return build_step(op, "kernel.scratch", [], Tensor.of(op.operands[0].type).of_shape(shape))


def replace(op: OnnxOp, out: ir.Value) -> str:
    """`out` takes the place of the convolution `op`, which goes; the name of its node."""
    op.results[0].replace_all_uses_with(out)
    op.op.erase()
    return OnnxOp(out.owner).node


def _im2col_can(op: OnnxOp) -> bool:
    """Windows that have to be gathered, with constant weights, in one group."""
    x, w = (Tensor.of(v.type) for v in op.operands[:2])
    gathered = dims.product(w.shape[:-2]) > 1 or set(op.attr("strides")) != {1} or any(op.attr("pads"))
    known = all(isinstance(d, int) and d > 0 for d in w.shape)
    return x.elem == "f32" and gathered and known and op.attr("group") == 1 and has_constant_weights(op)


def _winograd_can(op: OnnxOp) -> bool:
    """Windows of 3×3 with constant weights over f32 images; of volumes of known sizes, whatever their depth."""
    x, w, result = (Tensor.of(v.type) for v in (*op.operands[:2], op.results[0]))
    if x.elem != "f32" or w.shape[-4:-2] != (3, 3) or not _is_tileable(op):
        return False
    steps = {*op.attr("strides")[-2:], *op.attr("dilations")[-2:]}
    known = all(isinstance(d, int) for d in (*x.shape[1:], *result.shape[1:]))
    return steps == {1} and op.attr("group") == 1 and (len(x.shape) == 4 or (len(x.shape) == 5 and known))


def _fft_can(op: OnnxOp) -> bool:
    """Windows that fit a tile, with constant weights over f32 lines or images."""
    x, w = (Tensor.of(v.type) for v in op.operands[:2])
    plain = x.elem == "f32" and len(x.shape) in (3, 4) and has_unit_steps(op)
    return plain and _is_tileable(op) and bool(fft_tiles(w.shape[:-2]))


def _is_tileable(op: OnnxOp) -> bool:
    """Constant weights, known numbers of channels and filters; images of any size, but not known to be empty."""
    x, w, result = (Tensor.of(v.type) for v in (op.operands[0], op.operands[1], op.results[0]))
    known = all(isinstance(d, int) and d > 0 for d in (*w.shape, x.shape[-1]))
    return known and has_constant_weights(op) and not any(d == 0 for d in result.shape)
