"""Kernel kind `fft_input`: x [N, S, C] → [points, tiles, C], the spectrum of every input tile.

    kernel.fft_input(x) {tile, window, pads}
A unit is a tile; vectors run over channels. Lines along the inner axis are transformed into a buffer on the stack, a
line for each part of a bin, then those across it. Tiles overlap by the window and reach into the padding.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import arith, vector

from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import contraction, pointers, scalars
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels.builder import Buffer, KernelBuilder
from onnxc.passes.kernels.fft_points import PARTS, Vectors, line_points
from onnxc.passes.kernels.fft_problem import Images, channels_of, grid_of, tile_of
from onnxc.passes.kernels.kernel_function import ELEMENT, KernelFunction, Launch
from onnxc.passes.kernels.real_fft import complex_fft, real_fft


def launch(kernel: KernelFunction) -> Launch:
    grid, tile = grid_of(kernel.root), tile_of(kernel.root)
    x = Tensor.of(kernel.root.operands[0].type)
    return Launch(x.shape[0] * grid.tiles, ELEMENT * tile.height * tile.width * x.shape[-1])


def emit(b: KernelBuilder) -> None:
    transform, grid = InputTransform(b), grid_of(b.kernel.root)
    grid.walk(
        b,
        b.begin,
        im.sub(b.end, b.begin),
        lambda i, image, at: transform.apply(im.add(b.begin, i), image, at, b.outputs[0]),
    )


class InputTransform:
    """Emits the transform of one tile; made where the kernel's function begins."""

    def __init__(self, b: KernelBuilder):
        self.b, op = b, b.kernel.root
        self.x, self.tile = b.inputs[op.operands[0]], tile_of(op)
        self.channels = channels_of(op.operands[0])
        self.sums = contraction.arithmetic(self.x.elem, b.target)
        self.algebra, self.images = Vectors(self.sums), Images.of(self.x)
        pads = op.attr("pads")
        self.pads = [0] * (2 - len(pads) // 2) + list(pads[: len(pads) // 2])
        self.base, self.zeros = pointers.pointer(self.x.memory), pointers.zeros(b, self.x, self.channels)
        tile = self.tile
        self.lines = self.sums.room(tile.width * tile.height * self.sums.lanes) if tile.height > 1 else None

    def apply(self, place: im.Index, image: im.Index, at: Sequence[im.Index], out: Buffer) -> None:
        """The tile at row and column `at` of an image becomes tile `place` of `out` [points, tiles, C]."""
        corner = [im.sub(im.mul(i, step), pad) for i, step, pad in zip(at, self.tile.steps, self.pads, strict=True)]
        lanes = self.sums.lanes
        whole = self.channels // lanes * lanes
        if whole:
            with self.b.loop(0, whole, lanes) as channel:
                self._vector(image, corner, channel, None, out, place)
        if whole < self.channels:
            type_ = ir.VectorType.get([lanes], ir.IntegerType.get_signless(1))
            mask = vector.create_mask(type_, [im.value(self.channels - whole)])
            self._vector(image, corner, whole, mask, out, place)

    def _vector(self, image, corner, channel: im.Index, mask: ir.Value | None, out: Buffer, place: im.Index) -> None:
        b, tile = self.b, self.tile
        start = im.add(im.mul(place, out.strides[1]), channel)

        def store(point: im.Index, values: Sequence[ir.Value]) -> None:
            for i, v in enumerate(values):
                at = im.add(start, im.mul(out.strides[0], im.add(point, i)))
                out.store_vector(self.sums.narrow(v), at, mask)

        if self.lines is None:
            bins = real_fft(self.algebra, self._line(image, corner, 0, channel, mask))
            ends = [bins[0], bins[-1], *bins[1:-1]]
            store(0, [part for bin_ in ends for part in self._parts(*bin_)])
            return
        with b.loop(0, tile.height) as i:
            bins = real_fft(self.algebra, self._line(image, corner, i, channel, mask))
            ends = [bins[0][0], bins[-1][0], *(part for bin_ in bins[1:-1] for part in bin_)]
            for part, v in enumerate(ends):
                self.lines.store_vector(v, im.mul(im.add(i, part * tile.height), self.sums.lanes))
        with b.loop(0, 2) as line:
            bins = real_fft(self.algebra, self._across(line))
            ends = [bins[0], bins[-1], *bins[1:-1]]
            store(im.mul(line, line_points(tile.height)), [part for bin_ in ends for part in self._parts(*bin_)])
        with b.loop(0, tile.width // 2 - 1) as k:
            line = im.add(im.mul(k, 2), 2)
            bins = complex_fft(self.algebra, list(zip(self._across(line), self._across(im.add(line, 1)), strict=True)))
            first = im.add(im.mul(k, PARTS * tile.height), 2 * line_points(tile.height))
            store(first, [part for bin_ in bins for part in self._parts(*bin_)])

    def _parts(self, re: ir.Value, im_part: ir.Value | None) -> list[ir.Value]:
        """What a bin's products are of: a real one's is itself."""
        return [re] if im_part is None else [scalars.add(re, im_part), re, im_part]

    def _across(self, line: im.Index) -> list[ir.Value]:
        lanes, height = self.sums.lanes, self.tile.height
        first = im.mul(line, height * lanes)
        return [self.lines.load_vector(im.add(first, i * lanes), lanes) for i in range(height)]

    def _line(self, image, corner, i: im.Index, channel: im.Index, mask: ir.Value | None) -> list[ir.Value]:
        """Line `i` of the tile along the inner axis: zeros outside x."""
        x, inner = self.x, self.tile.inner
        outer = 1 - inner
        across = im.add(corner[outer], i)
        inside = im.within(across, self.images.extents[outer])
        start = im.add(im.mul(image, self.images.image_stride), im.mul(across, self.images.strides[outer]))
        values = []
        for j in range(self.tile.width):
            along = im.add(corner[inner], j)
            within = im.within(along, self.images.extents[inner])
            at = im.add(start, im.mul(along, self.images.strides[inner]))
            pixel = arith.select(arith.andi(inside, within), pointers.advance(self.base, at, x.elem), self.zeros)
            pixel = pointers.advance(pixel, channel, x.elem)
            values.append(self.sums.widen(pointers.load_vector(pixel, self.sums.lanes, x.elem, mask)))
        return values
