"""What a convolution computes: the attributes of `kernel.conv` and the extents they lead to, channels last."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from mlir import ir

from onnxc.dialects import dims
from onnxc.dialects.onnx import OnnxOp
from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels import row_order, scalars
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.contraction import BLOCK, Arithmetic
from onnxc.passes.kernels.evaluate import Evaluator, Lanes
from onnxc.passes.kernels.kernel_function import KernelFunction
from onnxc.passes.kernels.row_order import RowOrder

Dim = dims.Dim


@dataclass(frozen=True)
class Conv:
    """result[n, s', m] = bias[m] + Σ over taps and channels of x[n, s'·strides + tap·dilations - pads, c]·w[tap, c, m].

    `channels` and `filters` are those of one group; `size` is x's spatial shape, `out` the result's.
    """

    op: OnnxOp
    elem: str
    images: Dim
    size: tuple[Dim, ...]
    out: tuple[Dim, ...]
    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    pads: tuple[int, ...]  # before
    padded: bool  # anywhere
    group: int
    channels: Dim
    filters: Dim
    row: Dim  # elements of x from one pixel to the next

    @property
    def pixels(self) -> Dim:
        return self.images * dims.product(self.out)

    @property
    def taps(self) -> int:
        return dims.product(self.kernel)

    @property
    def taps_a_block(self) -> int:
        """Taps whose terms are one block of the sum (contraction.BLOCK); with one channel and filter a group, where
        they are several blocks, as many as end with an index of the window's first axis."""
        if not (isinstance(self.channels, int) and self.channels):
            return 1
        inner = dims.product(self.kernel[1:])
        if (
            self.channels == self.filters == 1
            and self.group > 1
            and len(self.kernel) > 1
            and inner <= BLOCK < self.taps
        ):
            return BLOCK // inner * inner
        return max(1, BLOCK // self.channels)

    @property
    def dense(self) -> bool:
        """Whether the pixels of the result are just those of x: a matmul."""
        return self.taps == 1 and set(self.strides) == {1} and not self.padded

    @classmethod
    def of(cls, kernel: KernelFunction) -> Conv:
        """Of a kernel's root; packed weights have lost the window, which the kernel noted then."""
        op, attributes = kernel.root, kernel.func.attributes
        if "kernel.window" in attributes:
            window = list(ir.DenseI64ArrayAttr(attributes["kernel.window"]))
        else:
            window = Tensor.of(op.operands[1].type).shape[:-2]
        return replace(cls.of_op(op, window), row=kernel.row(op.operands[0]))

    @classmethod
    def of_op(cls, op: OnnxOp, window: Sequence[int]) -> Conv:
        """Of an op whose x is dense."""
        x, result = Tensor.of(op.operands[0].type), Tensor.of(op.results[0].type)
        group = op.attr("group")
        rank = len(x.shape) - 2
        strides, dilations = op.attr("strides"), op.attr("dilations")
        channels, filters = x.shape[-1], result.shape[-1]
        return cls(
            op,
            x.elem,
            x.shape[0],
            tuple(x.shape[1:-1]),
            tuple(result.shape[1:-1]),
            tuple(window),
            tuple(strides),
            tuple(dilations),
            tuple(op.attr("pads")[:rank]),
            any(op.attr("pads")),
            group,
            channels // group,
            filters // group,
            channels,
        )

    def row_order(self, kernel: KernelFunction, bounds: Callable[[], Sequence[int]], units: int) -> RowOrder | None:
        """How the kernel's units go through its result, `bounds()` being the pixels where blocks begin, and the end."""
        x = row_order.read_once(kernel)
        if x is None or not row_order.known(self.images, *self.size, *self.out):
            return None
        if self.dense:
            return row_order.of_pixels(x, self.pixels, bounds(), units)
        axis = (self.kernel[0], self.strides[0], self.dilations[0], self.pads[0])
        return row_order.of_windows(x, self.size, self.out, self.images, axis, bounds(), units)

    def with_bias(self, ev: Evaluator, sums: Arithmetic, channel: im.Index, lanes: Lanes, total: ir.Value) -> ir.Value:
        """The result's elements from `channel` on, for their sums over taps and channels."""
        bias = self.op.operands[2] if len(self.op.operands) > 2 else None
        if bias is not None:
            total = scalars.add(total, sums.widen(ev.at(bias, (channel,), Lanes(lanes.width, 0, lanes.mask))))
        return sums.narrow(total)


@dataclass
class Pixels:
    """The pixels of one row tile: where each lies in the result, and where its window starts in x."""

    points: list[list[im.Index]]  # image, spatial coordinates
    corners: list[list[im.Index]]  # of the window in x; negative in the padding
    offsets: list[im.Index]  # of the corner, in x's elements


def pixels_of(b: KernelBuilder, p: Conv, first: im.Index, count: int) -> Pixels:
    """`count` pixels in row-major order from pixel number `first`, without a division per pixel."""
    extents = [b.dim(p.images), *(b.dim(d) for d in p.out)]
    size = [b.dim(d) for d in p.size]
    row = [b.dim(p.row)]
    for extent in reversed(size):
        row.append(im.mul(row[-1], extent))
    steps = row[::-1]  # elements of x per image, row …, pixel
    point: list[im.Index] = []
    number = first
    for extent in reversed(extents[1:]):
        point.append(im.mod(number, extent))
        number = im.floordiv(number, extent)
    point = [number, *point[::-1]]
    points, corners, offsets = [], [], []
    for i in range(count):
        if i:
            point = _next(point, extents)
        corner = [im.sub(im.mul(o, s), pad) for o, s, pad in zip(point[1:], p.strides, p.pads, strict=True)]
        offset: im.Index = im.mul(point[0], steps[0])
        for at, step in zip(corner, steps[1:], strict=True):
            offset = im.add(offset, im.mul(at, step))
        points.append(point)
        corners.append(corner)
        offsets.append(offset)
    return Pixels(points, corners, offsets)


def _next(point: list[im.Index], extents: list[im.Index]) -> list[im.Index]:
    following = list(point)
    carry: bool | ir.Value = True
    for axis in reversed(range(1, len(point))):
        after = im.add(point[axis], im.select(carry, 1, 0))
        carry = im.compare(after, "==", extents[axis])
        following[axis] = im.select(carry, 0, after)
    following[0] = im.add(point[0], im.select(carry, 1, 0))
    return following
