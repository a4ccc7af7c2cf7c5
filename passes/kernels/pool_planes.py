"""Kernel kind `pool_planes`: pools that are left in the native order of axes (batch, channel, space).

MaxPool with indices, pools whose pads depend on run-time sizes, and LpPool. One element of the result at a time.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, math

from onnxc.dialects import dims
from onnxc.dialects.types import Tensor
from onnxc.passes import maths
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels import scalars
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.kernel_function import ELEMENT, KernelFunction, Launch
from onnxc.passes.kernels.reduce import lowest
from onnxc.passes.kernels.window import Window
from onnxc.passes.layouts.windows import spatial, window_pads


def launch(kernel: KernelFunction) -> Launch:
    shape = Tensor.of(kernel.root.results[0].type).dims
    work = dims.product([*kernel.root.attr("kernel_shape"), *shape[2:]])
    return Launch(dims.product(shape[:2]), 4 * ELEMENT * work)


def emit(b: KernelBuilder) -> None:
    pool = _Pool(b)
    shape = b.shape(b.kernel.root.results[0])
    with b.loop(b.begin, b.end) as plane:
        pixels = im.product(shape[2:])
        with b.loop(0, pixels) as pixel:
            value, where = pool.element(plane, im.unflattened(pixel, shape[2:]))
            at = im.add(im.mul(plane, pixels), pixel)
            b.outputs[0].store_flat(value, at)
            if len(b.outputs) > 1:
                b.outputs[1].store_flat(arith.index_cast(ir.IntegerType.get_signless(64), where), at)


@dataclass
class _Element:
    """What one input element is joined with: the value so far, and where its maximum is."""

    value: ir.Value
    where: ir.Value


class _Pool:
    def __init__(self, b: KernelBuilder):
        self.b, self.op = b, b.kernel.root
        self.source = b.inputs[self.op.operands[0]]
        kernel = list(self.op.attr("kernel_shape"))
        rank = len(kernel)
        pads = [b.dim(p) for p in window_pads(self.op, kernel)]
        self.sizes = self.source.shape[2:]
        self.window = Window(
            tuple(kernel),
            tuple(spatial(self.op, "strides", rank)),
            tuple(spatial(self.op, "dilations", rank)),
            tuple(pads[:rank]),
            tuple(pads[rank:]),
        )
        self.type = scalars.element_type(self.source.elem)

    def element(self, plane: ir.Value, out: list[im.Index]) -> tuple[ir.Value, ir.Value]:
        """The pooled value and the position of its maximum."""
        name = self.op.name
        starts = [self.window.start(axis, i) for axis, i in enumerate(out)]
        taps = [self.window.taps(axis, s, n) for axis, (s, n) in enumerate(zip(starts, self.sizes, strict=True))]
        start = scalars.constant(lowest(self.source.elem) if name == "MaxPool" else 0, self.type)
        found = self._visit(plane, starts, taps, [], _Element(start, im.value(0)))
        value = found.value
        if name == "AveragePool":
            value = scalars.div(value, self._count(starts, taps))
        if name == "LpPool":
            p = self.op.attr("p", 2)
            value = (
                math.sqrt(value)
                if p == 2
                else value
                if p == 1
                else maths.pow(value, scalars.constant_like(1 / p, value))
            )
        return value, found.where

    def _visit(self, plane: ir.Value, starts, taps, position: list[im.Index], so_far: _Element) -> _Element:
        axis = len(position)
        if axis == len(starts):
            return self._join(plane, position, so_far)

        def step(tap: ir.Value, value: ir.Value, where: ir.Value) -> list[ir.Value]:
            at = im.add(starts[axis], im.mul(tap, self.window.dilations[axis]))
            new = self._visit(plane, starts, taps, [*position, at], _Element(value, where))
            return [new.value, new.where]

        return _Element(*self.b.reduce(*taps[axis], 1, [so_far.value, so_far.where], step))

    def _join(self, plane: ir.Value, position: list[im.Index], so_far: _Element) -> _Element:
        base = im.mul(plane, im.product(self.sizes))
        x = self.source.load_flat(im.add(base, _flat(position, self.sizes)))
        if self.op.name == "AveragePool":
            return _Element(scalars.add(so_far.value, x), so_far.where)
        if self.op.name == "LpPool":
            p, size = self.op.attr("p", 2), math.absf(x)
            term = arith.mulf(x, x) if p == 2 else size if p == 1 else maths.pow(size, scalars.constant_like(p, x))
            return _Element(scalars.add(so_far.value, term), so_far.where)
        wins = scalars.compare(x, ">", so_far.value, scalars.is_unsigned(self.source.elem))
        columns_first = self.op.attr("storage_order", 0)
        place = _flat(position[::-1], self.sizes[::-1]) if columns_first else _flat(position, self.sizes)
        where = arith.select(wins, im.value(im.add(base, place)), so_far.where)
        return _Element(scalars.maximum(so_far.value, x, scalars.is_unsigned(self.source.elem)), where)

    def _count(self, starts, taps) -> ir.Value:
        if self.op.attr("count_include_pad", 0):
            counts = [
                self.window.counted(axis, s, n) for axis, (s, n) in enumerate(zip(starts, self.sizes, strict=True))
            ]
        else:
            counts = [im.sub(last, first) for first, last in taps]
        i64 = arith.index_cast(ir.IntegerType.get_signless(64), im.value(im.maximum(im.product(counts), 1)))
        return scalars.cast(i64, "i64", self.source.elem)


def _flat(position: list[im.Index], sizes: list[im.Index]) -> im.Index:
    total: im.Index = 0
    for i, n in zip(position, sizes, strict=True):
        total = im.add(im.mul(total, n), i)
    return total
