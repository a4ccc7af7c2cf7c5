"""graph -> graph: transposed convolutions of few filters become convolutions that compute all phases of a pixel.

Before:  %y = "onnx.ConvTranspose"(%x, %w, %b) {strides = [2, 2], pads = [1, 1, 1, 1]}  [1, 32, 32, 32], [32, 3, 4, 4]
After:   %0 = "onnx.Conv"(%x, %w', %b') {pads = [1, 1, 1, 1]}        : [1, 12, 33, 33]   w' [12, 32, 2, 2]
         %1 = "onnx.Reshape"(%0)                                     : [1, 3, 2, 2, 33, 33]
         %2 = "onnx.Transpose"(%1) {perm = [0, 1, 4, 2, 5, 3]}       : [1, 3, 33, 2, 33, 2]
         %y = "onnx.Slice"("onnx.Reshape"(%2), …)                    : [1, 3, 66, 66] → [1, 3, 64, 64]
The result at o = s·q + r - pad, r its phase of s, is the sum over t of x[q - t] · w[r + s·t]: for all phases together a
convolution with s filters for each (s·s in a plane), whose windows have ceil(kernel / s) taps. Few filters leave most
lanes of a vector empty, which those of the phases fill, and such a convolution may be done by any algorithm. An axis of
one pixel is as if its stride were the kernel: a product, which reads each weight once.
Keeps:   types; the sums, but for their order.      Leaves: other ConvTransposes.
"""

from __future__ import annotations

import math

import numpy as np
from mlir import ir

from onnxc.dialects.levels import GRAPH
from onnxc.dialects.onnx import OnnxOp
from onnxc.dialects.types import Tensor
from onnxc.passes.contract import Program, transforms
from onnxc.passes.graph_builder import GraphBuilder
from onnxc.passes.layouts.windows import spatial, transposed_pads
from onnxc.passes.rewriting import functions, operations

DEFAULT_LANES = 8  # of a vector, where no target is known
GAIN = 1.25  # times fewer multiply-adds, counting those of empty lanes
MOVED = 16  # multiply-adds that one element of the result, which is stored once more, may cost


@transforms(GRAPH, GRAPH)
def expand_conv_transpose(program: Program) -> None:
    """See the file's docstring."""
    target = program.options.target
    lanes = target.vector_bits // 32 if target is not None else DEFAULT_LANES
    for function in functions(program.module):
        ops = list(operations(function.regions[0].blocks[0]))
        found = [OnnxOp(op) for op in ops if op.name == "onnx.ConvTranspose"]
        if not found:
            continue
        g = GraphBuilder(program.weights)
        for op in ops:
            g.note(op)
        for op in found:
            phases = _Phases.of(op, g)
            if phases is not None and phases.pays(lanes):
                phases.rewrite()


class _Phases:
    """One ConvTranspose that can be rewritten."""

    def __init__(self, g: GraphBuilder, op: OnnxOp, w: np.ndarray, pads: list[int], extra: list[int]):
        self.g, self.op, self.w = g, op, w
        self.kernel, count = list(w.shape[2:]), w.ndim - 2
        sizes = Tensor.of(op.operands[0].type).dims[2:]
        strides = spatial(op, "strides", count)
        self.strides = [k if n == 1 else s for n, s, k in zip(sizes, strides, self.kernel, strict=True)]
        self.single = all(n == 1 for n in sizes)
        self.taps = [-(-k // s) for k, s in zip(self.kernel, self.strides, strict=True)]
        ends = zip(self.kernel, pads[count:], extra, self.strides, strict=True)
        self.before = [t - 1 - p // s for t, p, s in zip(self.taps, pads[:count], self.strides, strict=True)]
        self.behind = [(k - 1 - p + e) // s for k, p, e, s in ends]
        self.starts = [p % s for p, s in zip(pads[:count], self.strides, strict=True)]

    @classmethod
    def of(cls, op: OnnxOp, g: GraphBuilder) -> _Phases | None:
        """None: not of this form, or with weights that are no constants."""
        pads, w = transposed_pads(op), g.array(op.operands[1])
        bias = op.operands[2] if len(op.operands) > 2 else None
        if pads is None or w is None or not (bias is None or g.is_constant(bias)):
            return None
        if op.attr("group", 1) != 1 or set(spatial(op, "dilations", w.ndim - 2)) != {1}:
            return None
        phases = cls(g, op, w, *pads)
        return phases if min([*phases.before, *phases.behind]) >= 0 else None

    def pays(self, lanes: int) -> bool:
        """Whether vectors have enough fewer empty lanes, taps beyond the kernel's included."""
        channels, filters = self.w.shape[:2]
        phases = math.prod(self.strides)
        now = -(-filters // lanes) * lanes * math.prod(self.kernel)
        then = -(-filters * phases // lanes) * lanes * math.prod(self.taps)
        return self.single or (then * GAIN <= now and channels * (now - then) >= MOVED * filters * phases)

    def rewrite(self) -> None:
        g, op, n = self.g, self.op, len(self.kernel)
        g.at(op.op)
        x, result = Tensor.of(op.operands[0].type), Tensor.of(op.results[0].type)
        filters, phases = self.w.shape[1], math.prod(self.strides)
        sums = zip(x.dims[2:], self.before, self.behind, self.taps, strict=True)
        places = [size + (before + behind + 1 - taps) for size, before, behind, taps in sums]
        operands = [op.operands[0], g.constant(self._weights()), *self._bias(phases)]
        attrs = {"kernel_shape": self.taps, "pads": [*self.before, *self.behind]}
        y = g.one("Conv", operands, result.of_shape((x.dims[0], filters * phases, *places)), attrs)
        y = g.reshape(y, [x.dims[0], filters, *self.strides, *places])
        y = g.transpose(y, [0, 1, *(axis for i in range(n) for axis in (2 + n + i, 2 + i))])
        y = g.reshape(y, [x.dims[0], filters, *(q * s for q, s in zip(places, self.strides, strict=True))])
        y = g.slice(y, {2 + i: (start, result.dims[2 + i]) for i, start in enumerate(self.starts)})
        op.results[0].replace_all_uses_with(y)
        op.op.erase()

    def _weights(self) -> np.ndarray:
        """w [C, M, kernel…] as [M · phases, C, taps…]: tap t of phase r, the last t first, is w[r + s·t]."""
        n = len(self.kernel)
        filled = [(0, t * s - k) for t, s, k in zip(self.taps, self.strides, self.kernel, strict=True)]
        w = np.pad(self.w, [(0, 0), (0, 0), *filled])
        split = [size for pair in zip(self.taps, self.strides, strict=True) for size in pair]
        w = np.flip(w.reshape(*self.w.shape[:2], *split), axis=tuple(2 + 2 * i for i in range(n)))
        w = w.transpose(1, *(3 + 2 * i for i in range(n)), 0, *(2 + 2 * i for i in range(n)))
        return w.reshape(-1, self.w.shape[0], *self.taps)

    def _bias(self, phases: int) -> list[ir.Value]:
        """The bias of each filter for all its phases."""
        bias = self.g.array(self.op.operands[2]) if len(self.op.operands) > 2 else None
        return [] if bias is None else [self.g.constant(np.repeat(bias, phases))]
