"""Kernel kind `softmax`: Softmax and LogSoftmax along the innermost axes.

Three sweeps over a row that stays in the L1 cache: the maximum (the operand, computed by its prologue, is kept in the
result's row), the sum of exp(x - max), the division. exp flushes results below 2^-126 to 0: denormals would be
computed in microcode, 4 to 8 times slower, and are nothing beside the row's largest term, which is 1.
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith

from onnxc.dialects import dims
from onnxc.dialects.types import Tensor
from onnxc.passes import maths
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels import scalars
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.evaluate import Evaluator, Lanes
from onnxc.passes.kernels.kernel_function import KernelFunction, Launch, worthwhile
from onnxc.passes.kernels.rows import larger, largest, piece_width, sweep, total


def launch(kernel: KernelFunction) -> Launch:
    shape = Tensor.of(kernel.root.results[0].type).dims
    return Launch(dims.product(shape[:-1]), worthwhile(shape[-1], cost=8))


def emit(b: KernelBuilder) -> None:
    ev, root, out = Evaluator(b), b.kernel.root, b.outputs[0]
    shape, elem = b.shape(root.results[0]), Tensor.of(root.results[0].type).elem
    length = shape[-1]
    width = piece_width(b, elem)
    scalar = scalars.element_type(elem)
    with b.loop(b.begin, b.end) as row, ev.scope():
        outer = im.unflattened(row, shape[:-1])
        base = im.mul(row, length)

        def load(i: im.Index, mask: ir.Value | None, best: list[ir.Value]) -> list[ir.Value]:
            with ev.scope():
                x = ev.at(root.operands[0], [*outer, i], Lanes(width, len(shape) - 1, mask))
            out.store_vector(x, im.add(base, i), mask)
            return [larger(best[0], x)]

        top = largest(sweep(b, length, elem, [scalars.constant(float("-inf"), scalar)], load)[0])

        def powers(i: im.Index, mask: ir.Value | None, carried: list[ir.Value]) -> list[ir.Value]:
            shifted = arith.subf(out.load_vector(im.add(base, i), width, mask), scalars.splat(top, width))
            e = maths.exp_of_decay(shifted)
            if root.name == "Softmax":
                out.store_vector(e, im.add(base, i), mask)
            return [arith.addf(carried[0], e)]

        denominator = total(sweep(b, length, elem, [scalars.constant(0, scalar)], powers)[0])
        _store(b, ev, outer, base, length, top, denominator)


def _store(b: KernelBuilder, ev: Evaluator, outer, base, length, top: ir.Value, denominator: ir.Value) -> None:
    root, out = b.kernel.root, b.outputs[0]
    elem = Tensor.of(root.results[0].type).elem
    width = piece_width(b, elem)
    if root.name == "Softmax":
        factor = arith.divf(scalars.constant_like(1, denominator), denominator)
    else:
        factor = maths.log(denominator)

    def finish(i: im.Index, mask: ir.Value | None, none: list[ir.Value]) -> list[ir.Value]:
        x = out.load_vector(im.add(base, i), width, mask)
        if root.name == "Softmax":
            y = arith.mulf(x, scalars.splat(factor, width))
        else:  # in two steps: top + log(…) would round what the difference needs
            y = arith.subf(arith.subf(x, scalars.splat(top, width)), scalars.splat(factor, width))
        point, lanes = [*outer, i], Lanes(width, len(outer), mask)
        with ev.scope():
            ev.seed(root.results[0], point, lanes, y)
            out.store_vector(ev.at(b.kernel.results[0], point, lanes), im.add(base, i), mask)
        return none

    sweep(b, length, elem, [], finish)
