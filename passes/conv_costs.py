"""Estimates of what each algorithm takes for a convolution, by which the passes choose one.

Nanoseconds on one core of the target (compiler/cores.py): arithmetic by its multiply-adds, weights and intermediate
tensors by the cache that holds them. What no CPU's manual tells was fitted to a sweep (tests/bench/conv_sweep.py).
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
from onnxc.passes.kernels.scratch_pieces import PIECES
from onnxc.passes.kernels.winograd_points import SIZES

USUAL_SIDE = 224  # what a free side of the model's images is taken for
CACHED_BYTES = 90 << 20  # models with more weights are streamed from memory in every run
SHARE_BYTES = 32 << 20  # and so are larger weights of one convolution
REACHED = 0.92  # of the multiply-adds that a core could do
NEAR = 4  # times L2 that spectra may have and still be read fast; splitting larger ones gains 1.4 to 1.7 times
NEAR_BYTES = 22  # of spectra, written or read in a cycle
# The same where a group of tiles goes through all steps: Winograd's (fitted on Zen 4), and Fourier ones where L3 is far
# (5×5 of 32 channels over 56² takes 0.8 of the time in tiles of 8×16 on Granite Rapids)
GROUP_BYTES = 48
READ = 0.8  # of what a core could read: what products read of their weights
TRANSFORM = 1.25  # operations of a transform, per value and binary digit of the tile
FILTERING = 4  # operations of Winograd's transforms, per value
TOUCH = 4  # and per value for loads and stores
OPERATION = 2.5  # flops of the products that take as long as one of these operations
TAP = 1.3  # channels' worth of work that the direct kernel has at each tap: pointers, the end of a loop
ABOUT = 1.1  # times the lowest estimate
SHARED = 1.03  # times the lowest estimate, for an algorithm whose transformed weights another variant has stored
GAIN = 1.1  # that gathering must promise
GATHERED = 1.07  # what reading gathered windows costs the products
LEAST_GROUP = 4  # tiles of Fourier transforms: in groups 5×5 over 14² took 0.93 of the time, 9×9 over 56² 0.76
LEAST_TILES = 6  # that make the products' register tiles worth their weights
LEAST_STREAMED = 5  # the same where larger tiles do fewer multiplications for weights that are read anew
FAR_BYTES = 16 << 20  # of spectra that stay in the last cache beside the images: 32×32 over 224² took 1.25 of the time
WHOLE_TILES = 12  # tiles that do so in Winograd's groups
ENOUGH_TILES = 14  # together, for which weights are worth reading from L2
LEAST_FREE = 24  # of groups over images of free sizes, where L2 has no room for the weights
MOST_FREE = 96  # where it has
NEARLY = 1.25  # times L2, of weights that hardly leave it
UNITS = 4  # into which the tiles of one image are cut, at least
LEAST_ROWS = 28  # that a block of gathered windows has: two register tiles


@dataclass(frozen=True)
class Shape:
    """A convolution by its extents.

    An image whose size only a run tells (`free`) counts as `dims.usual` has it, other axes that are not known as 1."""

    images: int
    out: tuple[int, ...]
    window: tuple[int, ...]
    channels: int
    filters: int
    free: bool = False

    @classmethod
    def of(cls, op: OnnxOp) -> Shape:
        w, result = (Tensor.of(v.type).shape for v in (op.operands[1], op.results[0]))
        images, *weights = (d if isinstance(d, int) else 1 for d in (result[0], *w))
        extents = result[1:-1]
        out = tuple(max(0, dims.usual(d, USUAL_SIDE)) for d in extents)
        return cls(images, out, tuple(weights[:-2]), *weights[-2:], not all(isinstance(d, int) for d in extents))

    @property
    def planes(self) -> Shape:
        """Volumes as images of as many channels as the planes that are summed up have together."""
        if len(self.out) != 3:
            return self
        depth, *image = self.out
        taps, *window = self.window
        images, channels = self.images * depth, taps * self.channels
        return Shape(images, tuple(image), tuple(window), channels, self.filters, self.free)

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
        """A nanosecond."""
        return REACHED * self.target.core.gigaflops

    def filled(self, channels: int) -> int:
        """So many channels as whole vectors."""
        lanes = max(1, self.target.vector_bits // 32)
        return -(-channels // lanes) * lanes

    def masks(self, shape: Shape) -> bool:
        """Whether channels fill whole vectors, or a part of one costs no more: with AVX-512. AVX2's masked stores, of
        which a tile takes 36, undo what a group gains (on Zen 4 6 channels took 1.7 times as long as 8)."""
        wide = self.target.vector_bits >= 512
        return wide or all(self.filled(count) == count for count in (shape.channels, shape.filters))

    def moving(self, bytes_: int, near: bool, cycle: int = NEAR_BYTES) -> float:
        """Writing and reading of bytes that lie between two steps: near, so many a cycle, or far."""
        core = self.target.core
        return 2 * bytes_ / (cycle * core.gigahertz if near else core.far)

    def products(self, rows: int, points: int, shape: Shape, group: int = 0) -> float:
        """[rows, channels]·[channels, filters] `points` times: arithmetic and reading of weights overlap in part. The
        weights are read once, or for each `group` of rows."""
        arithmetic = 2 * rows * points * shape.channels * self.filled(shape.filters) / self.flops
        stored = 4 * points * shape.channels * shape.filters
        core = self.target.core
        streamed = self.model_bytes > CACHED_BYTES or stored > SHARE_BYTES
        rate = READ * (core.memory if streamed else core.far)
        reading = stored / rate if stored > self.target.l2_bytes // 2 else 0
        reading *= -(-rows // group) if group else 1
        return max(arithmetic, reading) + 0.3 * min(arithmetic, reading)


def direct(shape: Shape, machine: Machine) -> float:
    return machine.products(shape.pixels, shape.taps, shape)


def winograd(shape: Shape, tile: int, machine: Machine) -> float:
    """F(tile×tile, 3×3)."""
    shape = shape.planes
    points, target = SIZES[tile] ** 2, machine.target
    tiles = shape.images * dims.product([-(-d // tile) for d in shape.out])
    group = winograd_group(shape, tile, target)
    spectra = spectra_bytes(points, tiles, shape)
    near = spectra <= NEAR * target.l2_bytes or group > 0
    moving = machine.moving(spectra, near, GROUP_BYTES if group and machine.masks(shape) else NEAR_BYTES)
    values = tiles * points * (machine.filled(shape.channels) + machine.filled(shape.filters))
    transforms = OPERATION * FILTERING * values / machine.flops
    return transforms + moving + machine.products(tiles, points, shape, group if shape.free else 0)


def fft(shape: Shape, tile: FftTile, machine: Machine) -> float:
    tiles, values, target = shape.images * dims.product(grid_of(shape, tile)), tile.height * tile.width, machine.target
    operations = values * (TRANSFORM * log2(values) + TOUCH) * tiles
    transforms = operations * (machine.filled(shape.channels) + machine.filled(shape.filters)) / machine.flops
    group = fft_group(shape, tile, target)
    spectra = spectra_bytes(tile.points, tiles, shape)
    near = spectra <= NEAR * target.l2_bytes or group > 0
    moving = machine.moving(spectra, near, GROUP_BYTES if group and not target.core.near_l3 else NEAR_BYTES)
    anew = group if shape.free or spectra > FAR_BYTES else 0
    return OPERATION * transforms + moving + machine.products(tiles, tile.points, shape, anew)


def spectra_bytes(points: int, tiles: int, shape: Shape) -> int:
    """Of all tiles: the inputs' and the products'."""
    return 4 * points * tiles * (shape.channels + shape.filters)


def winograd_group(shape: Shape, tile: int, target: Any) -> int:
    """Tiles that go through all three steps together, weights staying in L2; 0: they are too large. Images of free
    sizes always have a group, for which larger weights are read anew. Where L3 is near, so have a few tiles, with
    weights that hardly leave L2: 14² of 64 channels takes 0.8 of the time on Zen 3."""
    shape, points = shape.planes, SIZES[tile] ** 2
    tiles, stored = dims.product([-(-d // tile) for d in shape.out]), 4 * points * shape.channels * shape.filters
    room = target.l2_bytes * 3 // 4 - stored
    one = 4 * (points + 1) * max(shape.channels, shape.filters)
    most = min(room, max(target.l2_bytes // 16, ENOUGH_TILES * one)) // one
    if shape.free:
        return min(most, MOST_FREE) if most >= WHOLE_TILES else LEAST_FREE
    if most >= min(WHOLE_TILES, tiles):
        return most
    near = target.core.near_l3 and stored <= NEARLY * target.l2_bytes
    return shape.images * tiles if near and WHOLE_TILES <= shape.images * tiles <= LEAST_FREE else 0


def fft_group(shape: Shape, tile: FftTile, target: Any) -> int:
    """Tiles that go through all three steps together, beside the weights in L2; 0: those are too large, or tiles are so
    few that all of them are hardly more than a group. Of images of free sizes, and of spectra that leave the last
    cache, always as many as L2 has room for, beside weights or not."""
    one, tiles = spectra_bytes(tile.points, 1, shape), shape.images * dims.product(grid_of(shape, tile))
    room = target.l2_bytes * 3 // 4 - 4 * tile.points * shape.channels * shape.filters
    if shape.free or one * tiles > FAR_BYTES:
        return max(1, min(max(room, target.l2_bytes // 2) // one, MOST_FREE))
    group = min(room // one, -(-tiles // UNITS))
    return group if room // one >= LEAST_TILES and group >= LEAST_GROUP else 0


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
    """Of the tiles with about the lowest estimate the one with the smallest weights; for free sizes of those of which
    a few at least fit into L2, if there are any."""
    tiles = fft_tiles(shape.window)
    small = [tile for tile in tiles if not shape.free or fft_group(shape, tile, machine.target) >= LEAST_STREAMED]
    costs = [(fft(shape, tile, machine), tile) for tile in small or tiles]
    about = ABOUT * min(cost for cost, _ in costs)
    return min((pair for pair in costs if pair[0] <= about), key=lambda pair: (pair[1].points, pair[0]))


def gathering_pays(shape: Shape, machine: Machine) -> bool:
    """Whether gathered windows are multiplied faster than the direct kernel finds them, by their copying at least; not
    where pixels are few or not known to be many."""
    if shape.pixels < 4 * LEAST_ROWS:
        return False
    plain = direct(shape, machine)
    copying = 4 * shape.pixels * shape.taps * shape.channels * 2 / (NEAR_BYTES * machine.target.core.gigahertz)
    return (plain * GATHERED + copying) * GAIN < plain * (1 + TAP / shape.channels)


def gathered_rows(shape: Shape, pixels: int | None, target: Any) -> int:
    """How many pixels' windows are gathered at a time: those that fit a quarter of L2, and a register tile at least."""
    line = 4 * shape.taps * shape.channels
    most = max(LEAST_ROWS, target.l2_bytes // 4 // line)
    return most if pixels is None else min(most, max(2 * LEAST_ROWS, -(-pixels // PIECES)))
