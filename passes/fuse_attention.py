"""graph -> graph: plain attention becomes the internal op that a kernel computes head by head.

Before:  %0 = "onnx.Attention"(%q, %k, %v, %mask) {scale, q_num_heads, kv_num_heads}
After:   %0 = "kernel.attention"(%q, %k, %v, %mask) {scale, heads, kv_heads}
Only where nothing but a mask that is added comes in and nothing but the result goes out, for heads of known width up to
128 in f32. Keeps: everything else.
"""

from __future__ import annotations

from math import sqrt

from mlir import ir

from onnxc.dialects.levels import GRAPH
from onnxc.dialects.onnx import OnnxOp
from onnxc.dialects.types import Tensor
from onnxc.passes.contract import Program, transforms
from onnxc.passes.lowering.registry import HALVES
from onnxc.passes.rewriting import functions, operations, replace_op

WIDEST = 128  # elements of a head: what the kernel keeps on the stack grows with it


@transforms(GRAPH, GRAPH)
def fuse_attention(program: Program) -> None:
    """See the file's docstring."""
    for function in functions(program.module):
        for op in [o for o in operations(function.regions[0].blocks[0]) if o.name == "onnx.Attention"]:
            _fuse(OnnxOp(op))


def _fuse(op: OnnxOp) -> None:
    sizes = attention_heads(op)
    if sizes is None:
        return
    heads, kv_heads, width = sizes
    i64, f32 = ir.IntegerType.get_signless(64), ir.F32Type.get()
    scale = op.attr("scale", None)
    attributes = {
        "scale": ir.FloatAttr.get(f32, 1 / sqrt(width) if scale is None else scale),
        "heads": ir.IntegerAttr.get(i64, heads),
        "kv_heads": ir.IntegerAttr.get(i64, kv_heads),
    }
    replace_op(op.op, "kernel.attention", [v for v in op.operands if v is not None], attributes)


def takes_heads(q: Tensor, k: Tensor, v: Tensor) -> bool:
    """Whether the kernel takes heads like these, [B, H, S, D]; halves come widened."""
    known = all(isinstance(d, int) and d > 0 for d in (q.dims[1], k.dims[1]))
    widths = all(isinstance(d, int) and 0 < d <= WIDEST for d in (q.dims[-1], v.dims[-1]))
    return known and widths and q.elem in ("f32", *HALVES)


def attention_heads(op: OnnxOp) -> tuple[int, int, int] | None:
    """(heads, heads of K and V, width of a head) of an Attention that the kernel takes; None of another."""
    plain = len(op.results) == 1 or not any(any(True for _ in r.uses) for r in op.results[1:])
    if not plain or op.attr("is_causal", 0) or op.attr("softcap", 0.0) or any(v is not None for v in op.operands[4:]):
        return None
    tensors = [Tensor.of(v.type) for v in op.operands if v is not None]
    if any(t.elem != "f32" for t in tensors) or len({t.rank for t in tensors[:3]}) != 1:
        return None
    q, k, v = (t.shape for t in tensors[:3])
    heads = op.attr("q_num_heads", None) if len(q) == 3 else q[1]
    kv_heads = op.attr("kv_num_heads", None) if len(q) == 3 else k[1]
    if not isinstance(heads, int) or not isinstance(kv_heads, int) or not kv_heads or heads % kv_heads:
        return None
    if len(tensors) > 3 and tensors[3].rank > 4:
        return None
    last = [q[-1], v[-1]]
    if not all(isinstance(d, int) for d in last):
        return None
    widths = [last[0] // heads, last[1] // kv_heads] if len(q) == 3 else last
    return (heads, kv_heads, widths[0]) if min(widths) > 0 and max(widths) <= WIDEST else None
