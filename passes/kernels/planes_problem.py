"""What a convolution of planes computes, and the patch on the stack that its kernel reads (see conv_planes.py).

The patch has a line for each (channel, row of x, phase): the elements of the row whose number leaves `phase` when it is
divided by the last stride.
"""

from __future__ import annotations

from dataclasses import replace

from onnxc.dialects import dims
from onnxc.dialects.onnx import OnnxOp
from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import contraction, scalars
from onnxc.passes.kernels.conv_problem import Conv

PATCH_BYTES = 36 << 10  # stays in L1, and is little enough for any stack
MOST_STRIDE = 4  # along the last axis: vectors are taken apart by shuffles
RUN = 64  # pixels of a run, at least


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
    fits = 1 <= p.taps * p.channels <= contraction.BLOCK and patch_bytes(p, RUN) <= PATCH_BYTES
    return fits and fills_vectors(p.out[-1])


def fills_vectors(width: dims.Dim) -> bool:
    """Whether a row of so many elements fills whole vectors, or nearly so; one whose length only a run tells may."""
    return not isinstance(width, int) or 4 * width >= 3 * (-(-width // 16) * 16)


def depth(p: Conv, deep: int) -> int:
    """Rows of x that so many rows of the result meet, for one place of the window on the axes before."""
    return (deep - 1) * p.strides[-2] + p.kernel[-2]


def lines(p: Conv, deep: int) -> int:
    """Lines of the patch: a channel's rows of x, apart by the phase of the stride."""
    return p.channels * dims.product(p.kernel[:-2]) * depth(p, deep) * len(phases(p))


def phases(p: Conv) -> list[int]:
    """Remainders modulo the last stride at which some tap reads."""
    return sorted({tap * p.dilations[-1] % p.strides[-1] for tap in range(p.kernel[-1])})


def reach(p: Conv) -> int:
    """Elements of a line behind a pixel's own that its taps meet."""
    return (p.kernel[-1] - 1) * p.dilations[-1] // p.strides[-1]


def line_length(p: Conv, run: int) -> int:
    """Elements that a line of the patch holds for so many pixels."""
    return -(-(-(-run // 16) * 16 + reach(p)) // 16) * 16


def patch_bytes(p: Conv, run: int, deep: int = 1) -> int:
    return lines(p, deep) * line_length(p, run) * max(4, scalars.byte_width(p.elem))
