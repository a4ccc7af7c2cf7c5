"""graph -> graph: convolutions with large windows are done by Fourier transforms of tiles.

Before:  %0 = "kernel.conv"(%x, %w, %b) {pads = [5, 5, 5, 5], …}      : 11×11, say, stride 1
After:   %v = "kernel.fft_input"(%x) {tile, window, pads}      : [points, tiles, C], spectra
         %m = "onnx.MatMul"(%v, %u)                                    : u [points, C, M], made from w, stored
         %0 = "kernel.fft_output"(%m, %b) {tile, window}
Where the weights stay in cache, one op does it a few tiles at a time, in scratch that main provides:
         %s = "kernel.scratch"()      %0 = "kernel.fft"(%x, %u, %s, %b) {tile, window, pads, group}
Tiles overlap by the window (overlap-save); a complex product takes three real ones (kernels/fft_points.py). A tile of
T×T does 1.5·T² multiplications for (T − K + 1)² results, where the direct sum does K² for each, on weights that grow by
1.5·T²/K²: the estimates of conv_costs.py weigh that, and another variant's tile is taken where that is about as good
(conv_costs.SHARED). One or two spatial axes.
Other bits than the direct sum, so never with `strict`: against float64 its rms error is 0.4 to 1.8 times the direct
sum's over 8 to 512 channels (tests/ops/test_convolution.py), but relative to the largest of a tile; an infinity or NaN
fills its tile. An op's attribute `algorithm` (conv_algorithms.py) goes before the estimate. Keeps: everything else.
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
)
from onnxc.passes.conv_costs import Machine, Shape
from onnxc.passes.kernels.fft_points import FftTile, transformed_weights
from onnxc.passes.kernels.point_products import block_elements
from onnxc.passes.kernels.scratch_pieces import PIECES
from onnxc.passes.transformed_constant import stored_transforms, transformed_constant

GAIN = 1.15  # what the estimate must promise


@transforms(GRAPH, GRAPH)
def use_fft(program: Program) -> None:
    """See the file's docstring."""
    if program.options.target is None:
        return
    machine = Machine.of(program)
    for op in convolutions(program.module):
        tile = _tile(program, op, machine)
        if tile is not None:
            _rewrite(program, op, tile)


def _tile(program: Program, op: OnnxOp, machine: Machine) -> FftTile | None:
    """The tile to use for `op`; None for another algorithm."""
    asked = requested(program, op)
    strict = program.options.strict
    if asked not in (None, "fft") or "fft" not in applicable_algorithms(op, machine.target, strict):
        return None
    stored = stored_transforms(program, op.operands[1].owner)
    return best_transform(op, machine, wanted=asked == "fft", stored=stored)


def best_transform(op: OnnxOp, machine: Machine, wanted: bool = False, stored: Collection[str] = ()) -> FftTile | None:
    """The tile with the lowest estimate; None where the direct sum is as good, unless this algorithm is `wanted`.

    `stored`: in what forms the weights are there already."""
    shape = Shape.of(op)
    cost, tile = conv_costs.best_fft(shape, machine)
    direct = conv_costs.direct(shape, machine)
    pays = wanted or cost * GAIN < direct
    most = conv_costs.SHARED * (cost if pays else direct)
    there = [other for other in conv_costs.fft_tiles(shape.window) if _name(other) in stored]
    costs = {other: conv_costs.fft(shape, other, machine) for other in there}
    near = [other for other in there if costs[other] <= most]
    return min(near, key=costs.__getitem__, default=tile if pays else None)


def _name(tile: FftTile) -> str:
    """Of the weights' form."""
    return f"fft{tile.extents[0]}x{tile.extents[1]}"


def _rewrite(program: Program, op: OnnxOp, tile: FftTile) -> None:
    w = Tensor.of(op.operands[1].type)
    u = transformed_constant(
        program,
        op.operands[1].owner,
        _name(tile),
        (tile.points, *w.shape[-2:]),
        lambda array: transformed_weights(array.reshape(*tile.window, *w.shape[-2:]), tile),
        ir.InsertionPoint(op.op),
    )
    group = conv_costs.fft_group(Shape.of(op), tile, program.options.target)
    out = _in_one(op, u, tile, group) if group else _in_steps(op, u, tile)
    some = f", {group} at a time" if group else ""
    extents = "x".join(map(str, tile.extents))
    program.log.append(("use_fft", f"{replace(op, out)}: tiles of {extents}{some}"))


def _in_one(op: OnnxOp, u: ir.Value, tile: FftTile, group: int) -> ir.Value:
    """All three steps for `group` tiles at a time."""
    x, result = Tensor.of(op.operands[0].type), Tensor.of(op.results[0].type)
    scratch = build_scratch(op, [PIECES, block_elements(tile.points, group, x.shape[-1], result.shape[-1])])
    attributes = {"tile": tile.extents, "window": tile.window, "pads": op.op.attributes["pads"], "group": group}
    return build_step(op, "kernel.fft", [op.operands[0], u, scratch, *bias_of(op)], result, attributes)


def _in_steps(op: OnnxOp, u: ir.Value, tile: FftTile) -> ir.Value:
    """Each step for all tiles, so that the weights are read once."""
    x, result = Tensor.of(op.operands[0].type), Tensor.of(op.results[0].type)
    tiles = dims.product(conv_costs.grid_of(Shape.of(op), tile))
    spectra = x.of_shape([tile.points, x.shape[0] * tiles, x.shape[-1]])
    attributes = {"tile": tile.extents, "window": tile.window}
    pads = {"pads": op.op.attributes["pads"]}
    moved = build_step(op, "kernel.fft_input", [op.operands[0]], spectra, {**attributes, **pads})
    type_ = spectra.of_shape([*spectra.shape[:2], result.shape[-1]]).type()
    products = build("MatMul", [moved, u], [type_], loc=op.op.location, ip=ir.InsertionPoint(op.op))
    return build_step(op, "kernel.fft_output", [products.results[0], *bias_of(op)], result, attributes)
