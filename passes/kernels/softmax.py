"""Kernel kind `softmax`: Softmax and LogSoftmax along the innermost axes.

Three sweeps over a row that stays in the L1 cache: the maximum (an operand that a prologue computes is kept in the
result's row), the sum of exp(x - max), the division; a few rows go side by side. exp flushes results below 2^-126 to
0: denormals would be computed in microcode, 4 to 8 times slower, and are nothing beside the row's largest term, which
is 1.
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
from onnxc.passes.kernels.kernel_function import ELEMENT, KernelFunction, Launch
from onnxc.passes.kernels.rows import in_blocks, larger, largest, piece_width, rows_at_once, sweep, total

MOST_ROWS = 2  # side by side: their powers are independent


def launch(kernel: KernelFunction) -> Launch:
    shape = Tensor.of(kernel.root.results[0].type).dims
    return Launch(dims.product(shape[:-1]), 2 * ELEMENT * shape[-1])


def emit(b: KernelBuilder) -> None:
    in_blocks(b, rows_at_once(b, Tensor.of(b.kernel.root.results[0].type).elem, MOST_ROWS), _Rows(b).run)


class _Rows:
    """Emits some rows side by side."""

    def __init__(self, b: KernelBuilder):
        self.b, self.ev, self.root, self.out = b, Evaluator(b), b.kernel.root, b.outputs[0]
        self.shape, self.elem = b.shape(self.root.results[0]), Tensor.of(self.root.results[0].type).elem
        self.length, self.width = self.shape[-1], piece_width(b, self.elem)
        self.exponential = self.root.name == "Softmax"
        self.stored = self.root.operands[0] not in b.inputs
        self.source = self.out if self.stored else b.inputs[self.root.operands[0]]

    def run(self, rows: list[im.Index]) -> None:
        b, scalar = self.b, scalars.element_type(self.elem)
        self.bases = [im.mul(row, self.length) for row in rows]
        self.points = [im.unflattened(row, self.shape[:-1]) for row in rows]
        with self.ev.scope():
            low = [scalars.constant(float("-inf"), scalar)] * len(rows)
            self.tops = [largest(v) for v in sweep(b, self.length, self.elem, low, self._load)]
            zeros = [scalars.constant(0, scalar)] * len(rows)
            sums = [total(v) for v in sweep(b, self.length, self.elem, zeros, self._powers)]
            one = scalars.constant_like(1, sums[0])
            self.factors = [arith.divf(one, v) if self.exponential else maths.log(v) for v in sums]
            sweep(b, self.length, self.elem, [], self._finish)

    def _load(self, i: im.Index, mask: ir.Value | None, best: list[ir.Value]) -> list[ir.Value]:
        after = []
        for base, outer, most in zip(self.bases, self.points, best, strict=True):
            with self.ev.scope():
                x = self.ev.at(self.root.operands[0], [*outer, i], Lanes(self.width, len(self.shape) - 1, mask))
            if self.stored:
                self.out.store_vector(x, im.add(base, i), mask)
            after.append(larger(most, x))
        return after

    def _below_top(self, row: int, i: im.Index, mask: ir.Value | None) -> ir.Value:
        x = self.source.load_vector(im.add(self.bases[row], i), self.width, mask)
        return arith.subf(x, scalars.splat(self.tops[row], self.width))

    def _powers(self, i: im.Index, mask: ir.Value | None, carried: list[ir.Value]) -> list[ir.Value]:
        after = []
        for row, sums in enumerate(carried):
            e = maths.exp_of_decay(self._below_top(row, i, mask))
            if self.exponential:
                self.out.store_vector(e, im.add(self.bases[row], i), mask)
            after.append(arith.addf(sums, e))
        return after

    def _finish(self, i: im.Index, mask: ir.Value | None, none: list[ir.Value]) -> list[ir.Value]:
        lanes = Lanes(self.width, len(self.shape) - 1, mask)
        for row, (base, outer) in enumerate(zip(self.bases, self.points, strict=True)):
            factor = scalars.splat(self.factors[row], self.width)
            if self.exponential:
                y = arith.mulf(self.out.load_vector(im.add(base, i), self.width, mask), factor)
            else:  # in two steps: top + log(…) would round what the difference needs
                y = arith.subf(self._below_top(row, i, mask), factor)
            with self.ev.scope():
                self.ev.seed(self.root.results[0], [*outer, i], lanes, y)
                self.out.store_vector(self.ev.at(self.b.kernel.results[0], [*outer, i], lanes), im.add(base, i), mask)
        return none
