"""The register tile that all contractions share: rows × vectors of accumulators, carried through the summation loops.

The order of summation is a promise (same bits for any tile, width, split): an element is summed in blocks of `BLOCK`
terms, each block from zero with fused multiply-adds in the order of k, the blocks added in order. Every row of every
tile does exactly that, so tiles may be cut anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from math import gcd

from mlir import ir
from mlir.dialects import arith, math, memref, vector

from onnxc.dialects import dims
from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels import scalars
from onnxc.passes.kernels.builder import Buffer, KernelBuilder
from onnxc.passes.kernels.evaluate import SCALAR, Lanes
from onnxc.passes.kernels.kernel_function import KernelFunction

BLOCK = 512
UNITS = 16  # enough for an even split over a few threads
FEW_TILES = 2  # that stay together, for their panel comes from far: 16 × 256² by weights from L3 take 0.75 of the time
EVEN = 7  # units at least, where they are odd, that two threads share with 14 % of waiting at most
TILES = 8  # through a panel at least: reading it again costs more than rows that do not stay in L2 (1.2× at K 3072)
COSTLY = {"Erf", "Exp", "Gelu", "Mish", "Sigmoid", "Softplus", "Swish", "Tanh"}  # in an epilogue: tens of instructions
Loader = Callable[[im.Index], tuple[Sequence[ir.Value], Sequence[ir.Value]]]
Ask = Callable[[im.Index, int], None]


@dataclass(frozen=True)
class Arithmetic:
    """How elements are computed: halves through f32, everything else as it is; `lanes` elements a vector."""

    elem: str
    compute: str
    lanes: int
    fused: bool

    @property
    def type(self) -> ir.Type:
        return scalars.vector_of(scalars.element_type(self.compute), self.lanes)

    def zero(self) -> ir.Value:
        return scalars.constant(0, self.type)

    def widen(self, v: ir.Value) -> ir.Value:
        """An operand's elements, which may be narrower than `elem`."""
        return scalars.cast(v, str(scalars.scalar_type(v)), self.compute) if scalars.is_float(self.compute) else v

    def narrow(self, v: ir.Value) -> ir.Value:
        return scalars.cast(v, self.compute, self.elem)

    def multiply_add(self, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        """a·b + c, rounded once where the target has such an instruction."""
        if scalars.is_float(self.compute):
            return math.fma(a, b, c) if self.fused else arith.addf(arith.mulf(a, b), c)
        return arith.addi(arith.muli(a, b), c)

    def room(self, size: int) -> Buffer:
        """Room for so many elements on the stack, from a cache line on; made where the kernel's function begins."""
        type_ = ir.MemRefType.get([max(1, size)], scalars.element_type(self.compute))
        return Buffer(memref.alloca(type_, [], [], alignment=64), self.compute, [size], [1])


def arithmetic(elem: str, target, columns: im.Index | None = None) -> Arithmetic:
    """For element type `elem` on the target; a contraction with one column has no use for vectors."""
    compute = "f32" if elem in ("f16", "bf16") else elem
    lanes = 1 if columns == 1 else max(1, target.vector_bits // (8 * scalars.byte_width(compute)))
    return Arithmetic(elem, compute, lanes, target.has_fma)


def sum_products(
    b: KernelBuilder,
    sums: Arithmetic,
    rows: int,
    vectors: int,
    first: im.Index,
    last: im.Index,
    load: Loader,
    acc: Sequence[ir.Value],
    unroll: int = 1,
    ask: Ask | None = None,
) -> list[ir.Value]:
    """acc[r, v] += a[r, k]·b[k, v] for k in [first, last), a block's share; `load(k)` gives (a per row, b per vector).

    Accumulators are in row-major order. `unroll`: terms a step of the loop, in the same order; before each step,
    `ask(k, terms)` may ask for what is needed after it.
    """

    def step(k: ir.Value, *carried: ir.Value) -> list[ir.Value]:
        scalars_a, vectors_b = load(k)
        after = []
        for r in range(rows):
            broadcast = scalars.splat(scalars_a[r], sums.lanes)
            after += [sums.multiply_add(broadcast, vectors_b[v], carried[r * vectors + v]) for v in range(vectors)]
        return after

    def steps(terms: int, k: ir.Value, *carried: ir.Value) -> Sequence[ir.Value]:
        if ask:
            ask(k, terms)
        for i in range(terms):
            carried = tuple(step(im.add(k, i), *carried))
        return carried

    if unroll > 1:
        whole = im.add(first, im.mul(im.floordiv(im.sub(last, first), unroll), unroll))
        acc, first = b.reduce(first, whole, unroll, acc, partial(steps, unroll)), whole
        if isinstance(whole, int) and whole == last:
            return list(acc)
    return b.reduce(first, last, 1, acc, partial(steps, 1))


def sum_blocks(
    b: KernelBuilder,
    sums: Arithmetic,
    rows: int,
    vectors: int,
    terms: im.Index,
    load: Loader,
    before: Sequence[ir.Value] | None = None,
    first: im.Index = 0,
    unroll: int = 1,
    ask: Ask | None = None,
) -> list[ir.Value]:
    """The sums over k in [first, terms), in blocks, which are added to `before` (default: zeros)."""
    zeros = [sums.zero()] * (rows * vectors)
    if before is None and isinstance(terms, int) and terms <= BLOCK:
        return sum_products(b, sums, rows, vectors, 0, terms, load, zeros, unroll, ask)

    def block(start: ir.Value, *totals: ir.Value) -> list[ir.Value]:
        stop = im.minimum(im.add(start, BLOCK), terms)
        part = sum_products(b, sums, rows, vectors, start, stop, load, zeros, unroll, ask)
        return [scalars.add(t, p) for t, p in zip(totals, part, strict=True)]

    return b.reduce(first, terms, BLOCK, before or zeros, block)


def row_tiles(
    b: KernelBuilder,
    rows: im.Index,
    height: int,
    first: im.Index,
    last: im.Index,
    tile: Callable[[im.Index, int], None],
    *,
    few: bool = False,
) -> None:
    """Calls `tile(start row, rows)` to emit the rows' tiles `first` … `last` - 1, each of at most `height` rows.

    A known number of rows is cut into tiles that differ by one row at most. Else all have `height` rows, but for what
    is left over where `height` need not divide them: pieces, each a power of two, or, where there may be `few` rows in
    all, so that they count, one tile of just as many rows; of those, what known divisors of the rows allow.
    """
    if isinstance(rows, int):
        count = max(1, -(-rows // height))
        small, extra = divmod(rows, count)
        if extra:
            with b.loop(first, im.minimum(last, extra)) as t:
                tile(im.mul(t, small + 1), small + 1)
        if small and count > extra:
            with b.loop(im.maximum(first, extra), last) as t:
                tile(im.add(im.mul(t, small), extra), small)
        return
    whole = im.floordiv(rows, height)
    if b.divides(height, rows):
        with b.loop(first, last) as t:
            tile(im.mul(t, height), height)
        return
    with b.loop(first, im.minimum(last, whole)) as t:
        tile(im.mul(t, height), height)
    done = im.mul(whole, height)
    with b.when(im.both(im.compare(last, ">", whole), im.compare(done, "<", rows))):
        (_one_tile if few else _pieces)(b, rows, done, height, gcd(b.divisor(rows), height), tile)


def _pieces(b: KernelBuilder, rows: im.Index, done: im.Index, height: int, step: int, tile) -> None:
    piece = 1 << max(0, (height - 1).bit_length() - 1)
    while piece >= step & -step and height > 1:  # `step` divides what is left
        after = im.add(done, piece)
        fits = im.compare(after, "<=", rows)
        with b.when(fits):
            tile(done, piece)
        done = im.select(fits, after, done)
        piece //= 2


def _one_tile(b: KernelBuilder, rows: im.Index, done: im.Index, height: int, step: int, tile) -> None:
    left = im.sub(rows, done)
    for count in range(step, height, step):
        with b.when(im.compare(left, "==", count)):
            tile(done, count)


def has_costly_epilogue(kernel: KernelFunction) -> bool:
    return any(op.name in COSTLY for op in kernel.ops)


def rows_are_one_axis(kernel: KernelFunction, operands: int = 2) -> bool:
    """Whether all that the epilogue reads has the result's shape or varies along its last axis only.

    Then the leading coordinates need not be told apart: (0, …, row, column) leads to the same elements. The root alone
    reads its first `operands` operands.
    """
    root = kernel.root
    if any(v is not None and v not in kernel.operands for v in root.operands):
        return False
    result = Tensor.of(root.results[0].type).shape
    read = [*kernel.operands, *(r for op in kernel.ops for r in op.results)]
    own = [v for v in root.operands[:operands] if sum(1 for _ in v.uses) == 1]  # read by the root alone
    shapes = [Tensor.of(v.type).shape for v in read if v not in own and not isinstance(v.type, ir.NoneType)]
    return all(shape == result or all(d == 1 for d in shape[:-1]) for shape in shapes)


def tile_count(rows, height: int):
    """How many tiles `row_tiles` numbers, as a Dim."""
    count = -(-rows // height) if isinstance(rows, int) else (rows + (height - 1)) // height
    return max(1, count) if isinstance(count, int) else count


def tiles_a_unit(
    tiles: dims.Dim, panels: dims.Dim, tile_bytes: int, target, units: int = UNITS, copied: bool = False
) -> int:
    """How many row tiles go through a panel before the next: their rows stay in L2, and all threads find work, which
    takes `units`. `copied`: each unit copies its panel first, which costs 3 to 11 % where it is done twice or more, so
    there are only as many units as two threads can share; so it is with FEW_TILES. Passes over a panel get equal shares
    of the tiles: a last one of few would wait for the panel (384 × 768 · 768 × 3072 with 12, 12 and 4 tiles: 3 to 5 %
    longer)."""
    most = max(TILES, target.l2_bytes // (2 if copied else 4) // max(1, tile_bytes))
    if not isinstance(tiles, int):
        return int(max(1, min(most, units, dims.bounds(tiles)[1])))
    pieces = -(-units // panels) if isinstance(panels, int) and panels else 1
    shared = pieces > 1 and (panels % 2 == 0 or panels >= EVEN)
    if shared and (copied or tiles <= FEW_TILES):
        pieces = 1
    elif copied:
        pieces = min(pieces, 2)
    group = max(1, min(most, -(-tiles // pieces)))
    return -(-tiles // max(1, -(-tiles // group)))


def panel_start(buffer, batch: Sequence[im.Index], panel: im.Index) -> im.Index:
    """Where a panel of packed weights [batch…, panel, k, column] starts; batch dims of one element are broadcast."""
    number = panel
    for i, extent in enumerate(buffer.shape[:-3]):
        skip = len(buffer.shape) - 3 - i
        if skip <= len(batch) and extent != 1:
            number = im.add(number, im.mul(batch[-skip], im.product(buffer.shape[i + 1 : -2])))
    return im.mul(number, buffer.strides[-3])


def column_masks(width: int, vectors: int, columns: im.Index, start: im.Index, exact: bool) -> list[ir.Value | None]:
    """Per vector from column `start`: which lanes lie before `columns`; None where all do, as `exact` says."""
    if exact or width == 1:
        return [None] * vectors
    type_ = ir.VectorType.get([width], ir.IntegerType.get_signless(1))
    left = im.sub(columns, start)
    return [vector.create_mask(type_, [im.value(im.maximum(im.sub(left, v * width), 0))]) for v in range(vectors)]


def store_tile(
    b: KernelBuilder,
    ev,
    result: ir.Value,
    lanes_of: Callable[[int], Lanes],
    points: Callable[[im.Index, int], Sequence[im.Index]],
    rows: int,
    vectors: int,
    element: Callable[[Sequence[im.Index], Lanes, ir.Value], ir.Value],
    acc: Sequence[ir.Value],
    room: Buffer | None = None,
) -> None:
    """Runs the epilogue on a tile: `element(point, lanes, sum)` gives the root's result there, which the kernel's
    results are computed from and stored. With `room` for the sums it is a loop over the rows; code for one row then
    serves all."""

    def store(row: im.Index, sums: Sequence[ir.Value]) -> None:
        for v, sum_ in enumerate(sums):
            point, lanes = tuple(points(row, v)), lanes_of(v)
            lanes = lanes if lanes.width > 1 else SCALAR
            ev.seed(result, point, lanes, element(point, lanes, sum_))
            for value, out in zip(b.kernel.results, b.outputs, strict=True):
                out.store_vector(ev.at(value, point, lanes), out.offset(point), lanes.mask)

    if room is None or rows == 1:
        for r in range(rows):
            store(r, acc[r * vectors : (r + 1) * vectors])
        return
    width = lanes_of(0).width
    for i, sum_ in enumerate(acc):
        room.store_vector(sum_, i * width)
    with b.loop(0, rows) as row, ev.scope():
        at = im.mul(row, vectors * width)
        store(row, [room.load_vector(im.add(at, v * width), width) for v in range(vectors)])
