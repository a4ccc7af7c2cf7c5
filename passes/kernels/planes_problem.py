"""What a convolution of planes computes, and the patch on the stack that its kernel reads (see conv_planes.py).

The patch has a line for each (channel, row of x, phase): the elements of the row whose number leaves `phase` when it is
divided by the last stride. Rows of the result that follow each other share rows of x, so those are a ring: the few that
the next row needs beside this one's take the places of others. They are copied before this row is summed: stores wait
for those of results before them, and loads for stores that they meet in part. Where no tap reads beside a pixel, a line
goes on with the next row's pixels: the image is one row (`flat`), whatever its sides are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import gcd

from mlir import ir
from mlir.dialects import vector

from onnxc.dialects import dims
from onnxc.dialects.onnx import OnnxOp
from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import contraction, plane_rows, pointers, scalars
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.contraction import Arithmetic
from onnxc.passes.kernels.conv_problem import Conv
from onnxc.passes.kernels.kernel_function import KernelFunction
from onnxc.passes.lowering.registry import ELEMENTWISE

PATCH_BYTES = 36 << 10  # stays in L1, and is little enough for any stack
MOST_STRIDE = 4  # along the last axis: vectors are taken apart by shuffles
RUN = 64  # pixels of a run, at least
FLAT_RUN = 48  # of a flat one, whose line is a vector longer
WHOLE = 0.75  # of its vectors that a row must fill
FLAT_WHOLE = 0.875  # that a flat image must: of few rows, turned ones fill tiles just so
CHANNELS = 16  # whose pixels are copied by the same masks: as many pages of x


def problem(op: OnnxOp) -> Conv:
    """The op as a Conv, whose shapes are told by what the axes mean."""
    x, w, result = (Tensor.of(v.type).shape for v in (op.operands[0], op.operands[1], op.results[0]))
    group, count = op.attr("group"), len(x) - 2
    pads = op.attr("pads")
    return with_rows(
        Conv(
            op,
            Tensor.of(op.results[0].type).elem,
            x[0],
            tuple(x[2:]),
            tuple(result[2:]),
            tuple(w[1:-1]),
            tuple(op.attr("strides")),
            tuple(op.attr("dilations")),
            tuple(pads[:count]),
            any(pads),
            group,
            w[-1],
            result[1] // group,
            x[-1],
        )
    )


def of_kernel(kernel: KernelFunction) -> Conv:
    """What a kernel computes; the pixels of a flat image are one row, if all else that the kernel does allows it."""
    p = problem(kernel.root)
    if not (is_flat(p) and _one_axis(kernel)):
        return p
    return replace(p, out=(*[1] * (len(p.out) - 1), dims.product(p.out)))


def is_flat(p: Conv) -> bool:
    """Whether no tap reads beside a pixel."""
    return p.taps == 1 and not p.padded


def _one_axis(kernel: KernelFunction) -> bool:
    """Whether pixels need not be told apart by rows: all that the epilogue reads has all of them or is the same for
    each."""
    result = Tensor.of(kernel.root.results[0].type).shape
    others = [op for op in kernel.ops if op.op != kernel.root.op]
    if any(op.name not in ELEMENTWISE for op in others) or any(v not in kernel.operands for v in kernel.root.operands):
        return False
    shapes = [Tensor.of(v.type).shape for op in others for v in (*op.operands, *op.results) if v is not None]
    pixels = [shape[-(len(result) - 2) :] for shape in shapes]
    return all(own == result[2:] or all(d == 1 for d in own) for own in pixels)


def with_rows(p: Conv) -> Conv:
    """The same with at least two spatial axes: a line is a plane of one row."""
    if len(p.size) > 1:
        return p
    ones = {name: (1, *getattr(p, name)) for name in ("size", "out", "kernel", "strides", "dilations")}
    return replace(p, pads=(0, *p.pads), **ones)


def applies(given: Conv) -> bool:
    """Few terms, so that a run of useful length fits, and a last axis that fills vectors."""
    p = with_rows(given)
    known = isinstance(p.channels, int) and isinstance(p.filters, int)
    if not known or p.elem not in ("f32", "f64") or p.strides[-1] > MOST_STRIDE:
        return False
    fits = (
        1 <= p.taps * p.channels <= contraction.BLOCK and patch_bytes(p, FLAT_RUN if is_flat(p) else RUN) <= PATCH_BYTES
    )
    if is_flat(p):
        return fits and fills_vectors(dims.product(p.out), FLAT_WHOLE)
    return fits and fills_vectors(p.out[-1])


def fills_vectors(width: dims.Dim, share: float = WHOLE) -> bool:
    """Whether a row of so many elements fills this share of whole vectors; one whose length only a run tells may."""
    return not isinstance(width, int) or width >= share * (-(-width // 16) * 16)


def shares_rows(p: Conv) -> bool:
    """Whether rows of the result that follow each other read some of x's rows together, and a patch has room for both
    one's rows and the next one's."""
    together = p.dilations[-2] == 1 and p.strides[-2] < p.kernel[-2]
    return together and _patch_bytes(p, RUN, p.kernel[-2] + p.strides[-2]) <= PATCH_BYTES


def ring(p: Conv) -> int:
    """Rows of x in the patch, for one place of the window on the axes before."""
    return p.kernel[-2] + p.strides[-2] if shares_rows(p) else p.kernel[-2]


def turns(p: Conv) -> int:
    """Rows of the result until the ring is as it was: the first row of the window lies where it lay."""
    return ring(p) // gcd(ring(p), p.strides[-2]) if shares_rows(p) else 1


def phases(p: Conv) -> list[int]:
    """Remainders modulo the last stride at which some tap reads."""
    return sorted({tap * p.dilations[-1] % p.strides[-1] for tap in range(p.kernel[-1])})


def reach(p: Conv) -> int:
    """Elements of a line behind a pixel's own that its taps meet."""
    return (p.kernel[-1] - 1) * p.dilations[-1] // p.strides[-1]


def line_length(p: Conv, run: int) -> int:
    """Elements that a line of the patch holds for so many pixels."""
    return -(-(-(-run // 16) * 16 + reach(p)) // 16) * 16 + (16 if is_flat(p) else 0)


def lines(p: Conv, rows: int) -> int:
    """Lines of a patch: a channel's rows of x, apart by the phase of the stride."""
    return p.channels * dims.product(p.kernel[:-2]) * rows * len(phases(p))


def patch_bytes(p: Conv, run: int) -> int:
    return _patch_bytes(p, run, ring(p))


def _patch_bytes(p: Conv, run: int, rows: int) -> int:
    return lines(p, rows) * line_length(p, run) * max(4, scalars.byte_width(p.elem))


class PlanesPatch:
    """Lines of `length` elements for `run` pixels of a row; made where the kernel's function begins."""

    def __init__(self, b: KernelBuilder, p: Conv, sums: Arithmetic, run: int):
        self.b, self.p, self.sums = b, p, sums
        self.x = b.inputs[p.op.operands[0]]
        self.base = pointers.pointer(self.x.memory)
        self.size = [b.dim(d) for d in p.size]
        self.image = [b.dim(d) for d in problem(p.op).out]  # rows and columns of the result
        self.ring, self.phases, self.length = ring(p), phases(p), line_length(p, run)
        self.room = sums.room(lines(p, self.ring) * self.length)

    def places(self) -> list[int]:
        """Where each term's first pixel lies, for each turn of the ring."""
        p, places = self.p, []
        for turn, tap in product(range(turns(p)), range(p.taps)):
            lead, column = divmod(tap, p.kernel[-1])
            lead, row = divmod(lead, p.kernel[-2])
            row = (row + turn * p.strides[-2]) % self.ring
            shift, phase = divmod(column * p.dilations[-1], p.strides[-1])
            for channel in range(p.channels):
                line = (channel * dims.product(p.kernel[:-2]) + lead) * self.ring + row
                line = line * len(self.phases) + self.phases.index(phase)
                places.append(line * self.length + shift)
        return places

    def fill(
        self, channel: im.Index, before: Sequence[im.Index], rows: tuple[im.Index, im.Index], first: im.Index, length
    ) -> None:
        """Copies the lines that the taps meet, `length` elements of each; zeros where they lie outside x.

        `channel`: number of the first one's plane in x; `before`: a row's coordinates in the result, from whose pixel
        `first` on. `rows`: its number, and how many there are: beside its own lines, which are there but for the first
        one's, it is the next one's that are copied."""
        b, p = self.b, self.p
        (number, count), stride, own = rows, p.strides[-2], p.kernel[-2]
        left = im.sub(im.mul(first, p.strides[-1]), p.pads[-1])
        begin: im.Index = 0
        end: im.Index = own
        if shares_rows(p):
            begin = im.select(im.compare(number, "==", 0), 0, own)
            end = im.select(im.compare(im.add(number, 1), "<", count), own + stride, own)
        lead = dims.product(p.kernel[:-2])
        with b.loop(0, p.channels) as c, b.loop(0, lead) as place, b.loop(begin, end) as down:
            row = im.add(channel, c)
            inside: bool | ir.Value = True
            taps = [*im.unflattened(place, p.kernel[:-2]), down]
            for axis, (o, t) in enumerate(zip(before, taps, strict=True)):
                i = im.sub(im.add(im.mul(o, p.strides[axis]), im.mul(t, p.dilations[axis])), p.pads[axis])
                if p.padded:
                    inside = im.both(inside, im.both(im.compare(i, ">=", 0), im.compare(i, "<", self.size[axis])))
                row = im.add(im.mul(row, self.size[axis]), i)
            width = im.select(inside, self.size[-1], 0)
            source = im.mul(row, self.size[-1])
            slot = im.mod(im.add(im.mul(number, stride), down), self.ring) if shares_rows(p) else down
            line = im.add(im.mul(im.add(im.mul(c, lead), place), self.ring), slot)
            line = im.mul(line, len(self.phases) * self.length)
            with b.loop(0, length, self.sums.lanes) as at:
                self._copy(source, width, im.add(left, im.mul(at, p.strides[-1])), im.add(line, at))

    def _copy(self, source: im.Index, width: im.Index, column: im.Index, place: im.Index) -> None:
        """A vector of each phase from x's `column` on, at `place` of the first phase's line."""
        b, lanes, stride = self.b, self.sums.lanes, self.p.strides[-1]
        full = im.both(im.compare(column, ">=", 0), im.compare(im.add(column, lanes * stride), "<=", width))
        for condition, masked in ((full, False), (im.negate(full), True)):
            with b.when(condition):
                columns = [im.add(column, i * lanes) for i in range(stride)]
                masks = [plane_rows.inside(lanes, first, width) if masked else None for first in columns]
                vectors = self._vectors(source, columns, masks)
                for i, phase in enumerate(self.phases):
                    self.room.store_vector(plane_rows.every(vectors, stride, phase), im.add(place, i * self.length))

    def _vectors(self, source: im.Index, columns: Sequence[im.Index], masks: Sequence[ir.Value | None]) -> list:
        """A vector of x from each of these columns of the row that begins at element `source`."""
        elem, lanes = self.x.elem, self.sums.lanes
        starts = [pointers.advance(self.base, im.add(source, column), elem) for column in columns]
        loaded = [pointers.load_vector(at, lanes, elem, mask) for at, mask in zip(starts, masks, strict=True)]
        return [self.sums.widen(v) for v in loaded]

    def fill_flat(self, channel: im.Index, first: im.Index, vectors: im.Index) -> None:
        """Copies so many vectors of pixels from pixel number `first` of the image, row after row.

        A row's last vector may overwrite what follows: the next row's pixels come after it, and behind the last one
        there is room. Pixels beyond the run are zeros, or those of x that follow."""
        b, p, lanes, width = self.b, self.p, self.sums.lanes, self.image[-1]
        pixels = im.product(self.image)
        begin = im.floordiv(first, width)
        stop = im.minimum(im.add(first, im.mul(vectors, lanes)), pixels)
        end = im.floordiv(im.add(stop, im.sub(width, 1)), width)
        step = min(CHANNELS, p.channels)
        with b.loop(0, p.channels, step) as some, b.loop(begin, end) as row:
            number: im.Index = 0
            for o, extent, stride in zip(im.unflattened(row, self.image[:-1]), self.size, p.strides, strict=False):
                number = im.add(im.mul(number, extent), im.mul(o, stride))
            start = im.mul(row, width)
            last = im.compare(im.add(row, 1), "==", end)
            stop = im.select(last, im.add(first, im.mul(vectors, lanes)), im.add(start, width))
            with b.loop(im.maximum(start, first), stop, lanes) as pixel:
                self._copy_flat(channel, some, step, number, im.sub(pixel, start), im.sub(pixel, first))

    def _copy_flat(
        self, channel: im.Index, some: im.Index, step: int, row: im.Index, column: im.Index, place: im.Index
    ) -> None:
        """A vector of pixels from the result's `column` on, of x's row number `row`, in some channels."""
        b, p, lanes, stride = self.b, self.p, self.sums.lanes, self.p.strides[-1]
        columns = [im.add(im.mul(column, stride), i * lanes) for i in range(stride)]
        type_ = ir.VectorType.get([lanes], ir.IntegerType.get_signless(1))
        left = [im.maximum(im.sub(self.size[-1], at), 0) for at in columns]
        masks = [vector.create_mask(type_, [im.value(n)]) for n in left]
        plane = im.product(self.size)
        end = im.add(some, step) if p.channels % step == 0 else im.minimum(im.add(some, step), p.channels)
        with b.loop(some, end) as c:
            source = im.add(im.mul(im.add(channel, c), plane), im.mul(row, self.size[-1]))
            v = plane_rows.every(self._vectors(source, columns, masks), stride, 0)
            self.room.store_vector(v, im.add(im.mul(c, self.length), place))
