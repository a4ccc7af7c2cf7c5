"""graph -> graph: 3×3 convolutions whose sums pay for it are done by Winograd's minimal filtering.

Before:  %0 = "kernel.conv"(%x, %w, %b) {pads = [1, 1, 1, 1], …}      : 3×3, stride 1
After:   %v = "kernel.winograd_input"(%x) {tile, tiles, pads}          : [36, tiles, C]
         %m = "onnx.MatMul"(%v, %u)                                    : u [36, C, M], made from w in the weight store
         %0 = "kernel.winograd_output"(%m, %b) {tile, tiles}
Where the weights stay in cache, one op does it a few tiles at a time, in scratch that main provides:
         %s = "kernel.scratch"()      %0 = "kernel.winograd"(%x, %u, %s, %b) {tile, tiles, pads, group}
Where only a run tells how large images are, that op takes `group` tiles at a time, in scratch of a fixed size, and has
no `tiles`; whether it pays is estimated for images of a usual size.
Of volumes, 3×3×K taps sum up K planes: as images with the channels of K (attribute `depth`, winograd_points.Depth).
F(4×4) does 4 times fewer multiplications on 4 times the weights, F(2×2) 2.25 times fewer on 1.78 times; the choice
weighs arithmetic against reading the weights, which is slower where the whole model's do not stay in cache. What
another variant has stored of the weights is taken where it is estimated to be about as fast (conv_costs.SHARED), so
that an artefact holds them once.
Other bits than the direct sum (errors: winograd_points.py), so never with `strict`. An op's attribute `algorithm`
(conv_algorithms.py) goes before the estimate. Keeps: everything else.
"""

from __future__ import annotations

from collections.abc import Collection

from mlir import ir

from onnxc.dialects import dims
from onnxc.dialects.levels import GRAPH
from onnxc.dialects.onnx import OnnxOp, build
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
    winograd_name,
)
from onnxc.passes.conv_costs import Machine, Shape
from onnxc.passes.kernels.point_products import block_elements
from onnxc.passes.kernels.scratch_pieces import PIECES
from onnxc.passes.kernels.winograd_points import SIZES, images_of, transformed_weights
from onnxc.passes.kernels.winograd_units import scratch_shape
from onnxc.passes.transformed_constant import stored_transforms, transformed_constant

LEAST_SIDE = 4  # of the result
GAIN = 1.15  # what the estimate must promise


@transforms(GRAPH, GRAPH)
def use_winograd(program: Program) -> None:
    """See the file's docstring."""
    if program.options.target is None:
        return
    machine = Machine.of(program)
    for op in convolutions(program.module):
        tile = _tile(program, op, machine)
        if tile:
            _rewrite(program, op, tile)


def _tile(program: Program, op: OnnxOp, machine: Machine) -> int:
    """The tile to use for `op`: what it asks for, or else the best one; 0 for another algorithm."""
    asked = requested(program, op)
    if asked is not None:
        return next((tile for tile in SIZES if asked == winograd_name(tile)), 0)
    if program.options.strict:
        return 0
    return best_tile(op, machine, stored_transforms(program, op.operands[1].owner))


def best_tile(op: OnnxOp, machine: Machine, stored: Collection[str] = ()) -> int:
    """The tile (2 or 4) with the lowest estimate; 0 where the direct sum is as good or Winograd's cannot do it.

    `stored`: in what forms the weights are there already."""
    if winograd_name(2) not in applicable_algorithms(op, machine.target, strict=False):
        return 0
    shape = Shape.of(op)
    if min(shape.out[-2:]) < LEAST_SIDE:
        return 0
    costs = {tile: conv_costs.winograd(shape, tile, machine) for tile in SIZES}
    tile, direct = min(costs, key=costs.__getitem__), conv_costs.direct(shape, machine)
    pays = costs[tile] * GAIN < direct
    most = conv_costs.SHARED * (costs[tile] if pays else direct)
    there = [tile for tile in SIZES if winograd_name(tile) in stored and costs[tile] <= most]
    return min(there, key=costs.__getitem__, default=tile if pays else 0)


def _rewrite(program: Program, op: OnnxOp, tile: int) -> None:
    w = Tensor.of(op.operands[1].type)
    u = transformed_constant(
        program,
        op.operands[1].owner,
        winograd_name(tile),
        (SIZES[tile] ** 2, dims.product(w.shape[:-4]) * w.shape[-2], w.shape[-1]),
        lambda array: transformed_weights(array, tile),
        ir.InsertionPoint(op.op),
    )
    rewrite = _over_free_images if Shape.of(op).free else _over_known_images
    out, some = rewrite(op, u, tile, program.options.target)
    program.log.append(("use_winograd", f"{replace(op, out)}: F({tile}x{tile}, 3x3){some}"))


def _over_free_images(op: OnnxOp, u: ir.Value, tile: int, target) -> tuple[ir.Value, str]:
    """All three steps for a group of tiles at a time; and what the log says of it."""
    group = conv_costs.winograd_group(Shape.of(op), tile, target)
    points, channels, filters = Tensor.of(u.type).shape
    scratch = build_scratch(op, [PIECES, block_elements(points, group, channels, filters)])
    return _in_one(op, u, scratch, {"tile": tile}, group), f", {group} tiles at a time"


def _over_known_images(op: OnnxOp, u: ir.Value, tile: int, target) -> tuple[ir.Value, str]:
    """As above where the weights stay in L2, with scratch for all tiles; else one step after the other."""
    shape = Shape.of(op)
    grid = [-(-d // tile) for d in shape.out[-2:]]
    group = conv_costs.winograd_group(shape, tile, target)
    attributes = {"tile": tile, "tiles": grid, **_depth(op)}
    tiles = images_of(op) * dims.product(grid)
    if not group:
        return _in_steps(op, u, attributes, tiles), ""
    scratch = build_scratch(op, scratch_shape(tiles, *Tensor.of(u.type).shape))
    return _in_one(op, u, scratch, attributes, group), f", {group} tiles at a time"


def _in_one(op: OnnxOp, u: ir.Value, scratch: ir.Value, attributes: dict, group: int) -> ir.Value:
    """All three steps for about `group` tiles at a time."""
    attributes = {**attributes, "pads": _pads(op), "group": group}
    operands = [op.operands[0], u, scratch, *bias_of(op)]
    return build_step(op, "kernel.winograd", operands, Tensor.of(op.results[0].type), attributes)


def _in_steps(op: OnnxOp, u: ir.Value, attributes: dict, tiles: dims.Dim) -> ir.Value:
    """Each step for all tiles, so that the weights are read once."""
    x, result = Tensor.of(op.operands[0].type), Tensor.of(op.results[0].type)
    points, channels, filters = Tensor.of(u.type).shape
    spectra, pads = x.of_shape([points, tiles, channels]), {"pads": _pads(op)}
    moved = build_step(op, "kernel.winograd_input", [op.operands[0]], spectra, attributes | pads)
    type_ = x.of_shape([points, tiles, filters]).type()
    products = build("MatMul", [moved, u], [type_], loc=op.op.location, ip=ir.InsertionPoint(op.op))
    return build_step(op, "kernel.winograd_output", [products.results[0], *bias_of(op)], result, attributes)


def _depth(op: OnnxOp) -> dict[str, list[int]]:
    """What `winograd_points.Depth` reads, of a convolution of volumes."""
    if len(op.attr("strides")) == 2:
        return {}
    taps, out = Tensor.of(op.operands[1].type).shape[0], Tensor.of(op.results[0].type).shape[1]
    return {"depth": [taps, out, *(op.attr(name)[0] for name in ("strides", "dilations", "pads"))]}


def _pads(op: OnnxOp) -> list[int]:
    """Of the two axes of an image."""
    pads = list(op.attr("pads"))
    axes = len(pads) // 2
    return pads[axes - 2 : axes] + pads[-2:]
