"""Kernel kind `conv`: convolution over channels-last tensors, as a matmul whose rows are pixels gathered tap by tap.

No im2col and no padded copy: a row of the register tile is a pointer per tap, to zeros where the tap lies in the padding
(adding 0·w changes no bit). An element is summed in the order (taps, channel), in blocks of whole taps of at most 512
terms, or of 512 channels where one tap has more. Weights lie in panels [group][panel][tap][channel][column].
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass

import numpy as np
from mlir import ir
from mlir.dialects import arith

from onnxc.dialects import dims
from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import contraction, depthwise, pointers, scalars
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.contraction import BLOCK, Arithmetic
from onnxc.passes.kernels.conv_problem import Conv, Pixels, pixels_of
from onnxc.passes.kernels.evaluate import Evaluator, Lanes
from onnxc.passes.kernels.kernel_function import KernelFunction, Launch
from onnxc.passes.kernels.packing import Packing
from onnxc.passes.kernels.register_tiles import choose_tile

GRAIN_NANOSECONDS = 20_000


@dataclass(frozen=True)
class ConvSchedule:
    """Register tile `rows` pixels × `vectors` of `lanes` filters; `group` row tiles a unit; `packed`: weights in
    panels; `prefetch`: how far ahead they are asked for (contraction.prefetch_panels)."""

    rows: int
    vectors: int
    lanes: int
    group: int
    packed: int = 0
    prefetch: int = 0
    algorithm: str = "direct"

    @property
    def width(self) -> int:
        return self.vectors * self.lanes


def choose(kernel: KernelFunction, target) -> dict[str, int | str]:
    """The heuristic schedule for the kernel's shapes."""
    p = Conv.of(kernel)
    if depthwise.applies(p):
        return depthwise.choose(p, target)
    sums = contraction.arithmetic(p.elem, target, p.filters)
    rows, vectors = choose_tile(p.pixels, p.filters, sums.lanes, target, p.taps * p.channels)
    packed = int(_weights(kernel) in kernel.constants)
    channels = p.channels if isinstance(p.channels, int) else 64
    pixel_bytes = max(1, channels * int(np.prod(p.strides)) * scalars.byte_width(p.elem))
    tiles = contraction.tile_count(p.pixels, rows)
    group = max(1, target.l2_bytes // 4 // (pixel_bytes * rows))
    group = min(group, tiles) if isinstance(tiles, int) else min(group, 16)
    ahead = contraction.prefetch_distance(group if isinstance(tiles, int) else 1, rows) if packed else 0
    return asdict(ConvSchedule(rows, vectors, sums.lanes, group, packed, ahead))


def _weights(kernel: KernelFunction) -> int:
    return kernel.operands.index(kernel.root.operands[1])


def packings(kernel: KernelFunction) -> list[Packing]:
    if kernel.schedule["algorithm"] != "direct":
        return []
    s = ConvSchedule(**kernel.schedule)
    if not s.packed:
        return []
    p = Conv.of(kernel)
    position, panels = _weights(kernel), -(-p.filters // s.width)
    shape = (p.group, panels, p.taps, p.channels, s.width)
    kernel.func.attributes["kernel.window"] = ir.DenseI64ArrayAttr.get(list(p.kernel))

    def make(array: np.ndarray) -> np.ndarray:
        taps = array.reshape(p.taps, p.channels, p.group, p.filters)
        padded = np.zeros((p.taps, p.channels, p.group, panels * s.width), array.dtype)
        padded[..., : p.filters] = taps
        return padded.reshape(p.taps, p.channels, p.group, panels, s.width).transpose(2, 3, 0, 1, 4)

    return [Packing(position, shape, f"filters{p.group}x{s.width}", make)]


def launch(kernel: KernelFunction) -> Launch:
    if kernel.schedule["algorithm"] == "depthwise":
        return depthwise.launch(kernel)
    p, s = Conv.of(kernel), ConvSchedule(**kernel.schedule)
    groups, panels, _ = _grid(p, s)
    terms = p.taps * (p.channels if isinstance(p.channels, int) else 64)
    rows = min(p.pixels, s.group * s.rows) if isinstance(p.pixels, int) else s.group * s.rows
    nanoseconds = max(1, 2 * rows * terms * s.width / 100)
    return Launch(groups * p.group * panels, max(1, int(GRAIN_NANOSECONDS / nanoseconds)))


def _grid(p: Conv, s: ConvSchedule) -> tuple[dims.Dim, dims.Dim, dims.Dim]:
    tiles = contraction.tile_count(p.pixels, s.rows)
    return (tiles + (s.group - 1)) // s.group, (p.filters + (s.width - 1)) // s.width, tiles


def emit(b: KernelBuilder) -> None:
    if b.kernel.schedule["algorithm"] == "depthwise":
        depthwise.emit(b)
        return
    _Emitter(b, Conv.of(b.kernel), ConvSchedule(**b.kernel.schedule)).run()


class _Emitter:
    def __init__(self, b: KernelBuilder, p: Conv, s: ConvSchedule):
        self.b, self.p, self.s = b, p, s
        self.sums = Arithmetic(p.elem, contraction.arithmetic(p.elem, b.target).compute, s.lanes, b.target.has_fma)
        self.ev = Evaluator(b)
        self.x, self.w = b.inputs[p.op.operands[0]], b.inputs[p.op.operands[1]]
        self.groups, self.panels, self.tiles = (b.dim(d) for d in _grid(p, s))
        self.channels, self.filters, self.pixels = b.dim(p.channels), b.dim(p.filters), b.dim(p.pixels)
        self.all_channels = b.dim(p.channels * p.group)
        self.size = [b.dim(d) for d in p.size]
        self.exact = isinstance(p.filters, int) and p.filters % s.width == 0
        pixels_of(b, p, 0, 1)  # emits the dims where they dominate every use
        if not p.dense:
            self.base = pointers.pointer(self.x.memory)
            if p.padded:
                self.zeros = pointers.zeros(b, self.x, p.channels)

    def run(self) -> None:
        b, p, s = self.b, self.p, self.s
        with b.loop(b.begin, b.end) as unit:
            panel, rest = im.mod(unit, self.panels), im.floordiv(unit, self.panels)
            group, block = im.mod(rest, p.group), im.floordiv(rest, p.group)
            first = im.mul(block, s.group)
            last = im.minimum(im.add(first, s.group), self.tiles)
            start = im.mul(panel, s.width)
            self.masks = contraction.column_masks(s.lanes, s.vectors, self.filters, start, self.exact)
            self.lanes = [Lanes(s.lanes, len(p.size) + 1, m) for m in self.masks]
            first_column = im.add(im.mul(group, self.filters), start)
            self.columns = [im.add(first_column, v * s.lanes) for v in range(s.vectors)]
            self.group_start = im.mul(group, self.channels)
            self.number = im.add(im.mul(group, self.panels), panel)

            def tile(pixel: im.Index, rows: int) -> None:
                with self.ev.scope():
                    self._tile(pixel, rows)

            contraction.row_tiles(b, self.pixels, s.rows, first, last, tile)

    def _tile(self, pixel: im.Index, rows: int) -> None:
        pixels = pixels_of(self.b, self.p, pixel, rows)
        if self.p.dense:
            start = im.add(im.mul(pixel, self.all_channels), self.group_start)
            acc = contraction.sum_blocks(self.b, self.sums, rows, self.s.vectors, self.channels, self._dense(start, rows, pixel))
        else:
            acc = self._sum_taps(pixels, rows, pixel)

        def point(r: int, v: int) -> list[im.Index]:
            return [*pixels.points[r], self.columns[v]]

        contraction.store_tile(self.b, self.ev, self.p.op.results[0], self.lanes.__getitem__, point, rows, self.s.vectors,
                               self._element, acc)

    def _element(self, point: Sequence[im.Index], lanes: Lanes, total: ir.Value) -> ir.Value:
        bias = self.p.op.operands[2] if len(self.p.op.operands) > 2 else None
        if bias is not None:
            total = scalars.add(total, self.sums.widen(self.ev.at(bias, (point[-1],), Lanes(lanes.width, 0, lanes.mask))))
        return self.sums.narrow(total)

    def _dense(self, start: im.Index, rows: int, pixel: im.Index):
        weights = self._panel_rows(0, pixel, 1)

        def load(k: im.Index):
            at = im.add(start, k)
            pixels = [self.x.load_flat(im.add(at, im.mul(self.all_channels, r))) for r in range(rows)]
            return [self.sums.widen(v) for v in pixels], weights(k)

        return load

    def _sum_taps(self, pixels: Pixels, rows: int, pixel: im.Index) -> list[ir.Value]:
        """Sums over taps and channels, block by block."""
        b, taps, channels = self.b, self.p.taps, self.channels
        count = rows * self.s.vectors
        zeros = [self.sums.zero()] * count
        per_block = max(1, BLOCK // self.p.channels) if isinstance(self.p.channels, int) and self.p.channels else 1

        def one_tap(tap: im.Index, *acc: ir.Value) -> list[ir.Value]:
            load = self._tap(pixels, rows, tap, pixel)
            if not isinstance(channels, int) or channels > BLOCK:
                part = contraction.sum_blocks(b, self.sums, rows, self.s.vectors, channels, load, acc)
                return part
            return contraction.sum_products(b, self.sums, rows, self.s.vectors, 0, channels, load, acc)

        if not isinstance(channels, int) or channels > BLOCK or taps <= per_block:
            return b.reduce(0, taps, 1, zeros, one_tap) if taps > 1 else one_tap(0, *zeros)

        def block(first: ir.Value, *totals: ir.Value) -> list[ir.Value]:
            part = b.reduce(first, im.minimum(im.add(first, per_block), taps), 1, zeros, one_tap)
            return [scalars.add(t, s) for t, s in zip(totals, part, strict=True)]

        return b.reduce(0, taps, per_block, zeros, block)

    def _tap(self, pixels: Pixels, rows: int, tap: im.Index, pixel: im.Index) -> Callable:
        """load(k) for one tap: a pointer per pixel, to zeros in the padding."""
        p = self.p
        position: list[im.Index] = []
        rest = tap
        for extent in reversed(p.kernel[1:]):
            position.append(im.mod(rest, extent))
            rest = im.floordiv(rest, extent)
        position = [im.mul(i, d) for i, d in zip([rest, *position[::-1]], p.dilations, strict=True)]
        step: im.Index = self.group_start
        stride: im.Index = self.all_channels
        for i, extent in zip(reversed(position), reversed(self.size), strict=True):
            step = im.add(step, im.mul(i, stride))
            stride = im.mul(stride, extent)
        starts = []
        for r in range(rows):
            start = pointers.advance(self.base, im.add(pixels.offsets[r], step), self.x.elem)
            inside: bool | ir.Value = True
            for corner, i, extent in zip(pixels.corners[r], position, self.size, strict=True) if p.padded else ():
                inside = im.both(inside, _unsigned_less(im.add(corner, i), extent))
            if isinstance(inside, bool):
                starts.append(start if inside else self.zeros)
            else:
                starts.append(arith.select(inside, start, self.zeros))
        weights = self._panel_rows(tap, pixel, p.taps)

        def load(k: im.Index):
            return [self.sums.widen(pointers.load(start, k, self.x.elem)) for start in starts], weights(k)

        return load

    def _panel_rows(self, tap: im.Index, pixel: im.Index, taps: int) -> Callable[[im.Index], list[ir.Value]]:
        """(k) → the vectors of the weights' row k of this tap."""
        s, w = self.s, self.w
        if not s.packed:
            first = im.mul(tap, im.mul(self.channels, im.mul(self.filters, self.p.group)))

            def plain(k: im.Index) -> list[ir.Value]:
                row = im.add(first, im.mul(k, im.mul(self.filters, self.p.group)))
                return [self.sums.widen(w.load_vector(im.add(row, c), s.lanes, m))
                        for c, m in zip(self.columns, self.masks, strict=True)]

            return plain
        panel = im.mul(self.number, w.strides[1])
        first = im.add(panel, im.mul(tap, w.strides[2]))

        def packed(k: im.Index) -> list[ir.Value]:
            row = im.add(first, im.mul(k, s.width))
            if s.prefetch:
                contraction.prefetch_panels(w, panel, w.strides[1], s.width, s.prefetch, s.group,
                                            im.floordiv(pixel, s.rows), im.mul(self.channels, self.p.taps),
                                            im.add(im.mul(tap, self.channels), k))
            return [self.sums.widen(w.load_vector(im.add(row, v * s.lanes), s.lanes)) for v in range(s.vectors)]

        return packed


def _unsigned_less(i: im.Index, extent: im.Index) -> bool | ir.Value:
    """0 ≤ i < extent in one comparison."""
    if isinstance(i, int) and isinstance(extent, int):
        return 0 <= i < extent
    return arith.cmpi(6, im.value(i), im.value(extent))
