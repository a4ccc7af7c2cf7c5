"""Kernel kind `normalization`: LayerNormalization and RMSNormalization over the innermost axes, in one pass of a row.

Mean, then the mean of squares about it (the two-pass form: no cancellation), then the scaled result. An operand that a
prologue computes is kept in the result's row between the sweeps. A few rows go side by side, so that gains and shifts
are read once for all of them.
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
from onnxc.passes.kernels.kernel_function import ELEMENT, KernelFunction, Launch
from onnxc.passes.kernels.rows import in_blocks, piece_width, rows_at_once, sweep, total

MOST_ROWS = 2  # side by side


def axis_of(kernel: KernelFunction) -> int:
    return kernel.root.attr("axis", -1) % len(Tensor.of(kernel.root.operands[0].type).dims)


def launch(kernel: KernelFunction) -> Launch:
    shape, axis = Tensor.of(kernel.root.results[0].type).dims, axis_of(kernel)
    length = dims.product(shape[axis:])
    return Launch(dims.product(shape[:axis]), ELEMENT * length)


def emit(b: KernelBuilder) -> None:
    in_blocks(b, rows_at_once(b, Tensor.of(b.kernel.root.results[0].type).elem, MOST_ROWS), _Rows(b).run)


class _Rows:
    """Emits some rows side by side."""

    def __init__(self, b: KernelBuilder):
        self.b, self.ev, self.root, self.out = b, Evaluator(b), b.kernel.root, b.outputs[0]
        self.shape, self.elem = b.shape(self.root.results[0]), Tensor.of(self.root.results[0].type).elem
        self.axis, self.width = axis_of(b.kernel), piece_width(b, self.elem)
        self.length = im.product(self.shape[self.axis :])
        self.stored = self.root.operands[0] not in b.inputs  # what the prologue computes is kept in the result's row
        self.source = self.out if self.stored else b.inputs[self.root.operands[0]]

    def run(self, rows: list[im.Index]) -> None:
        b, root = self.b, self.root
        self.bases = [im.mul(row, self.length) for row in rows]
        self.points = [_row_point(im.unflattened(row, self.shape[: self.axis]), len(self.shape)) for row in rows]
        with self.ev.scope():
            zeros = [scalars.constant(0, scalars.element_type(self.elem))] * len(rows)
            i64 = arith.index_cast(ir.IntegerType.get_signless(64), im.value(self.length))
            count = scalars.cast(i64, "i64", self.elem)
            firsts = [arith.divf(total(v), count) for v in sweep(b, self.length, self.elem, zeros, self._load)]
            if root.name == "RMSNormalization":
                self.means, variances = zeros, firsts
            else:
                self.means = firsts
                sums = sweep(b, self.length, self.elem, zeros, self._squares)
                variances = [arith.divf(total(v), count) for v in sums]
            epsilon = scalars.constant(root.attr("epsilon", 1e-5), variances[0].type)
            one = scalars.constant(1, variances[0].type)
            self.scales = [arith.divf(one, math.sqrt(arith.addf(v, epsilon))) for v in variances]
            sweep(b, self.length, self.elem, [], self._finish)
            for result, values in zip(b.outputs[1:], (self.means, self.scales), strict=False):
                for row, v in zip(rows, values, strict=True):
                    result.store_flat(v, row)

    def _load(self, i: im.Index, mask: ir.Value | None, carried: list[ir.Value]) -> list[ir.Value]:
        after = []
        for base, at, sums in zip(self.bases, self.points, carried, strict=True):
            with self.ev.scope():
                x = self.ev.at(self.root.operands[0], at(i), Lanes(self.width, len(self.shape) - 1, mask))
            if self.stored:
                self.out.store_vector(x, im.add(base, i), mask)
            after.append(arith.addf(sums, x if self.root.name != "RMSNormalization" else arith.mulf(x, x)))
        return after

    def _about_mean(self, row: int, i: im.Index, mask: ir.Value | None) -> ir.Value:
        x = self.source.load_vector(im.add(self.bases[row], i), self.width, mask)
        return arith.subf(x, scalars.splat(self.means[row], self.width))

    def _squares(self, i: im.Index, mask: ir.Value | None, carried: list[ir.Value]) -> list[ir.Value]:
        after = []
        for row, sums in enumerate(carried):
            d = self._about_mean(row, i, mask)
            fused = self.b.target.has_fma
            after.append(math.fma(d, d, sums) if fused else arith.addf(sums, arith.mulf(d, d)))
        return after

    def _finish(self, i: im.Index, mask: ir.Value | None, none: list[ir.Value]) -> list[ir.Value]:
        with self.ev.scope():
            gain, shift = self._parameter(1, i, mask), self._parameter(2, i, mask)
        lanes = Lanes(self.width, len(self.shape) - 1, mask)
        for row, (base, at) in enumerate(zip(self.bases, self.points, strict=True)):
            y = arith.mulf(self._about_mean(row, i, mask), scalars.splat(self.scales[row], self.width))
            y = y if gain is None else arith.mulf(y, gain)
            y = y if shift is None else arith.addf(y, shift)
            with self.ev.scope():
                self.ev.seed(self.root.results[0], at(i), lanes, y)
                self.out.store_vector(self.ev.at(self.b.kernel.results[0], at(i), lanes), im.add(base, i), mask)
        return none

    def _parameter(self, position: int, i: im.Index, mask: ir.Value | None) -> ir.Value | None:
        v = self.root.operands[position] if position < len(self.root.operands) else None
        if v is None:
            return None
        shape = Tensor.of(v.type).dims
        if v in self.b.inputs and shape == Tensor.of(self.root.results[0].type).dims[self.axis :]:
            return self.b.inputs[v].load_vector(i, self.width, mask)
        return _spread(self.ev, v, shape, i, self.width, mask)


def _row_point(outer: list[im.Index], rank: int):
    """The point of position `i` of a row: normalised axes are one run along the innermost."""
    return lambda i: [*outer, *[0] * (rank - len(outer) - 1), i]


def _spread(ev: Evaluator, v: ir.Value, shape, i: im.Index, width: int, mask: ir.Value | None) -> ir.Value:
    """A parameter that is one value for all of the row."""
    if Tensor.of(v.type).numel == 1:
        return scalars.splat(ev.at(v, [0] * len(shape)), width)
    return ev.at(v, [*[0] * (len(shape) - 1), i], Lanes(width, len(shape) - 1, mask))
