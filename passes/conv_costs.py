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
from onnxc.passes.kernels.fft_points import LENGTHS, LONGEST, MOST_VALUES, FftTile
from onnxc.passes.kernels.im2col import PIECES
from onnxc.passes.kernels.winograd_points import SIZES

CACHED_BYTES = 90 << 20  # models with more weights, or a copy that large, are streamed from memory in every run
GIGAFLOPS = 5.0  # per bit of vector width and second / 16: what one core's multiply-adds reach
NEAR = 4  # times L2 that spectra may have and still be read fast; splitting larger ones gains 1.4 to 1.7 times
NEAR_BANDWIDTH, FAR_BANDWIDTH = 60, 30  # bytes a nanosecond, written and read
TRANSFORM = 1.25  # operations of a transform, per value and binary digit of the tile
TOUCH = 4  # and per value for loads and stores
OPERATION = 2.5  # flops of the products that take as long as one of these operations
TAP = 1.3  # channels' worth of work that the direct kernel has at each tap: pointers, the end of a loop
ABOUT = 1.1  # times the lowest estimate
GAIN = 1.1  # that gathering must promise
GATHERED = 1.07  # what reading gathered windows costs the products
LEAST_TILES = 6  # that make the products' register tiles worth their weights
UNITS = 4  # into which the tiles of one image are cut, at least
LEAST_ROWS = 28  # that a block of gathered windows has: two register tiles


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
        known, weights = ([d if isinstance(d, int) else 1 for d in shape] for shape in (result, w))
        return cls(known[0], tuple(known[1:-1]), tuple(weights[:-2]), *weights[-2:])

    @property
    def pixels(self) -> int:
        return self.images * dims.product(self.out)

    @property
    def taps(self) -> int:
        return dims.product(self.window)


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

    def filled(self, channels: int) -> int:
        """So many channels as whole vectors."""
        lanes = max(1, self.target.vector_bits // 32)
        return -(-channels // lanes) * lanes

    def moving(self, points: int, tiles: int, shape: Shape) -> float:
        """Writing and reading of spectra."""
        spectra = 4 * points * tiles * (shape.channels + shape.filters)
        return 2 * spectra / (NEAR_BANDWIDTH if spectra <= NEAR * self.target.l2_bytes else FAR_BANDWIDTH)

    def products(self, rows: int, points: int, shape: Shape) -> float:
        """[rows, channels]·[channels, filters] `points` times: arithmetic and reading of weights overlap in part."""
        arithmetic = 2 * rows * points * shape.channels * self.filled(shape.filters) / self.flops
        stored = 4 * points * shape.channels * shape.filters
        rate = 14 if max(self.model_bytes, stored) > CACHED_BYTES else 26
        reading = stored / rate if stored > self.target.l2_bytes // 2 else 0
        return max(arithmetic, reading) + 0.3 * min(arithmetic, reading)


def direct(shape: Shape, machine: Machine) -> float:
    return machine.products(shape.pixels, shape.taps, shape)


def winograd(shape: Shape, tile: int, machine: Machine) -> float:
    """F(tile×tile, 3×3); the transforms take as long as their loads and stores."""
    points = SIZES[tile] ** 2
    tiles = shape.images * dims.product([-(-d // tile) for d in shape.out])
    return machine.moving(points, tiles, shape) + machine.products(tiles, points, shape)


def fft(shape: Shape, tile: FftTile, machine: Machine) -> float:
    tiles, values = shape.images * dims.product(grid_of(shape, tile)), tile.height * tile.width
    operations = values * (TRANSFORM * log2(values) + TOUCH) * tiles
    transforms = operations * (machine.filled(shape.channels) + machine.filled(shape.filters)) / machine.flops
    return (
        OPERATION * transforms + machine.moving(tile.points, tiles, shape) + machine.products(tiles, tile.points, shape)
    )


def fft_group(shape: Shape, tile: FftTile, target: Any) -> int:
    """Tiles that go through all three steps together, beside the weights in L2; 0: those are too large, or all spectra
    are small enough to stay near."""
    weights = 4 * tile.points * shape.channels * shape.filters
    room = (target.l2_bytes * 3 // 4 - weights) // (4 * tile.points * (shape.channels + shape.filters))
    tiles = shape.images * dims.product(grid_of(shape, tile))
    spectra = 4 * tile.points * tiles * (shape.channels + shape.filters)
    return min(room, -(-tiles // UNITS)) if room >= LEAST_TILES and spectra > NEAR * target.l2_bytes else 0


def grid_of(shape: Shape, tile: FftTile) -> list[int]:
    """How many tiles an image has along both axes."""
    out = (1,) * (2 - len(shape.out)) + shape.out
    return [-(-d // step) for d, step in zip(out, tile.steps, strict=True)]


def fft_tiles(window: tuple[int, ...]) -> list[FftTile]:
    """The tiles that can serve a window: long enough for it along each axis, and no longer where it has one tap."""
    window = (1,) * (2 - len(window)) + window
    rows, columns = ([1] if k == 1 else [n for n in LENGTHS if n >= k + 1] for k in window)
    pairs = [
        (r, c) for r in rows for c in columns if 1 < r * c <= MOST_VALUES and (max(r, c) <= LONGEST or 1 in (r, c))
    ]
    return [FftTile(pair, window) for pair in pairs]


def best_fft(shape: Shape, machine: Machine) -> tuple[float, FftTile]:
    """Of the tiles with about the lowest estimate the one with the smallest weights."""
    costs = [(fft(shape, tile, machine), tile) for tile in fft_tiles(shape.window)]
    about = ABOUT * min(cost for cost, _ in costs)
    return min((pair for pair in costs if pair[0] <= about), key=lambda pair: (pair[1].points, pair[0]))


def gathering_pays(shape: Shape, machine: Machine) -> bool:
    """Whether gathered windows are multiplied faster than the direct kernel finds them, by their copying at least; not
    where pixels are few or not known to be many."""
    if shape.pixels < 4 * LEAST_ROWS:
        return False
    plain = direct(shape, machine)
    copying = 4 * shape.pixels * shape.taps * shape.channels * 2 / NEAR_BANDWIDTH
    return (plain * GATHERED + copying) * GAIN < plain * (1 + TAP / shape.channels)


def gathered_rows(shape: Shape, pixels: int | None, target: Any) -> int:
    """How many pixels' windows are gathered at a time: those that fit a quarter of L2, and a register tile at least."""
    line = 4 * shape.taps * shape.channels
    most = max(LEAST_ROWS, target.l2_bytes // 4 // line)
    return most if pixels is None else min(most, max(2 * LEAST_ROWS, -(-pixels // PIECES)))
