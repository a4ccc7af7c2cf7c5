"""This file tells in which order a kernel comes by its result, and how much of its operand it has read by then.

Units of a kernel's extent go through the result in blocks of pixels (all axes but the last, in row-major order), and a
block reads the rows of x that its windows meet. Kinds whose kernels do so have `order(kernel) -> RowOrder | None`, None
where a size is not known. Kernels that follow each other can then take turns (passes/interleave_kernels.py).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

from onnxc.dialects import dims
from onnxc.passes.kernels.kernel_function import KernelFunction


@dataclass(frozen=True)
class RowOrder:
    """`bounds`: the result's pixel at which each block begins, and their number at the end; `units` of the extent a
    block. The windows' outermost spatial axis: `window` taps, `stride`, `dilation`, `pad` before, over `height` rows of
    `width` pixels in each of `images` of operand number `operand`, give `out_height` rows of `out_width`."""

    operand: int
    bounds: tuple[int, ...]
    units: int
    images: int
    height: int
    width: int
    out_height: int
    out_width: int
    window: int = 1
    stride: int = 1
    dilation: int = 1
    pad: int = 0

    @property
    def blocks(self) -> int:
        return len(self.bounds) - 1

    def reads(self, first: int, end: int) -> tuple[int, int]:
        """The pixels of x [from, to) that the result's pixels `first` … `end` - 1 are made from, and some between."""
        begin, _ = self._row_reads(first // self.out_width)
        _, stop = self._row_reads((end - 1) // self.out_width)
        return begin * self.width, max(begin, stop) * self.width

    def _row_reads(self, row: int) -> tuple[int, int]:
        image, at = divmod(row, self.out_height)
        corner = at * self.stride - self.pad
        low, high = corner, corner + (self.window - 1) * self.dilation + 1
        base = image * self.height
        return base + min(max(low, 0), self.height), base + min(max(high, 0), self.height)

    def block_of(self, pixel: int) -> int:
        """The block that makes a pixel of the result."""
        return bisect_right(self.bounds, pixel) - 1

    def blocks_for(self, pixels: int) -> int:
        """How many blocks make the result's first `pixels` pixels."""
        return bisect_left(self.bounds, pixels)


def of_windows(
    operand: int,
    sizes: Sequence[dims.Dim],
    outs: Sequence[dims.Dim],
    images: dims.Dim,
    axis: tuple[int, int, int, int],
    bounds: Sequence[int],
    units: int,
) -> RowOrder:
    """Of known spatial sizes, `axis` being (taps, stride, dilation, pad) of the outermost one."""
    width, out_width = dims.product(sizes[1:]), dims.product(outs[1:])
    return RowOrder(operand, tuple(bounds), units, images, sizes[0], width, outs[0], out_width, *axis)


def of_pixels(operand: int, pixels: int, bounds: Sequence[int], units: int) -> RowOrder:
    """Where each pixel of the result is made from the same one of x."""
    return RowOrder(operand, tuple(bounds), units, 1, pixels, 1, pixels, 1)


def read_once(kernel: KernelFunction) -> int | None:
    """Which operand the root reads by windows, if it is one of the kernel's and nothing else of the kernel reads it."""
    x = kernel.root.operands[0]
    return kernel.operands.index(x) if x in kernel.operands and sum(1 for _ in x.uses) == 1 else None


def known(*sizes: dims.Dim) -> bool:
    """Whether all are positive numbers."""
    return all(isinstance(size, int) and size > 0 for size in sizes)
