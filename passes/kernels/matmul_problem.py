"""What a matmul kernel computes, whichever operator it comes from: shapes, transposition, scaling, reading operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mlir import ir

from onnxc.dialects import dims
from onnxc.dialects.onnx import OnnxOp
from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels import scalars
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.contraction import Arithmetic, tile_count
from onnxc.passes.kernels.evaluate import Evaluator, Lanes
from onnxc.passes.kernels.kernel_function import KernelFunction

Dim = dims.Dim
STAGGER = 5  # elements between rows of a constant A whose length is a number of lines
LEAST_TURNED = 8  # terms of B that are turned in registers


@dataclass(frozen=True)
class Matmul:
    """result[batch, row, n] = alpha · Σₖ a[batch, row, k]·b[batch, k, n] + beta · c.

    Where B has no batch and A is plain, A's batch dims are rows as well (`row_dims`), so that small batches fill tiles.
    """

    op: OnnxOp
    elem: str
    batch: tuple[Dim, ...]
    row_dims: tuple[Dim, ...]
    n: Dim
    k: Dim
    trans_a: bool
    trans_b: bool
    transposed_batch_a: bool
    transposed_batch_b: bool
    has_m: bool
    has_n: bool
    alpha: float
    beta: float
    a_position: int
    b_position: int

    @property
    def rows(self) -> Dim:
        return dims.product(self.row_dims)

    @property
    def reads_b_in_rows(self) -> bool:
        """Whether B is as it is in memory, its columns side by side."""
        return self.b_position >= 0 and self.has_n and not (self.trans_b or self.transposed_batch_b)

    @property
    def turns_b(self) -> bool:
        """Whether B is as it is in memory, a column's terms side by side, and enough of them to fill squares."""
        long = not isinstance(self.k, int) or self.k >= LEAST_TURNED
        return self.b_position >= 0 and self.has_n and self.trans_b and not self.transposed_batch_b and long

    @property
    def result_rank(self) -> int:
        return len(Tensor.of(self.op.results[0].type).shape)

    @classmethod
    def of(cls, kernel: KernelFunction) -> Matmul:
        op = kernel.root
        a, result = Tensor.of(op.operands[0].type), Tensor.of(op.results[0].type)
        scaled = op.name in ("Gemm", "microsoft.FusedMatMul")
        trans_a = bool(op.attr("transA", 0)) if scaled else False
        trans_b = bool(op.attr("transB", 0)) if scaled else False
        batch_a = bool(op.attr("transBatchA", 0)) if op.name == "microsoft.FusedMatMul" else False
        batch_b = bool(op.attr("transBatchB", 0)) if op.name == "microsoft.FusedMatMul" else False
        a_position, b_position = (kernel.operands.index(v) if v in kernel.operands else -1 for v in op.operands[:2])
        staggered = kernel.packed and b_position not in kernel.constants  # it is A that is packed
        b_rank = len(Tensor.of(op.operands[1].type).shape) - (1 if kernel.packed and not staggered else 0)
        has_m = len(a.shape) > 1
        k = a.shape[_axes(len(a.shape), trans_a, batch_a)[-1]] - (STAGGER if staggered else 0)
        has_n = b_rank > 1
        n = result.shape[-1] if has_n else 1
        lead = result.shape[: len(result.shape) - has_m - has_n]
        m = result.shape[len(lead)] if has_m else 1
        merge = has_m and not trans_a and not batch_a and b_rank <= 2 and a.shape[:-2] == lead
        return cls(
            op,
            result.elem if op.name == "Gemm" else a.elem,
            () if merge else lead,
            (*lead, m) if merge else (m,),
            n,
            k,
            trans_a,
            trans_b,
            batch_a,
            batch_b,
            has_m,
            has_n,
            float(op.attr("alpha", 1.0)) if scaled else 1.0,
            float(op.attr("beta", 1.0)) if op.name == "Gemm" else 0.0,
            a_position,
            b_position,
        )

    def result_point(self, batch: Sequence[im.Index], row: Sequence[im.Index], column: im.Index) -> list[im.Index]:
        return [*batch, *(row if self.has_m else []), *([column] if self.has_n else [])]

    def left(self, b: KernelBuilder, ev: Evaluator) -> Callable:
        """`left(batch, row, rows)(k)` gives A's elements of k, one a row."""
        a = self.op.operands[0]
        shape, rank = b.shape(a), len(Tensor.of(a.type).shape)
        row_dims = [b.dim(d) for d in self.row_dims]
        axes = _axes(rank, self.trans_a, self.transposed_batch_a)

        def flat(batch, row: im.Index, rows: int):
            buffer = b.inputs[a]
            strides = [buffer.strides[i] for i in axes]
            extents = [shape[i] for i in axes]
            base = _batch_offset(batch, extents[:-2], strides[:-2])
            if self.has_m:  # dense rows: batch dims that are rows have the row's stride
                base = im.add(base, im.mul(row, strides[-2]))

            def load(k: im.Index) -> list[ir.Value]:
                at = im.add(base, im.mul(k, strides[-1]))
                return [buffer.load_flat(im.add(at, im.mul(strides[-2], r) if self.has_m else 0)) for r in range(rows)]

            return load

        def evaluated(batch, row: im.Index, rows: int):
            def load(k: im.Index) -> list[ir.Value]:
                values = []
                for r in range(rows):
                    point = [*batch, *im.unflattened(im.add(row, r), row_dims), k] if self.has_m else [k]
                    values.append(ev.at(a, _permuted(_broadcast(point, [shape[i] for i in axes]), axes)))
                return values

            return load

        return flat if a in b.inputs else evaluated

    def right(self, b: KernelBuilder, ev: Evaluator) -> Callable:
        """`right(batch, columns, masks, width)(k, row)` gives B's vectors of row k, one a start column."""
        v = self.op.operands[1]
        shape, rank = b.shape(v), len(Tensor.of(v.type).shape)
        axes = _axes(rank, self.trans_b, self.transposed_batch_b)
        last = axes[-1] if rank > 1 else None
        extents = [shape[i] for i in axes]

        def panel(batch, columns, masks, width: int):
            def load(k: im.Index, _row: im.Index) -> list[ir.Value]:
                values = []
                for column, mask in zip(columns, masks, strict=True):
                    point = _permuted(_broadcast([*batch, k, column], extents), axes) if rank > 1 else [k]
                    lanes = Lanes(width, last, mask) if width > 1 else Lanes()
                    values.append(ev.at(v, point, lanes))
                return values

            return load

        return panel

    def column(self, b: KernelBuilder, batch, columns: Sequence[im.Index], sums: Arithmetic) -> Callable:
        """`column(i, k, mask)` gives a vector of B's column number `columns[0]` + i from row k on, where B is turned;
        of the last one beyond it."""
        v = self.op.operands[1]
        shape = b.shape(v)
        axes = _axes(len(shape), self.trans_b, self.transposed_batch_b)
        extents, last = [shape[i] for i in axes], im.sub(b.dim(self.n), 1)

        def read(i: int, k: im.Index, mask: ir.Value | None) -> ir.Value:
            point = [*batch, k, im.minimum(im.add(columns[0], i), last)]
            place = b.inputs[v].offset(_permuted(_broadcast(point, extents), axes))
            return sums.widen(b.inputs[v].load_vector(place, sums.lanes, mask))

        return read

    def right_offset(self, b: KernelBuilder, batch, k: im.Index, column: im.Index) -> im.Index | None:
        """Where B's element lies, if B is as it is in memory and its columns side by side; else None."""
        v = self.op.operands[1]
        shape = b.shape(v)
        axes = _axes(len(shape), self.trans_b, self.transposed_batch_b)
        if v not in b.inputs or len(shape) < 2 or axes[-1] != len(shape) - 1:
            return None
        return b.inputs[v].offset(_permuted(_broadcast([*batch, k, column], [shape[i] for i in axes]), axes))

    def scaled(
        self, b: KernelBuilder, ev: Evaluator, point, lanes: Lanes, total: ir.Value, sums: Arithmetic
    ) -> ir.Value:
        """alpha·total + beta·c at the point."""
        if self.alpha != 1.0:
            total = scalars.mul(total, scalars.constant_like(self.alpha, total))
        c = self.op.operands[2] if self.op.name == "Gemm" and len(self.op.operands) > 2 else None
        if c is None or self.beta == 0.0:
            return total
        read = ev.aligned(c, self.op.results[0], tuple(point), lanes)
        addend = sums.widen(ev.at(c, *read) if read is not None else _by_lane(b, ev, c, point, lanes))
        if self.beta != 1.0:
            addend = scalars.mul(addend, scalars.constant_like(self.beta, addend))
        return scalars.add(total, addend)


@dataclass(frozen=True)
class Grid:
    """The units: batch × row groups × panels."""

    batch: Dim
    tiles: Dim
    groups: Dim
    panels: Dim

    @classmethod
    def of(cls, p: Matmul, s) -> Grid:
        """By a MatmulSchedule."""
        tiles = tile_count(p.rows, s.rows)
        return cls(dims.product(p.batch), tiles, (tiles + (s.group - 1)) // s.group, (p.n + (s.width - 1)) // s.width)


def _axes(rank: int, transposed: bool, transposed_batch: bool) -> list[int]:
    """The operand's axes in the order batch…, row, column of the product."""
    axes = list(range(rank))
    if transposed_batch and rank > 2:
        axes = [*axes[1:-1], 0, axes[-1]]
    if transposed and rank > 1:
        axes[-1], axes[-2] = axes[-2], axes[-1]
    return axes


def _batch_offset(batch: Sequence[im.Index], extents: Sequence[im.Index], strides: Sequence[im.Index]) -> im.Index:
    """Offset of a batch, dims of one element being broadcast."""
    offset: im.Index = 0
    if not batch:
        return offset
    for i, extent, stride in zip(batch[len(batch) - len(extents) :], extents, strides, strict=True):
        step = (
            im.select(im.compare(extent, "==", 1), 0, stride) if not isinstance(extent, int) or extent == 1 else stride
        )
        offset = im.add(offset, im.mul(i, step))
    return offset


def _broadcast(point: Sequence[im.Index], extents: Sequence[im.Index]) -> list[im.Index]:
    """The operand's own point: leading dims it lacks are dropped, batch dims of one element are 0."""
    own = list(point)[len(point) - len(extents) :]
    lead = len(extents) - 2
    return [
        im.select(im.compare(e, "==", 1), 0, i) if n < lead else i
        for n, (i, e) in enumerate(zip(own, extents, strict=True))
    ]


def _permuted(point: Sequence[im.Index], axes: Sequence[int]) -> list[im.Index]:
    own: list[im.Index] = [0] * len(axes)
    for i, axis in zip(point, axes, strict=True):
        own[axis] = i
    return own


def _by_lane(b: KernelBuilder, ev: Evaluator, v: ir.Value, point, lanes: Lanes) -> ir.Value:
    """Elements of an operand of which only run time knows whether it is broadcast along the columns."""
    from mlir.dialects import vector

    axis = len(point) - 1
    extents = b.shape(v)
    elements = []
    for i in range(lanes.width):
        at = [*point[:axis], im.minimum(im.add(point[axis], i), im.sub(b.shape(v)[-1], 1))]
        own = at[len(at) - len(extents) :]
        own = [im.select(im.compare(e, "==", 1), 0, p) for p, e in zip(own, extents, strict=True)]
        elements.append(ev.at(v, own))
    return (
        vector.from_elements(scalars.vector_of(elements[0].type, lanes.width), elements)
        if lanes.width > 1
        else elements[0]
    )
