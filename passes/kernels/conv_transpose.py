"""Kernel kind `conv_transpose`: transposed convolution of channels-last tensors, gathered, so that no units write one
element.

The result's pixels fall into phases by their position modulo the strides; those of one phase read x like a convolution
of stride 1 with the taps that meet it (the others would fall between x's pixels). So a unit is (block of row tiles,
phase, group, panel), its loops those of pixel_tiles.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from mlir import ir
from mlir.dialects import scf

from onnxc.dialects import dims
from onnxc.passes.kernels import contraction, scalars
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.conv_problem import Conv, Pixels
from onnxc.passes.kernels.kernel_function import MULTIPLY_ADD, KernelFunction, Launch
from onnxc.passes.kernels.packing import Packing, entries
from onnxc.passes.kernels.pixel_tiles import ConvSchedule, PixelTiles, pixel_grid
from onnxc.passes.kernels.register_tiles import Product, best_tile
from onnxc.passes.kernels.schedule_space import tile_space


def phase_problem(kernel: KernelFunction) -> tuple[Conv, Conv]:
    """(the operator, one phase of it as a convolution of stride 1 without padding of its own)."""
    p = Conv.of(kernel)
    out = tuple((d + (s - 1)) // s for d, s in zip(p.out, p.strides, strict=True))
    ones = (1,) * len(out)
    return p, replace(p, out=out, strides=ones, pads=(0,) * len(out), padded=True)


def choose(kernel: KernelFunction, target, panel: int = 0) -> dict[str, int | str]:
    """The heuristic schedule for the kernel's shapes; `panel`: the weights lie in panels of so many columns already."""
    p, phase = phase_problem(kernel)
    sums = contraction.arithmetic(p.elem, target, p.filters)
    product = Product(phase.pixels, p.filters, sums.lanes, panel=panel, pointers=True)
    rows, vectors, lanes = best_tile(product, target)
    packed = int(_weights(kernel) in kernel.constants)
    tiles = contraction.tile_count(phase.pixels, rows)
    channels = p.channels if isinstance(p.channels, int) else 64
    panels = (p.filters + (vectors * lanes - 1)) // (vectors * lanes) * p.group
    group = contraction.tiles_a_unit(tiles, panels, rows * channels * scalars.byte_width(p.elem), target)
    wider = panel if panel != vectors * lanes else 0
    return entries(ConvSchedule(rows, vectors, lanes, group, packed, panel=wider))


def candidates(kernel: KernelFunction, target) -> list[dict[str, int | str]]:
    """Other register tiles and blocks, the heuristic's first."""
    p, phase = phase_problem(kernel)
    return tile_space(choose(kernel, target), phase.pixels, p.filters, 512, target)


def _weights(kernel: KernelFunction) -> int:
    return kernel.operands.index(kernel.root.operands[1])


def packings(kernel: KernelFunction) -> list[Packing]:
    s = ConvSchedule(**kernel.schedule)
    if not s.packed:
        return []
    p = Conv.of(kernel)
    panels = -(-p.filters // s.line)
    kernel.func.attributes["kernel.window"] = ir.DenseI64ArrayAttr.get(list(p.kernel))

    def make(array: np.ndarray) -> np.ndarray:
        taps = array.reshape(p.taps, p.group, p.channels, p.filters)
        padded = np.zeros((p.taps, p.group, p.channels, panels * s.line), array.dtype)
        padded[..., : p.filters] = taps
        return padded.reshape(p.taps, p.group, p.channels, panels, s.line).transpose(1, 3, 0, 2, 4)

    shape = (p.group, panels, p.taps, p.channels, s.line)
    return [Packing(_weights(kernel), shape, f"transposed_filters{p.group}x{s.line}", make, s.line, widens=True)]


def launch(kernel: KernelFunction) -> Launch:
    (p, phase), s = phase_problem(kernel), ConvSchedule(**kernel.schedule)
    groups, panels, _ = pixel_grid(phase, s)
    phases = dims.product(p.strides)
    products = s.group * s.rows * -(-p.taps // phases) * s.width * p.channels
    return Launch(groups * phases * p.group * panels, MULTIPLY_ADD * products)


def emit(b: KernelBuilder) -> None:
    p, phase = phase_problem(b.kernel)
    _PhaseTiles(b, p, phase, ConvSchedule(**b.kernel.schedule)).run()


class _PhaseTiles(PixelTiles):
    def __init__(self, b: KernelBuilder, p: Conv, phase: Conv, s: ConvSchedule):
        super().__init__(b, phase, s)
        self.whole, self.one_axis = p, False
        self.result_size = [b.dim(d) for d in p.out]

    def _begin(self, unit: im.Index) -> im.Index:
        phases = dims.product(self.whole.strides)
        self.phase = im.unflattened(im.mod(unit, phases), self.whole.strides)
        return im.floordiv(unit, phases)

    def _shifts(self, tap: im.Index) -> list[im.Index]:
        """Per axis: strides · (x's pixel - the pixel's number in its phase); a multiple where the tap meets it."""
        taps = im.unflattened(tap, self.p.kernel)
        return [
            im.sub(im.add(phase, pad), im.mul(t, d))
            for phase, pad, t, d in zip(self.phase, self.whole.pads, taps, self.whole.dilations, strict=True)
        ]

    def _position(self, tap: im.Index) -> list[im.Index]:
        return [im.floordiv_signed(shift, s) for shift, s in zip(self._shifts(tap), self.whole.strides, strict=True)]

    def _add_tap(
        self, pixels: Pixels, rows: int, tap: im.Index, pixel: im.Index, acc: Sequence[ir.Value]
    ) -> list[ir.Value]:
        meets: bool | ir.Value = True
        for shift, s in zip(self._shifts(tap), self.whole.strides, strict=True):
            meets = im.both(meets, im.compare(im.mul(im.floordiv_signed(shift, s), s), "==", shift))
        if isinstance(meets, bool):
            return super()._add_tap(pixels, rows, tap, pixel, acc) if meets else list(acc)
        op = scf.IfOp(meets, [v.type for v in acc], has_else=True)
        with ir.InsertionPoint(op.then_block):
            scf.YieldOp(super()._add_tap(pixels, rows, tap, pixel, acc))
        with ir.InsertionPoint(op.else_block):
            scf.YieldOp(list(acc))
        return list(op.results)

    def _store(self, pixels: Pixels, rows: int, acc: Sequence[ir.Value]) -> None:
        """Pixels of the last, partial period are left out."""
        for r in range(rows):
            place = [
                im.add(im.mul(j, s), phase)
                for j, s, phase in zip(pixels.points[r][1:], self.whole.strides, self.phase, strict=True)
            ]
            inside: bool | ir.Value = True
            for i, extent, s in zip(place, self.result_size, self.whole.strides, strict=True):
                if not isinstance(extent, int) or extent % s:
                    inside = im.both(inside, im.compare(i, "<", extent))
            one = Pixels([[pixels.points[r][0], *place]], [], [])
            with self.b.when(inside), self.ev.scope():
                super()._store(one, 1, acc[r * self.s.vectors : (r + 1) * self.s.vectors])

    def _unpacked(self, tap: im.Index):
        first = im.mul(im.add(im.mul(tap, self.p.group), self.group_number), self.channels)

        def plain(k: im.Index) -> list[ir.Value]:
            row = im.add(im.mul(im.add(first, k), self.filters), self.start)
            return [
                self.sums.widen(self.w.load_vector(im.add(row, v * self.s.lanes), self.s.lanes, m))
                for v, m in enumerate(self.masks)
            ]

        return plain
