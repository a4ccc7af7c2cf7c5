"""Kernel kind `fft_output`: products [points, tiles, M] → [N, S, M], the inverse transforms, with bias and epilogue.

    kernel.fft_output(products, bias?) {tile, window}
A unit is a tile; vectors run over filters. Of what the transforms give back, the tile's first `steps` rows and columns
are results; those beyond the image are left out.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import vector

from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import contraction, scalars
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels.builder import Buffer, KernelBuilder
from onnxc.passes.kernels.evaluate import Evaluator, Lanes
from onnxc.passes.kernels.fft_points import PARTS, Vectors, line_points
from onnxc.passes.kernels.fft_problem import Images, channels_of, grid_of, tile_of
from onnxc.passes.kernels.kernel_function import ELEMENT, KernelFunction, Launch
from onnxc.passes.kernels.real_fft import Bin, inverse_complex_fft, inverse_real_fft


def launch(kernel: KernelFunction) -> Launch:
    grid, tile = grid_of(kernel.root), tile_of(kernel.root)
    result = Tensor.of(kernel.root.results[0].type)
    return Launch(result.shape[0] * grid.tiles, ELEMENT * tile.height * tile.width * result.shape[-1])


def emit(b: KernelBuilder) -> None:
    op = b.kernel.root
    transform = OutputTransform(b, op.operands[1] if len(op.operands) > 1 else None)
    grid_of(op).walk(
        b,
        b.begin,
        im.sub(b.end, b.begin),
        lambda i, image, at: transform.apply(im.add(b.begin, i), image, at, b.inputs[op.operands[0]]),
    )


class OutputTransform:
    """Emits the inverse transform of one tile; made where the kernel's function begins. `lines`: an InputTransform's
    buffer to use."""

    def __init__(self, b: KernelBuilder, bias: ir.Value | None, lines: Buffer | None = None):
        self.b, self.op, self.bias, self.ev = b, b.kernel.root, bias, Evaluator(b)
        self.tile = tile_of(self.op)
        self.result = self.op.results[0]
        self.sums = contraction.arithmetic(Tensor.of(self.result.type).elem, b.target)
        self.algebra = Vectors(self.sums)
        shape = b.shape(self.result)
        self.images = Images.of(Buffer(b.outputs[0].memory, self.sums.elem, shape, [0] * len(shape)))
        tile = self.tile
        own = lines is None and tile.height > 1
        self.lines = self.sums.room(tile.width * tile.height * self.sums.lanes) if own else lines

    def apply(self, place: im.Index, image: im.Index, at: Sequence[im.Index], products: Buffer) -> None:
        """Tile `place` of `products` [points, tiles, M] becomes the tile at row and column `at` of an image."""
        corner = [im.mul(i, step) for i, step in zip(at, self.tile.steps, strict=True)]
        lanes, filters = self.sums.lanes, channels_of(self.result)
        whole = filters // lanes * lanes
        if whole:
            with self.b.loop(0, whole, lanes) as first, self.ev.scope():
                self._vector(products, place, image, corner, first, None)
        if whole < filters:
            type_ = ir.VectorType.get([lanes], ir.IntegerType.get_signless(1))
            mask = vector.create_mask(type_, [im.value(filters - whole)])
            with self.ev.scope():
                self._vector(products, place, image, corner, whole, mask)

    def _vector(self, products: Buffer, place, image, corner, first: im.Index, mask: ir.Value | None) -> None:
        b, tile, lanes = self.b, self.tile, self.sums.lanes
        start = im.add(im.mul(place, products.strides[1]), first)

        def load(point: im.Index, count: int) -> list[ir.Value]:
            places = [im.add(start, im.mul(products.strides[0], im.add(point, i))) for i in range(count)]
            return [self.sums.widen(products.load_vector(at, lanes, mask)) for at in places]

        offset = None
        if self.bias is not None:
            offset = self.sums.widen(self.ev.at(self.bias, (first,), Lanes(lanes, 0, mask)))
        if self.lines is None:
            bins = self._line_of(load(0, tile.points))
            self._store(inverse_real_fft(self.algebra, bins), image, corner, first, mask, offset)
            return
        self._across(load)
        steps = tile.steps[1 - tile.inner]
        rows = im.minimum(im.sub(self.images.extents[1 - tile.inner], corner[1 - tile.inner]), steps)
        with b.loop(0, rows) as i, self.ev.scope():
            places = [im.mul(im.add(i, part * tile.height), lanes) for part in range(tile.width)]
            ends = [self.lines.load_vector(at, lanes) for at in places]
            bins = [(ends[0], None), *zip(ends[2::2], ends[3::2], strict=True), (ends[1], None)]
            at = list(corner)
            at[1 - tile.inner] = im.add(at[1 - tile.inner], i)
            self._store(inverse_real_fft(self.algebra, bins), image, at, first, mask, offset)

    def _across(self, load) -> None:
        """The transforms back across the inner axis, into the lines of the buffer."""
        b, tile = self.b, self.tile
        with b.loop(0, 2) as line:
            values = load(im.mul(line, line_points(tile.height)), line_points(tile.height))
            self._keep(line, inverse_real_fft(self.algebra, self._line_of(values)))
        with b.loop(0, tile.width // 2 - 1) as k:
            first = im.add(im.mul(k, PARTS * tile.height), 2 * line_points(tile.height))
            bins = inverse_complex_fft(self.algebra, self._bins(load(first, PARTS * tile.height)))
            line = im.add(im.mul(k, 2), 2)
            self._keep(line, [re for re, _ in bins])
            self._keep(im.add(line, 1), [imaginary for _, imaginary in bins])

    def _keep(self, line: im.Index, values: Sequence[ir.Value]) -> None:
        tile, lanes = self.tile, self.sums.lanes
        start = im.mul(line, tile.height * lanes)
        for i, v in enumerate(values[: tile.steps[1 - tile.inner]]):
            self.lines.store_vector(v, im.add(start, i * lanes))

    def _bins(self, products: Sequence[ir.Value]) -> list[Bin]:
        """The sums of a complex bin from its three products."""
        triples = zip(products[0::3], products[1::3], products[2::3], strict=True)
        return [(scalars.sub(p, r), scalars.add(p, q)) for p, q, r in triples]

    def _line_of(self, products: Sequence[ir.Value]) -> list[Bin]:
        """The bins of a real line from its points."""
        if len(products) == 1:
            return [(products[0], None)]
        return [(products[0], None), *self._bins(products[2:]), (products[1], None)]

    def _store(self, values: Sequence[ir.Value], image, corner, first, mask, offset: ir.Value | None) -> None:
        """A line of results, through the epilogue."""
        tile, lanes = self.tile, Lanes(self.sums.lanes, self.images.spatial + 1, mask)
        extent, steps = self.images.extents[tile.inner], tile.steps[tile.inner]
        last = (extent - 1) % steps if isinstance(extent, int) else 0
        for j, v in enumerate(values[:steps]):
            at = list(corner)
            at[tile.inner] = im.add(at[tile.inner], j)
            point = self.images.point(image, at, first)
            v = v if offset is None else scalars.add(v, offset)
            inside = True if j <= last else im.compare(at[tile.inner], "<", extent)
            with self.b.when(inside), self.ev.scope():
                contraction.store_tile(
                    self.b,
                    self.ev,
                    self.result,
                    lambda _: lanes,
                    lambda r, _, point=point: point,
                    1,
                    1,
                    lambda p, a, total: self.sums.narrow(total),
                    [v],
                )
