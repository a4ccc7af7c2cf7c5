"""Kernel kind `winograd_output`: products [points², tiles, M] → [N, H, W, M], with bias and epilogue.

Or planes of volumes, [N, D, H, W, M], as many images (winograd_points.Depth). A unit is a row of tiles; vectors run
over filters. Pixels of the last tiles beyond the result are left out.
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import vector

from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import contraction, scalars
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels.builder import Buffer, KernelBuilder
from onnxc.passes.kernels.evaluate import Evaluator, Lanes
from onnxc.passes.kernels.kernel_function import ELEMENT, KernelFunction, Launch
from onnxc.passes.kernels.winograd_points import SIZES, Depth, Transforms, images_of


def launch(kernel: KernelFunction) -> Launch:
    op = kernel.root
    result = Tensor.of(op.results[0].type)
    rows, columns = op.attr("tiles")
    return Launch(images_of(op) * rows, ELEMENT * SIZES[op.attr("tile")] ** 2 * columns * result.shape[-1])


def emit(b: KernelBuilder) -> None:
    op = b.kernel.root
    transform = OutputTransform(b, op.operands[1] if len(op.operands) > 1 else None)
    rows, columns = op.attr("tiles")
    with b.loop(b.begin, b.end) as unit:
        image, row = im.floordiv(unit, rows), im.mod(unit, rows)
        with b.loop(0, columns) as column:
            number = im.add(im.mul(unit, columns), column)
            transform.tile(b.inputs[op.operands[0]], number, [image, row, column])


class OutputTransform:
    """Emits the transform of one tile's products; made where the kernel's function begins."""

    def __init__(self, b: KernelBuilder, bias: ir.Value | None):
        self.b, self.op, self.bias, self.ev = b, b.kernel.root, bias, Evaluator(b)
        self.result = self.op.results[0]
        self.sums = contraction.arithmetic(Tensor.of(self.result.type).elem, b.target)
        self.size = self.op.attr("tile")
        # a long epilogue wants the registers that the other pixels of the tile would hold
        costly = contraction.has_costly_epilogue(b.kernel)
        self.room = self.sums.room(self.size**2 * self.sums.lanes) if costly else None

    def tile(self, products: Buffer, number: im.Index, place: list[im.Index]) -> None:
        """Tile `number` of `products` [points, tiles, M] becomes the result's at (image, row, column)."""
        filters, lanes = Tensor.of(self.result.type).shape[-1], self.sums.lanes
        whole = filters // lanes * lanes
        if whole:
            with self.b.loop(0, whole, lanes) as first, self.ev.scope():
                self._vector(products, number, place, first, None)
        if whole < filters:
            type_ = ir.VectorType.get([lanes], ir.IntegerType.get_signless(1))
            with self.ev.scope():
                mask = vector.create_mask(type_, [im.value(filters - whole)])
                self._vector(products, number, place, whole, mask)

    def _vector(self, products: Buffer, number: im.Index, place: list[im.Index], first: im.Index, mask) -> None:
        """The pixels' filters from `first` on."""
        sums, points = self.sums, SIZES[self.size]
        start = im.add(im.mul(number, products.strides[1]), first)
        places = [im.add(start, im.mul(products.strides[0], i)) for i in range(points * points)]
        values = [sums.widen(products.load_vector(at, sums.lanes, mask)) for at in places]
        transforms = Transforms(sums, self.size)
        lines = [values[i : i + points] for i in range(0, points * points, points)]
        after = [v for line in transforms.square(lines, transforms.outputs) for v in line]
        if self.bias is not None:
            offset = sums.widen(self.ev.at(self.bias, (first,), Lanes(sums.lanes, 0, mask)))
            after = [scalars.add(v, offset) for v in after]
        image, *corner = [place[0], *(im.mul(i, self.size) for i in place[1:])]
        (self._store_each if self.room is None else self._store_by_loop)(after, image, corner, first, mask)

    def _store_each(self, after: list[ir.Value], image: im.Index, corner: list[im.Index], first, mask) -> None:
        for number, v in enumerate(after):
            own = divmod(number, self.size)
            at = [im.add(start, i) for start, i in zip(corner, own, strict=True)]
            with self.b.when(self._inside(at, own)), self.ev.scope():
                self._store(v, [image, *at, first], mask)

    def _store_by_loop(self, after: list[ir.Value], image: im.Index, corner: list[im.Index], first, mask) -> None:
        lanes = self.sums.lanes
        for number, v in enumerate(after):
            self.room.store_vector(v, number * lanes)
        extents = self.b.shape(self.result)[-3:-1]
        rows, columns = (
            self.size if isinstance(d, int) and d % self.size == 0 else im.minimum(im.sub(d, start), self.size)
            for d, start in zip(extents, corner, strict=True)
        )
        with self.b.loop(0, rows) as i, self.b.loop(0, columns) as j, self.ev.scope():
            v = self.room.load_vector(im.mul(im.add(im.mul(i, self.size), j), lanes), lanes)
            self._store(v, [image, im.add(corner[0], i), im.add(corner[1], j), first], mask)

    def _store(self, v: ir.Value, point: list[im.Index], mask: ir.Value | None) -> None:
        """The epilogue at one pixel."""
        point = [*self._outer(point[0]), *point[1:]]
        lanes = Lanes(self.sums.lanes, len(point) - 1, mask)
        contraction.store_tile(
            self.b,
            self.ev,
            self.result,
            lambda _: lanes,
            lambda r, _: point,
            1,
            1,
            lambda p, at, total: self.sums.narrow(total),
            [v],
        )

    def _outer(self, image: im.Index) -> list[im.Index]:
        """The result's coordinates of an image, or of a plane of a volume."""
        if len(Tensor.of(self.result.type).shape) == 4:
            return [image]
        planes = Depth.of(self.op).out
        return [im.floordiv(image, planes), im.mod(image, planes)]

    def _inside(self, at: list[im.Index], own: tuple[int, int]) -> bool | ir.Value:
        inside: bool | ir.Value = True
        for i, within, extent in zip(at, own, self.b.shape(self.result)[-3:-1], strict=True):
            last = None if not isinstance(extent, int) else (extent - 1) % self.size
            if last is None or within > last:  # only in the last row or column of tiles can it lie outside
                inside = im.both(inside, im.compare(i, "<", extent))
        return inside
