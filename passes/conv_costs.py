"""Estimates of what each algorithm takes for a convolution, by which the passes choose one.

Nanoseconds on one core of a class of machines: arithmetic by the width of vectors, weights and intermediate tensors by
the cache that holds them. The constants were fitted to a sweep (tests/bench/conv_sweep.py); what counts is their ratio.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log2
from typing import Any

from onnxc.dialects import dims
from onnxc.dialects.onnx import OnnxOp
from onnxc.dialects.types import Tensor
from onnxc.passes.contract import Program
from onnxc.passes.kernels.fft_points import LENGTHS, MOST_VALUES, FftTile
from onnxc.passes.kernels.winograd_points import SIZES

CACHED_BYTES = 90 << 20  # models with more weights stream them from memory in every run
GIGAFLOPS = 5.0  # per bit of vector width and second / 16: what one core's multiply-adds reach
BANDWIDTH = 30  # bytes a nanosecond to and from a far cache
TRANSFORM = 1.25  # operations of a transform, per value and binary digit of the tile
TOUCH = 4  # and per value for loads and stores


@dataclass(frozen=True)
class Shape:
    """A convolution by its extents; an axis that is not known counts as 1."""

    images: int
    out: tuple[int, ...]
    window: tuple[int, ...]
    channels: int
    filters: int

    @classmethod
    def of(cls, op: OnnxOp) -> Shape:
        w, result = (Tensor.of(v.type).shape for v in (op.operands[1], op.results[0]))
        known = [d if isinstance(d, int) else 1 for d in result]
        return cls(known[0], tuple(known[1:-1]), tuple(w[:-2]), *w[-2:])

    @property
    def pixels(self) -> int:
        return self.images * dims.product(self.out)


@dataclass(frozen=True)
class Machine:
    """What estimates know of the target, and of the model: the bytes of all its weights."""

    target: Any
    model_bytes: int

    @classmethod
    def of(cls, program: Program) -> Machine:
        """Transformed copies of weights, which passes add later, do not count."""
        given = program.notes.setdefault("weight_bytes", sum(map(program.weights.nbytes, program.weights)))
        return cls(program.options.target, given)

    @property
    def flops(self) -> float:
        return GIGAFLOPS * self.target.vector_bits / 16

    def products(self, rows: int, points: int, shape: Shape) -> float:
        """[rows, channels]·[channels, filters] `points` times: arithmetic and reading of weights overlap in part."""
        arithmetic = 2 * rows * points * shape.channels * shape.filters / self.flops
        stored = 4 * points * shape.channels * shape.filters
        rate = 14 if self.model_bytes > CACHED_BYTES else 26
        reading = stored / rate if stored > self.target.l2_bytes // 2 else 0
        return max(arithmetic, reading) + 0.3 * min(arithmetic, reading)


def direct(shape: Shape, machine: Machine) -> float:
    return machine.products(shape.pixels, dims.product(shape.window), shape)


def winograd(shape: Shape, tile: int, machine: Machine) -> float:
    """F(tile×tile, 3×3): both transforms write and read."""
    points = SIZES[tile] ** 2
    tiles = shape.images * dims.product([-(-d // tile) for d in shape.out])
    moved = 4 * points * tiles * (shape.channels + shape.filters) * 2 / BANDWIDTH
    return moved + machine.products(tiles, points, shape)


def fft(shape: Shape, tile: FftTile, machine: Machine) -> float:
    tiles, values = shape.images * dims.product(grid_of(shape, tile)), tile.height * tile.width
    width = shape.channels + shape.filters
    moved = 4 * tile.points * tiles * width * 2 / BANDWIDTH
    transforms = values * (TRANSFORM * log2(values) + TOUCH) * tiles * width * 4 / machine.flops
    return transforms + moved + machine.products(tiles, tile.points, shape)


def grid_of(shape: Shape, tile: FftTile) -> list[int]:
    """How many tiles an image has along both axes."""
    out = (1,) * (2 - len(shape.out)) + shape.out
    return [-(-d // step) for d, step in zip(out, tile.steps, strict=True)]


def fft_tiles(window: tuple[int, ...]) -> list[FftTile]:
    """The tiles that can serve a window: long enough for it along each axis, and no longer where it has one tap."""
    window = (1,) * (2 - len(window)) + window
    rows, columns = ([1] if k == 1 else [n for n in LENGTHS if n >= k + 1] for k in window)
    return [FftTile((r, c), window) for r in rows for c in columns if 1 < r * c <= MOST_VALUES]


def best_fft(shape: Shape, machine: Machine) -> tuple[float, FftTile]:
    return min(((fft(shape, tile, machine), tile) for tile in fft_tiles(shape.window)), key=lambda pair: pair[0])
