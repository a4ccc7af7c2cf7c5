"""Kernel kind `resize`: nearest, linear and cubic, along any axes; see passes/expand_resize.py for the op.

Along each resized axis an output position has a few taps: positions in the input and their weights. They are computed
outside the innermost loop where the innermost axis is kept (channels last), so that loop is a plain weighted sum.
Coordinates are computed in f32, as onnxruntime does: nearest must round the same way.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, math

from onnxc.dialects import dims
from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels import scalars
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.evaluate import SCALAR, Evaluator
from onnxc.passes.kernels.kernel_function import ELEMENT, KernelFunction, Launch


@dataclass
class Tap:
    """One input position along an axis, and its weight (None: 1)."""

    position: im.Index
    weight: ir.Value | None = None


def launch(kernel: KernelFunction) -> Launch:
    shape = Tensor.of(kernel.root.results[0].type).dims
    return Launch(dims.product(shape[:-1]), 8 * ELEMENT * shape[-1])


def emit(b: KernelBuilder) -> None:
    resize = Resize(b)
    shape = b.shape(b.kernel.root.results[0])
    last = len(shape) - 1
    ev = Evaluator(b)
    with b.loop(b.begin, b.end) as row:
        outer = im.unflattened(row, shape[:-1])
        taps = [resize.taps(axis, i) for axis, i in enumerate(outer)]
        with b.loop(0, shape[-1]) as column, ev.scope():
            value = resize.value([*taps, resize.taps(last, column)])
            point = [*outer, column]
            ev.seed(b.kernel.root.results[0], point, SCALAR, value)
            b.outputs[0].store(ev.at(b.kernel.results[0], point), point)


class Resize:
    """The coordinates and weights of one kernel."""

    def __init__(self, b: KernelBuilder):
        self.b, self.root = b, b.kernel.root
        attributes = self.root.op.attributes
        self.source = b.inputs[self.root.operands[0]]
        self.scales = list(ir.DenseF32ArrayAttr(attributes["scales"]))
        self.axes = list(ir.DenseI64ArrayAttr(attributes["axes"]))
        self.mode = ir.StringAttr(attributes["mode"]).value
        self.result = b.shape(self.root.results[0])
        self.f32 = ir.F32Type.get()

    def text(self, name: str, default: str) -> str:
        attributes = self.root.op.attributes
        return ir.StringAttr(attributes[name]).value if name in attributes else default

    def kept(self, axis: int) -> bool:
        same = Tensor.of(self.root.operands[0].type).dims[axis] == Tensor.of(self.root.results[0].type).dims[axis]
        return same and self.scales[axis] == 1.0

    def scale(self, axis: int) -> ir.Value:
        """The factor of an axis, f32."""
        known = self.scales[axis]
        if known > 0:
            return self.constant(known)
        if known < 0:
            given = self.b.inputs[self.root.operands[1]]
            return given.load([self.axes.index(axis)])
        return arith.divf(self.number(self.result[axis]), self.number(self.source.shape[axis]))

    def constant(self, x: float) -> ir.Value:
        return arith.constant(self.f32, x)

    def number(self, i: im.Index) -> ir.Value:
        return arith.sitofp(self.f32, arith.index_cast(ir.IntegerType.get_signless(64), im.value(i)))

    def coordinate(self, axis: int, i: im.Index) -> ir.Value:
        """Where output position i lies in the input, f32."""
        mode = self.text("coordinate_transformation_mode", "half_pixel")
        x, half, scale = self.number(i), self.constant(0.5), self.scale(axis)
        if mode == "asymmetric":
            return arith.divf(x, scale)
        if mode == "align_corners":
            room = self.number(im.maximum(im.sub(self.result[axis], 1), 1))
            return arith.divf(arith.mulf(x, self.number(im.sub(self.source.shape[axis], 1))), room)
        y = arith.subf(arith.divf(arith.addf(x, half), scale), half)
        if mode == "pytorch_half_pixel":
            single = im.compare(self.result[axis], ">", 1)
            return (
                y
                if single is True
                else self.constant(0.0)
                if single is False
                else arith.select(single, y, self.constant(0.0))
            )
        if mode == "half_pixel_symmetric":
            size = self.number(self.source.shape[axis])
            adjustment = arith.divf(self.number(self.result[axis]), arith.mulf(scale, size))
            centre = arith.divf(size, self.constant(2.0))
            offset = arith.mulf(centre, arith.subf(self.constant(1.0), adjustment))
            return arith.subf(
                arith.addf(offset, arith.divf(arith.addf(x, half), scale)), half
            )  # rounds as onnxruntime's
        return y

    def taps(self, axis: int, i: im.Index) -> list[Tap]:
        if self.kept(axis):
            return [Tap(i)]
        x = self.coordinate(axis, i)
        if self.mode == "nearest":
            return [Tap(self.clamped(axis, self.nearest(x)))]
        if self.mode == "linear":
            return self.linear(axis, x)
        floor = math.floor(x)
        return self.cubic(axis, self.index(floor), arith.subf(x, floor))

    def linear(self, axis: int, x: ir.Value) -> list[Tap]:
        """The coordinate is clamped to the input first, as the border is repeated."""
        top = self.number(im.sub(self.source.shape[axis], 1))
        zero = self.constant(0.0)
        x = arith.select(arith.cmpf(4, x, zero), zero, x)
        x = arith.select(arith.cmpf(2, x, top), top, x)
        floor = math.floor(x)
        fraction = arith.subf(x, floor)
        base = self.index(floor)
        rest = arith.subf(self.constant(1.0), fraction)
        return [Tap(self.clamped(axis, base), rest), Tap(self.clamped(axis, im.add(base, 1)), fraction)]

    def cubic(self, axis: int, base: im.Index, t: ir.Value) -> list[Tap]:
        """Keys' kernel with parameter a, over four taps."""
        attributes = self.root.op.attributes
        a = ir.FloatAttr(attributes["cubic_coeff_a"]).value if "cubic_coeff_a" in attributes else -0.75
        exclude = "exclude_outside" in attributes and ir.IntegerAttr(attributes["exclude_outside"]).value

        def near(s: ir.Value) -> ir.Value:  # |s| ≤ 1
            s2 = arith.mulf(s, s)
            cube = arith.mulf(self.constant(a + 2), arith.mulf(s2, s))
            return arith.addf(arith.subf(cube, arith.mulf(self.constant(a + 3), s2)), self.constant(1.0))

        def far(s: ir.Value) -> ir.Value:  # 1 < |s| < 2
            inner = arith.addf(arith.mulf(self.constant(a), s), self.constant(-5 * a))
            inner = arith.addf(arith.mulf(inner, s), self.constant(8 * a))
            return arith.addf(arith.mulf(inner, s), self.constant(-4 * a))

        one = self.constant(1.0)
        back = arith.subf(one, t)
        weights = [far(arith.addf(t, one)), near(t), near(back), far(arith.addf(back, one))]
        positions = [im.add(base, k - 1) for k in range(4)]
        if exclude:
            weights = self.inside_only(axis, positions, weights)
        return [Tap(self.clamped(axis, p), w) for p, w in zip(positions, weights, strict=True)]

    def inside_only(self, axis: int, positions: list[im.Index], weights: list[ir.Value]) -> list[ir.Value]:
        size = self.source.shape[axis]
        kept = []
        for p, w in zip(positions, weights, strict=True):
            inside = im.both(im.compare(p, ">=", 0), im.compare(p, "<", size))
            kept.append(arith.select(inside, w, self.constant(0.0)))
        total = kept[0]
        for w in kept[1:]:
            total = arith.addf(total, w)
        return [arith.divf(w, total) for w in kept]

    def nearest(self, x: ir.Value) -> im.Index:
        mode, half = self.text("nearest_mode", "round_prefer_floor"), self.constant(0.5)
        if mode == "floor":
            return self.index(math.floor(x))
        if mode == "ceil":
            return self.index(math.ceil(x))
        if mode == "round_prefer_ceil":
            return self.index(math.floor(arith.addf(x, half)))
        return self.index(math.ceil(arith.subf(x, half)))

    def index(self, x: ir.Value) -> im.Index:
        """A whole f32 as an index; out of range is caught by the guarded cast and the clamp that follows."""
        return arith.index_cast(ir.IndexType.get(), scalars.cast(x, "f32", "i64"))

    def clamped(self, axis: int, i: im.Index) -> im.Index:
        return im.maximum(im.minimum(i, im.sub(self.source.shape[axis], 1)), 0)

    def value(self, taps: list[list[Tap]]) -> ir.Value:
        """The weighted sum over the product of all axes' taps, outermost axis last to be joined."""
        elem = self.source.elem
        total = self._sum(taps, [])
        return total if self.mode == "nearest" else scalars.cast(total, "f32", elem) if elem != "f32" else total

    def _sum(self, taps: list[list[Tap]], point: list[im.Index]) -> ir.Value:
        if not taps:
            v = self.source.load(point)
            return (
                v if self.mode == "nearest" or self.source.elem == "f32" else scalars.cast(v, self.source.elem, "f32")
            )
        total = None
        for tap in taps[0]:
            v = self._sum(taps[1:], [*point, tap.position])
            v = v if tap.weight is None else arith.mulf(tap.weight, v)
            total = v if total is None else arith.addf(total, v)
        return total
