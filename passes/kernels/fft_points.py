"""Tiles of Fourier convolution: which products a tile's spectrum takes, in which order, and the weights' spectra.

A tile of `height` × `width` real values has a spectrum of as many independent numbers: along the width (the inner axis)
the transform is real, so bins 0 and width/2 are real lines, and bins between are complex ones; then along the height.
A complex product takes three real ones (Gauss): for V = a + ib and W = c + id, the sums over channels of
    P = (a + b)·c      Q = a·(d − c)      R = b·(c + d)      give      V·W = (P − R) + i(P + Q),
so that a spectrum is a list of `points`, each a real matrix product. Order: the two real lines (see `line_points`),
then the complex lines, of three points for each of their bins.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from mlir import ir

from onnxc.passes.kernels import scalars
from onnxc.passes.kernels.contraction import Arithmetic

LENGTHS = (8, 16, 32, 64, 128)  # of transforms
LONGEST = 32  # of those along two axes: longer lines are mostly padding in code and images
MOST_VALUES = 1024  # of a tile: as vectors they are 64 KB of stack where vectors are widest
PARTS = 3  # products of a complex bin
CHUNK_BYTES = 64 << 20  # of float64 spectra at once


@dataclass(frozen=True)
class FftTile:
    """Extents of a tile along both spatial axes of an image (of one row, where there is only one), and the window's.

    The tile's first `steps` results along each axis are whole: transforms wrap around. An axis along which the window
    has one tap needs no transform, and has extent 1."""

    extents: tuple[int, int]
    window: tuple[int, int]

    @property
    def steps(self) -> tuple[int, int]:
        rows, columns = (t - k + 1 for t, k in zip(self.extents, self.window, strict=True))
        return rows, columns

    @property
    def inner(self) -> int:
        """The axis of the real transform: the last one that has any."""
        return 1 if self.extents[1] > 1 else 0

    @property
    def width(self) -> int:
        return self.extents[self.inner]

    @property
    def height(self) -> int:
        return self.extents[1 - self.inner]

    @property
    def points(self) -> int:
        return 2 * line_points(self.height) + (self.width // 2 - 1) * PARTS * self.height


def line_points(length: int) -> int:
    """Points of a real line: its bins 0 and length/2, then three for each bin between."""
    return 1 if length == 1 else 2 + PARTS * (length // 2 - 1)


def transformed_weights(weights: np.ndarray, tile: FftTile) -> np.ndarray:
    """[kh, kw, C, M] → [points, C, M]: conjugate spectra (a convolution of ONNX is a correlation) over height·width."""
    taps = weights if tile.inner == 1 else weights.transpose(1, 0, 2, 3)
    channels, filters = weights.shape[2:]
    result = np.empty((tile.points, channels, filters), weights.dtype)
    step = max(1, CHUNK_BYTES // (16 * tile.height * tile.width * filters))
    for first in range(0, channels, step):
        some = taps[:, :, first : first + step].astype(np.float64)
        spectra = np.fft.rfft2(some, (tile.height, tile.width), axes=(0, 1)).conj() / (tile.height * tile.width)
        result[:, first : first + step] = _points(spectra, tile)
    return result


def _points(spectra: np.ndarray, tile: FftTile) -> np.ndarray:
    """[height, width/2 + 1, …] complex → [points, …]."""
    half, found = tile.height // 2, []
    for line in (0, tile.width // 2):
        found += [spectra[0, line].real] if tile.height == 1 else [spectra[0, line].real, spectra[half, line].real]
        found += [part for bin_ in spectra[1:half, line] for part in _parts(bin_)]
    for line in range(1, tile.width // 2):
        found += [part for bin_ in spectra[:, line] for part in _parts(bin_)]
    return np.stack(found)


def _parts(w: np.ndarray) -> tuple[np.ndarray, ...]:
    return w.real, w.imag - w.real, w.real + w.imag


class Vectors:
    """The algebra of the butterflies on vectors in IR."""

    def __init__(self, sums: Arithmetic):
        self.sums = sums

    def add(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return scalars.add(a, b)

    def sub(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return scalars.sub(a, b)

    def scale(self, factor: float, a: ir.Value) -> ir.Value:
        return scalars.mul(scalars.constant_like(factor, a), a)

    def scale_add(self, factor: float, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.sums.multiply_add(scalars.constant_like(factor, a), a, b)
