"""What an attention kernel computes: the sizes behind `kernel.attention`, and where a head's rows lie."""

from __future__ import annotations

from dataclasses import dataclass

from onnxc.dialects import dims
from onnxc.dialects.onnx import OnnxOp
from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels.builder import Buffer
from onnxc.passes.kernels.kernel_function import KernelFunction

Dim = dims.Dim


@dataclass(frozen=True)
class Attention:
    op: OnnxOp
    elem: str
    batch: Dim
    heads: int
    kv_heads: int
    queries: Dim
    keys: Dim
    width: int
    value_width: int
    scale: float

    @classmethod
    def of(cls, kernel: KernelFunction) -> Attention:
        op = kernel.root
        q, k, v = (Tensor.of(operand.type).shape for operand in op.operands[:3])
        heads, kv_heads = op.attr("heads"), op.attr("kv_heads")
        if len(q) == 3:
            widths = q[2] // heads, v[2] // kv_heads
        else:
            widths = q[3], v[3]
        return cls(
            op, Tensor.of(op.operands[0].type).elem, q[0], heads, kv_heads, q[-2], k[-2], *widths, op.attr("scale")
        )

    def place(
        self, buffer: Buffer, role: int, image: im.Index, head: im.Index, row: im.Index, rows: im.Index
    ) -> tuple[im.Index, im.Index]:
        """(offset, step from row to row) of a head's row in operand `role`: 0 q, 1 k, 2 v, 3 the result."""
        heads = self.heads if role in (0, 3) else self.kv_heads
        width = self.width if role < 2 else self.value_width
        if len(buffer.shape) == 3:
            start = im.add(im.mul(im.add(im.mul(im.add(im.mul(image, rows), row), heads), head), width), 0)
            return start, heads * width
        return im.mul(im.add(im.mul(im.add(im.mul(image, heads), head), rows), row), width), width
