"""Kernels that need scratch for each of their units: how many units there may be, and where a call finds its piece.

    kernel.X(x, w, scratch [PIECES, size], bias?)
A call works in the piece of its first unit, one unit after the other: there is as much scratch for images of any size.
"""

from __future__ import annotations

from onnxc.dialects import dims

PIECES = 16  # of scratch, each of a unit: enough for an even split over a few threads
SCRATCH = 2  # the operand
BIAS = 3


def split(count: dims.Dim, most: int = PIECES) -> tuple[dims.Dim, dims.Dim]:
    """So many things in at most `most` units: how many units, and things a unit."""
    span = (count + (most - 1)) // most
    return (-(-count // max(1, span)) if isinstance(count, int) else most), span
