"""graph -> graph: convolutions with large windows are done by Fourier transforms of tiles.

Before:  %0 = "kernel.conv"(%x, %w, %b) {pads = [5, 5, 5, 5], …}      : 11×11, say, stride 1
After:   %v = "kernel.fft_input"(%x) {tile, window, tiles, pads}      : [points, tiles, C], spectra
         %m = "onnx.MatMul"(%v, %u)                                    : u [points, C, M], made from w, stored
         %0 = "kernel.fft_output"(%m, %b) {tile, window, tiles}
Tiles overlap by the window (overlap-save); a complex product takes three real ones (kernels/fft_points.py). A tile of
T×T does 1.5·T² multiplications for (T − K + 1)² results, where the direct sum does K² for each, on weights that grow by
1.5·T²/K²: the estimates of conv_costs.py weigh that. One or two spatial axes.
Other bits than the direct sum (errors: docs/performance.md), so never with `strict`. An op's attribute `algorithm`
(conv_algorithms.py) goes before the estimate. Keeps: everything else.
"""

from __future__ import annotations

from mlir import ir

from onnxc.dialects.levels import GRAPH
from onnxc.dialects.onnx import OnnxOp, build
from onnxc.dialects.types import Tensor
from onnxc.passes import conv_costs
from onnxc.passes.contract import Program, transforms
from onnxc.passes.conv_algorithms import applicable_algorithms, requested
from onnxc.passes.conv_costs import Machine, Shape
from onnxc.passes.kernels.fft_points import FftTile, transformed_weights
from onnxc.passes.rewriting import functions, operations
from onnxc.passes.transformed_constant import transformed_constant

GAIN = 1.15  # what the estimate must promise


@transforms(GRAPH, GRAPH)
def use_fft(program: Program) -> None:
    """See the file's docstring."""
    if getattr(program.options, "target", None) is None:
        return
    machine = Machine.of(program)
    for function in functions(program.module):
        for op in [o for o in operations(function.regions[0].blocks[0]) if o.name == "kernel.conv"]:
            tile = _tile(program, OnnxOp(op), machine)
            if tile is not None:
                _rewrite(program, OnnxOp(op), tile)


def _tile(program: Program, op: OnnxOp, machine: Machine) -> FftTile | None:
    """The tile to use for `op`; None for another algorithm."""
    asked = requested(program, op)
    strict = getattr(program.options, "strict", False)
    if asked not in (None, "fft") or "fft" not in applicable_algorithms(op, machine.target, strict):
        return None
    return best_transform(op, machine, wanted=asked == "fft")


def best_transform(op: OnnxOp, machine: Machine, wanted: bool = False) -> FftTile | None:
    """The tile with the lowest estimate; None where the direct sum is as good, unless this algorithm is `wanted`."""
    shape = Shape.of(op)
    cost, tile = conv_costs.best_fft(shape, machine)
    return tile if wanted or cost * GAIN < conv_costs.direct(shape, machine) else None


def _rewrite(program: Program, op: OnnxOp, tile: FftTile) -> None:
    x, w, result = (Tensor.of(v.type) for v in (op.operands[0], op.operands[1], op.results[0]))
    loc, ip = op.op.location, ir.InsertionPoint(op.op)
    grid = conv_costs.grid_of(Shape.of(op), tile)
    tiles = x.shape[0] * (grid[0] * grid[1])
    shared = {"tile": _array(tile.extents), "window": _array(tile.window), "tiles": _array(grid)}
    moved = ir.Operation.create(
        "kernel.fft_input",
        results=[x.of_shape([tile.points, tiles, x.shape[-1]]).type()],
        operands=[op.operands[0]],
        attributes={**shared, "pads": op.op.attributes["pads"]},
        loc=loc,
        ip=ip,
    )
    u = transformed_constant(
        program,
        op.operands[1].owner,
        f"fft{tile.extents[0]}x{tile.extents[1]}",
        (tile.points, *w.shape[-2:]),
        lambda array: transformed_weights(array.reshape(*tile.window, *w.shape[-2:]), tile),
        ip,
    )
    type_ = x.of_shape([tile.points, tiles, w.shape[-1]]).type()
    products = build("MatMul", [moved.results[0], u], [type_], loc=loc, ip=ip)
    out = ir.Operation.create(
        "kernel.fft_output",
        results=[result.type()],
        operands=[products.results[0], *(v for v in op.operands[2:] if v is not None)],
        attributes=shared,
        loc=loc,
        ip=ip,
    )
    op.results[0].replace_all_uses_with(out.results[0])
    op.op.erase()
    program.log.append(("use_fft", f"{OnnxOp(out).node}: tiles of {tile.extents[0]}x{tile.extents[1]}"))


def _array(values) -> ir.Attribute:
    return ir.DenseI64ArrayAttr.get(list(values))
