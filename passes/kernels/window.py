"""Windows over channels-last tensors: which taps of a window lie inside the input, per spatial axis."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mlir import ir

from onnxc.dialects.onnx import OnnxOp
from onnxc.passes.kernels import index_math as im


@dataclass(frozen=True)
class Window:
    """The attributes of a conv or pool, one entry a spatial axis; `ends` are the pads behind."""

    kernel: tuple[int, ...]
    strides: tuple[int, ...]
    dilations: tuple[int, ...]
    begins: tuple[int, ...]
    ends: tuple[int, ...]

    @classmethod
    def of(cls, op: OnnxOp, kernel: tuple[int, ...]) -> Window:
        rank = len(kernel)
        pads = op.attr("pads", [0] * (2 * rank))
        return cls(
            kernel,
            tuple(op.attr("strides", [1] * rank)),
            tuple(op.attr("dilations", [1] * rank)),
            tuple(pads[:rank]),
            tuple(pads[rank:]),
        )

    def start(self, axis: int, out: im.Index) -> im.Index:
        """Where the window of output position `out` begins; negative inside the pad."""
        return im.sub(im.mul(out, self.strides[axis]), self.begins[axis])

    def taps(self, axis: int, start: im.Index, size: im.Index) -> tuple[im.Index, im.Index]:
        """[first, last) of the taps whose position start + tap * dilation is in [0, size)."""
        dilation = self.dilations[axis]
        before = im.maximum(im.sub(0, start), 0)
        first = im.minimum(im.ceildiv(before, dilation), self.kernel[axis])
        last = im.minimum(im.ceildiv(im.maximum(im.sub(size, start), 0), dilation), self.kernel[axis])
        return first, im.maximum(last, first)

    def inside(self, starts: Sequence[im.Index], sizes: Sequence[im.Index]) -> bool | ir.Value:
        """Whether all taps of the window that begins at `starts` are in the input."""
        inside: bool | ir.Value = True
        for axis, (start, size) in enumerate(zip(starts, sizes, strict=True)):
            reach = (self.kernel[axis] - 1) * self.dilations[axis]
            if self.begins[axis]:
                inside = im.both(inside, im.compare(start, ">=", 0))
            inside = im.both(inside, im.compare(im.add(start, reach), "<", size))
        return inside

    def counted(self, axis: int, start: im.Index, size: im.Index) -> im.Index:
        """How many taps lie in the padded input: what an average with count_include_pad divides by."""
        dilation = self.dilations[axis]
        room = im.maximum(im.sub(im.add(size, self.ends[axis]), start), 0)
        return im.minimum(im.ceildiv(room, dilation), self.kernel[axis])
