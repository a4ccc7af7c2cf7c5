"""This file infers shapes of attention and rotary embedding."""

from __future__ import annotations

from onnxc.dialects.dims import Dim
from onnxc.dialects.shapes.registry import IllegalShape, ShapeContext, infers
from onnxc.dialects.types import Tensor


@infers("RotaryEmbedding")
def rotary_embedding(c: ShapeContext) -> list[Tensor]:
    c.ranked(0, 3, 4)
    return [c.tensor(0)]


@infers("Attention")
def attention(c: ShapeContext) -> list[Tensor]:
    """Operands are [batch, heads, length, size] or [batch, length, heads*size]; past keys lie in front of the new."""
    q, k, v = (_heads(c, index) for index in range(3))
    c.same(q[3], k[3], "head sizes of Q and K")
    c.same(k[2], v[2], "lengths of K and V")
    batch, length = c.same(c.same(q[0], k[0], "batches of Q and K"), v[0], "batches of Q and V"), k[2]
    if c.has(4):
        length = c.ranked(4, 4)[2] + length
    flat = len(c.shape(0)) == 3
    y = (batch, q[2], q[1] * v[3]) if flat else (batch, q[1], q[2], v[3])
    return [
        Tensor(c.elem(0), y),
        Tensor(c.elem(1), (batch, k[1], length, k[3])),
        Tensor(c.elem(2), (batch, v[1], length, v[3])),
        Tensor(c.elem(0), (batch, q[1], q[2], length)),
    ]


def _heads(c: ShapeContext, index: int) -> tuple[Dim, ...]:
    shape = c.ranked(index, 3, 4)
    if len(shape) == 4:
        return shape
    count = c.attr("q_num_heads" if index == 0 else "kv_num_heads", None)
    if not count:
        raise IllegalShape("rank-3 operands need q_num_heads and kv_num_heads")
    return (shape[0], count, shape[1], c.divides(shape[2], count, "the features of all heads"))


@infers("microsoft.Attention")
def microsoft_attention(c: ShapeContext) -> list[Tensor]:
    batch, length, _ = c.ranked(0, 3)
    sizes = c.attr("qkv_hidden_sizes", None)
    size = sizes[2] if sizes else c.ranked(1, 2)[1] // 3
    heads = c.attr("num_heads", 1)
    total = c.shape(4)[3] + length if c.has(4) else length
    return [Tensor(c.elem(0), (batch, length, size)), Tensor(c.elem(0), (2, batch, heads, total, size // heads))]


@infers("kernel.attention")
def fused_attention(c: ShapeContext) -> list[Tensor]:
    q, v = c.shape(0), c.shape(2)
    width = v[-1] if len(q) == 4 else v[-1] // c.attr("kv_heads", 1) * c.attr("heads", 1)
    return [Tensor(c.elem(0), (*q[:-1], width))]
