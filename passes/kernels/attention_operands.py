"""How an attention kernel reads its operands: keys turned into columns and values side by side on the stack, the mask.

Rows of a head lie heads·width elements apart in memory: to L1 in a few sets, to the TLB on a page each. A block of them
is read once for all of a unit's queries, so what it costs to lay it out is soon won back.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from mlir import ir
from mlir.dialects import arith, memref, vector

from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels import scalars
from onnxc.passes.kernels.attention_problem import Attention
from onnxc.passes.kernels.builder import Buffer, KernelBuilder
from onnxc.passes.kernels.contraction import Arithmetic
from onnxc.passes.kernels.transposition import transposed

PAD = 16  # elements between rows on the stack, so that they don't fall into one cache set


class Operands:
    """Emits reading; `tile` columns are read at once. `image`, `head` and `kv_head` are the unit's."""

    image: im.Index
    head: im.Index
    kv_head: im.Index

    def __init__(self, b: KernelBuilder, p: Attention, sums: Arithmetic, block: int, tile: int):
        self.b, self.p, self.sums = b, p, sums
        self.lanes = sums.lanes
        self.q, self.k, self.v = (b.inputs[v] for v in p.op.operands[:3])
        self.mask = b.inputs[p.op.operands[3]] if len(p.op.operands) > 3 and p.op.operands[3] is not None else None
        self.queries, self.keys = b.dim(p.queries), b.dim(p.keys)
        self.stride = block + PAD
        self.value_stride = -(-p.value_width // tile) * tile
        self.columns = sums.room(p.width * self.stride)
        self.values = sums.room(block * self.value_stride)

    def select(self, number: im.Index) -> None:
        """The image and head of that number."""
        self.image, self.head = im.floordiv(number, self.p.heads), im.mod(number, self.p.heads)
        self.kv_head = im.floordiv(self.head, self.p.heads // self.p.kv_heads)

    def pieces(self, extent: int, size: int, piece: Callable[[im.Index, int], None]) -> None:
        """`piece(start, length)` for every `size` of the extent: a loop, and what is left over."""
        whole = extent // size * size
        if whole:
            with self.b.loop(0, whole, size) as start:
                piece(start, size)
        if whole < extent:
            piece(whole, extent - whole)

    def lanes_before(self, lanes: im.Index) -> ir.Value:
        type_ = ir.VectorType.get([self.lanes], ir.IntegerType.get_signless(1))
        return vector.create_mask(type_, [im.value(im.maximum(lanes, 0))])

    def turn_keys(self, key: im.Index, count: im.Index) -> None:
        """columns[d, t] = k[key + t, d] for t < count, in whole vectors: what lies beyond is copies of the last.

        What a tile reads must have been written: with denormals from an old stack each product costs a hundred cycles.
        """
        start, step = self.p.place(self.k, 1, self.image, self.kv_head, key, self.keys)
        exact = self.b.divides(self.lanes, self.keys)
        with self.b.loop(0, im.mul(im.ceildiv(count, self.lanes), self.lanes), self.lanes) as t:
            rows = [im.add(t, i) if exact else im.minimum(im.add(t, i), im.sub(count, 1)) for i in range(self.lanes)]

            def square(d: im.Index, left: int) -> None:
                mask = self.lanes_before(left) if left < self.lanes else None
                vectors = [
                    self.sums.widen(self.k.load_vector(im.add(start, im.add(im.mul(r, step), d)), self.lanes, mask))
                    for r in rows
                ]
                for j, v in enumerate(transposed(vectors)[:left]):
                    self.columns.store_vector(v, im.add(t, im.mul(im.add(d, j), self.stride)))

            self.pieces(self.p.width, self.lanes, square)

    def _inside(self, left: int) -> ir.Value | None:
        return None if left >= self.lanes else self.lanes_before(left)

    def copy_values(self, key: im.Index, count: im.Index) -> None:
        """values[t] = v[key + t] for t < count, zeros beyond its width."""
        read = self.values_at(key, False)
        with self.b.loop(0, count) as t:
            for c in range(0, self.value_stride, self.lanes):
                left = self.p.value_width - c
                v = read(t, c, left) if left > 0 else self.sums.zero()
                self.values.store_vector(v, im.add(im.mul(t, self.value_stride), c))

    def values_at(self, key: im.Index, copied: bool | ir.Value) -> Callable[[im.Index, im.Index, int], ir.Value]:
        """`read(t, column, left)`: a vector of v[key + t], where `left` columns are there; of the copy if `copied`."""
        start, step = self.p.place(self.v, 2, self.image, self.kv_head, key, self.keys)
        buffer = self.v
        if copied is True:
            buffer, start, step = self.values, 0, self.value_stride
        elif copied is not False:
            copy = memref.cast(buffer.memory.type, self.values.memory)
            memory = arith.select(copied, copy, buffer.memory)
            buffer = Buffer(memory, buffer.elem, buffer.shape, buffer.strides)
            start, step = im.select(copied, 0, start), im.select(copied, self.value_stride, step)

        def read(t: im.Index, column: im.Index, left: int) -> ir.Value:
            at = im.add(im.add(start, im.mul(t, step)), column)
            v = buffer.load_vector(at, self.lanes, self._inside(left))
            return v if buffer is self.values else self.sums.widen(v)

        return read

    def ask(self, key: im.Index) -> None:
        """Asks for a row of keys and one of values that are needed later."""
        at = im.minimum(key, im.sub(self.keys, 1))
        for buffer, role, width in ((self.k, 1, self.p.width), (self.v, 2, self.p.value_width)):
            start, _ = self.p.place(buffer, role, self.image, self.kv_head, at, self.keys)
            for i in range(0, width, 64 // scalars.byte_width(self.p.elem)):
                memref.prefetch(buffer.memory, [im.value(im.add(start, i))], False, 2, True)

    def mask_at(self, key: im.Index, left: im.Index) -> Callable[[ir.Value, im.Index], ir.Value]:
        """`add(scores, query)` adds the mask to a query's scores at keys from `key`; `left` are in the block."""
        mask = self.mask
        if mask is None:
            return lambda scores, query: scores
        full = (self.p.batch, self.p.heads, self.p.queries, self.p.keys)[4 - len(mask.shape) :]
        shape = Tensor.of(self.p.op.operands[3].type).dims
        inside = self.lanes_before(left)

        def read(query: im.Index) -> ir.Value:
            point = [self.image, self.head, query, key][4 - len(mask.shape) :]
            # a dim of one is broadcast; one that is the scores' own needs no test
            places = [
                i if own == other else im.select(im.compare(extent, "==", 1), 0, i)
                for i, own, other, extent in zip(point, shape, full, mask.shape, strict=True)
            ]
            offset = mask.offset([*places[:-1], 0])
            vector_ = partial(mask.load_vector, im.add(offset, key), self.lanes, inside)
            if shape[-1] == full[-1]:
                return self.sums.widen(vector_())
            type_ = scalars.vector_of(scalars.element_type(self.p.elem), self.lanes)
            one = im.compare(mask.shape[-1], "==", 1)
            scalar = lambda: scalars.splat(mask.load_flat(offset), self.lanes)  # noqa: E731
            return self.sums.widen(self.b.choose(one, type_, scalar, vector_))

        if len(shape) < 2 or shape[-2] == 1:  # the same for all queries
            value = read(0)
            return lambda scores, query: scalars.add(scores, value)
        return lambda scores, query: scalars.add(scores, read(query))
