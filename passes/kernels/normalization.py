"""Kernel kind `normalization`: LayerNormalization and RMSNormalization over the innermost axes, in one pass of a row.

Mean, then the mean of squares about it (the two-pass form: no cancellation), then the scaled result; the operand,
computed by its prologue, is kept in the result's row between the sweeps, so it is read once.
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith, math

from onnxc.dialects import dims
from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels import scalars
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.evaluate import Evaluator, Lanes
from onnxc.passes.kernels.kernel_function import KernelFunction, Launch, worthwhile
from onnxc.passes.kernels.rows import piece_width, sweep, total


def axis_of(kernel: KernelFunction) -> int:
    return kernel.root.attr("axis", -1) % len(Tensor.of(kernel.root.operands[0].type).dims)


def launch(kernel: KernelFunction) -> Launch:
    shape, axis = Tensor.of(kernel.root.results[0].type).dims, axis_of(kernel)
    length = dims.product(shape[axis:])
    return Launch(dims.product(shape[:axis]), worthwhile(length, cost=4))


def emit(b: KernelBuilder) -> None:
    ev, root, out, axis = Evaluator(b), b.kernel.root, b.outputs[0], axis_of(b.kernel)
    shape, elem = b.shape(root.results[0]), Tensor.of(root.results[0].type).elem
    length, width = im.product(shape[axis:]), piece_width(b, elem)
    zero = scalars.constant(0, scalars.element_type(elem))
    i64 = arith.index_cast(ir.IntegerType.get_signless(64), im.value(length))
    count = scalars.cast(i64, "i64", elem)
    with b.loop(b.begin, b.end) as row, ev.scope():
        base = im.mul(row, length)
        at = _row_point(im.unflattened(row, shape[:axis]), len(shape))

        def load(i: im.Index, mask: ir.Value | None, carried: list[ir.Value]) -> list[ir.Value]:
            with ev.scope():
                x = ev.at(root.operands[0], at(i), Lanes(width, len(shape) - 1, mask))
            out.store_vector(x, im.add(base, i), mask)
            return [arith.addf(carried[0], x if root.name != "RMSNormalization" else arith.mulf(x, x))]

        first = arith.divf(total(sweep(b, length, elem, [zero], load)[0]), count)
        if root.name == "RMSNormalization":
            mean, variance = zero, first
        else:
            mean = first

            def squares(i: im.Index, mask: ir.Value | None, carried: list[ir.Value]) -> list[ir.Value]:
                d = arith.subf(out.load_vector(im.add(base, i), width, mask), scalars.splat(mean, width))
                return [math.fma(d, d, carried[0]) if b.target.has_fma else arith.addf(carried[0], arith.mulf(d, d))]

            variance = arith.divf(total(sweep(b, length, elem, [zero], squares)[0]), count)
        epsilon = scalars.constant(root.attr("epsilon", 1e-5), variance.type)
        scale = arith.divf(scalars.constant(1, variance.type), math.sqrt(arith.addf(variance, epsilon)))
        _store(b, ev, at, base, length, mean, scale)
        for result, v in zip(b.outputs[1:], (mean, scale), strict=False):
            result.store_flat(v, row)


def _row_point(outer: list[im.Index], rank: int):
    """The point of position `i` of a row: normalised axes are one run along the innermost."""
    return lambda i: [*outer, *[0] * (rank - len(outer) - 1), i]


def _store(b: KernelBuilder, ev: Evaluator, at, base, length, mean: ir.Value, scale: ir.Value) -> None:
    root, out = b.kernel.root, b.outputs[0]
    rank, elem = len(b.shape(root.results[0])), Tensor.of(root.results[0].type).elem
    width, axis = piece_width(b, elem), axis_of(b.kernel)

    def parameter(position: int, i: im.Index, mask: ir.Value | None) -> ir.Value | None:
        v = root.operands[position] if position < len(root.operands) else None
        if v is None:
            return None
        shape = Tensor.of(v.type).dims
        if shape == Tensor.of(root.results[0].type).dims[axis:]:
            return b.inputs[v].load_vector(i, width, mask) if v in b.inputs else _spread(ev, v, shape, i, width, mask)
        return _spread(ev, v, shape, i, width, mask)

    def finish(i: im.Index, mask: ir.Value | None, none: list[ir.Value]) -> list[ir.Value]:
        x = arith.subf(out.load_vector(im.add(base, i), width, mask), scalars.splat(mean, width))
        y = arith.mulf(x, scalars.splat(scale, width))
        with ev.scope():
            gain, shift = parameter(1, i, mask), parameter(2, i, mask)
            y = y if gain is None else arith.mulf(y, gain)
            y = y if shift is None else arith.addf(y, shift)
            lanes = Lanes(width, rank - 1, mask)
            ev.seed(root.results[0], at(i), lanes, y)
            out.store_vector(ev.at(b.kernel.results[0], at(i), lanes), im.add(base, i), mask)
        return none

    sweep(b, length, elem, [], finish)


def _spread(ev: Evaluator, v: ir.Value, shape, i: im.Index, width: int, mask: ir.Value | None) -> ir.Value:
    """A parameter that is one value for all of the row."""
    if Tensor.of(v.type).numel == 1:
        return scalars.splat(ev.at(v, [0] * len(shape)), width)
    return ev.at(v, [*[0] * (len(shape) - 1), i], Lanes(width, len(shape) - 1, mask))
