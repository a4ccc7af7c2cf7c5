"""The map kernel's way to transpose: square blocks of vectors, turned in registers.

A Transpose that moves the innermost axis reads with a stride however its loops are ordered; here a block of as many
rows as a vector has lanes is loaded along the operand's innermost axis and exchanged by shuffles, so that both sides
move whole vectors. What follows element by element is computed on the turned vectors. Axes that stay neighbours are
one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from mlir import ir
from mlir.dialects import vector

from onnxc.dialects import dims
from onnxc.dialects.onnx import OnnxOp
from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels import scalars
from onnxc.passes.kernels.builder import Buffer, KernelBuilder, row_major
from onnxc.passes.kernels.evaluate import Evaluator, Lanes
from onnxc.passes.kernels.kernel_function import ELEMENT, KernelFunction, Launch
from onnxc.passes.lowering.registry import ELEMENTWISE

FEW = 8  # elements along the result's innermost axis, as the channels of images: whole vectors hold several rows
CHUNK = 64  # elements along the operand's innermost axis that a unit takes: whole cache lines of every row


@dataclass(frozen=True)
class Turn:
    """The transposition `perm` of axes of `extents` (the result's order), neighbours merged where nothing else looks at
    them. `alone`: the kernel is nothing but this."""

    op: OnnxOp
    extents: tuple[dims.Dim, ...]
    perm: tuple[int, ...]
    alone: bool

    @property
    def across(self) -> int:
        """The result's axis along which the operand is contiguous."""
        return self.perm.index(len(self.perm) - 1)

    @property
    def narrow(self) -> bool:
        """Whether a few rows of the operand are interleaved: x [3, pixels] → [pixels, 3]."""
        few = self.extents[-1]
        return self.alone and isinstance(few, int) and 1 < few <= FEW and self.across == len(self.perm) - 2

    @property
    def others(self) -> list[int]:
        return [i for i in range(len(self.perm) - 1) if i != self.across]


def turn_of(kernel: KernelFunction) -> Turn | None:
    """The kernel's transposition, if it moves the innermost axis of a plain operand and is followed element-wise."""
    turns = [op for op in kernel.ops if op.name == "Transpose"]
    if len(turns) != 1 or len(kernel.results) != 1 or turns[0].operands[0] not in kernel.operands:
        return None
    op = turns[0]
    shape = Tensor.of(op.results[0].type).shape
    perm = list(op.attr("perm", None) or range(len(shape))[::-1])
    if len(perm) < 2 or perm[-1] == len(perm) - 1 or Tensor.of(op.results[0].type).elem.startswith("!"):
        return None
    if Tensor.of(kernel.results[0].type).shape != shape:
        return None
    if not all(o.name in ELEMENTWISE or o.name == "Constant" for o in kernel.ops if o.op != op.op):
        return None
    alone = len(kernel.ops) == 1
    return Turn(op, *(_merged(shape, perm) if alone else (tuple(shape), tuple(perm))), alone)


def _merged(shape: tuple[dims.Dim, ...], perm: list[int]) -> tuple[tuple[dims.Dim, ...], tuple[int, ...]]:
    groups: list[list[int]] = []  # of result axes that are neighbours in the operand too
    for axis, source in enumerate(perm):
        if groups and source == perm[axis - 1] + 1:
            groups[-1].append(axis)
        else:
            groups.append([axis])
    order = sorted(range(len(groups)), key=lambda g: perm[groups[g][0]])
    return tuple(dims.product([shape[a] for a in g]) for g in groups), tuple(order.index(g) for g in range(len(groups)))


def launch(turn: Turn) -> Launch:
    units = dims.product([turn.extents[i] for i in turn.others]) * ((turn.extents[turn.across] + (CHUNK - 1)) // CHUNK)
    return Launch(units, CHUNK * 2 * ELEMENT * turn.extents[-1])


def emit(b: KernelBuilder, turn: Turn) -> None:
    _Emitter(b, turn).run()


class _Emitter:
    """Emits units: chunks of the operand's innermost axis, all of the result's."""

    def __init__(self, b: KernelBuilder, turn: Turn):
        self.b, self.turn = b, turn
        self.extents = [b.dim(d) for d in turn.extents]
        elem = Tensor.of(turn.op.results[0].type).elem
        self.width = max(4, b.target.vector_bits // (8 * max(4, scalars.byte_width(elem))))
        self.ev = Evaluator(b)

    def run(self) -> None:
        b, turn, extents, width = self.b, self.turn, self.extents, self.width
        chunks = im.ceildiv(extents[turn.across], CHUNK)
        with b.loop(b.begin, b.end) as unit:
            point: list[im.Index] = [0] * len(extents)
            rest: im.Index = im.floordiv(unit, chunks)
            for axis in reversed(turn.others):
                point[axis] = im.mod(rest, extents[axis])
                rest = im.floordiv(rest, extents[axis])
            start = im.mul(im.mod(unit, chunks), CHUNK)
            stop = im.minimum(im.add(start, CHUNK), extents[turn.across])
            if turn.narrow:
                self._interleave(point, start, stop)
                return  # the loop ends as it would
            with b.loop(0, extents[-1], width) as column, b.loop(start, stop, width) as row:
                point[-1], point[turn.across] = column, row
                full = im.both(
                    im.compare(im.add(column, width), "<=", extents[-1]), im.compare(im.add(row, width), "<=", stop)
                )
                self._block(point, full)

    def _interleave(self, point: list[im.Index], start: im.Index, stop: im.Index) -> None:
        """Rows `start` … `stop` - 1 of the result, `width` at a time, those that are left one by one."""
        b, turn, width = self.b, self.turn, self.width
        read, written = _strides(turn, self.extents)
        source, out = _raw(b.inputs[turn.op.operands[0]]), _raw(b.outputs[0])
        point[-1], point[turn.across] = 0, 0
        first, result = _offset(point, read), _offset(point, written)
        few = self.extents[-1]
        whole = im.add(start, im.mul(im.floordiv(im.sub(stop, start), width), width))
        with b.loop(start, whole, width) as row:
            vectors = [source.load_vector(im.add(im.add(first, row), im.mul(read[-1], c)), width) for c in range(few)]
            place = im.add(result, im.mul(row, few))
            for number in range(few):
                out.store_vector(_interleaved(vectors, number), im.add(place, number * width))
        with b.loop(whole, stop) as row:
            for c in range(few):
                v = source.load_flat(im.add(im.add(first, row), im.mul(read[-1], c)))
                out.store_flat(v, im.add(im.add(result, im.mul(row, few)), c))

    def _block(self, point: list[im.Index], full: bool | ir.Value) -> None:
        """One square block: without masks where it lies whole inside."""
        b, turn, extents = self.b, self.turn, self.extents
        columns, rows = im.sub(extents[-1], point[-1]), im.sub(extents[turn.across], point[turn.across])
        if full is not False:
            with b.when(full):
                self._whole(point)
        if full is not True:
            with b.when(im.negate(full)):
                self._partial(point, rows, columns)

    def _whole(self, point: list[im.Index]) -> None:
        turn, width = self.turn, self.width
        read, written = _strides(turn, self.extents)
        source = _raw(self.b.inputs[turn.op.operands[0]])
        start = _offset(point, read)
        vectors = [source.load_vector(im.add(start, im.mul(read[-1], i)), width) for i in range(width)]
        for i, v in enumerate(transposed(vectors)):
            self._store(point, i, written, v)

    def _partial(self, point: list[im.Index], rows: im.Index, columns: im.Index) -> None:
        b, turn, width = self.b, self.turn, self.width
        read, written = _strides(turn, self.extents)
        source = _raw(b.inputs[turn.op.operands[0]])
        type_ = ir.VectorType.get([width], ir.IntegerType.get_signless(1))
        along, behind = (vector.create_mask(type_, [im.value(im.minimum(left, width))]) for left in (rows, columns))
        start = _offset(point, read)
        vectors = []
        for i in range(width):  # rows of the operand beyond its end: the last one once more
            row = im.minimum(i, im.sub(columns, 1))
            vectors.append(source.load_vector(im.add(start, im.mul(read[-1], row)), width, along))
        for i, v in enumerate(transposed(vectors)):
            with b.when(im.compare(i, "<", rows)):
                self._store(point, i, written, v, behind)

    def _store(
        self, point: list[im.Index], i: int, strides: list[im.Index], v: ir.Value, mask: ir.Value | None = None
    ) -> None:
        """Row `i` of the block at `point`."""
        b, turn, ev = self.b, self.turn, self.ev
        place = list(point)
        place[turn.across] = im.add(point[turn.across], i)
        if turn.alone:
            _raw(b.outputs[0]).store_vector(v, _offset(place, strides), mask)
            return
        v = scalars.from_storage(v, b.inputs[turn.op.operands[0]].elem)
        lanes = Lanes(ir.VectorType(v.type).shape[0], len(place) - 1, mask)
        with ev.scope():
            ev.seed(turn.op.results[0], tuple(place), lanes, v)
            b.outputs[0].store_vector(ev.at(b.kernel.results[0], place, lanes), b.outputs[0].offset(place), mask)


def _interleaved(vectors: list[ir.Value], number: int) -> ir.Value:
    """Vector `number` of the sequence lane 0 of each vector, lane 1 of each …"""
    width = ir.VectorType(vectors[0].type).shape[0]
    places = [divmod(number * width + lane, len(vectors)) for lane in range(width)]  # lane, vector
    made = vector.shuffle(vectors[0], vectors[1], [lane + (width if v == 1 else 0) for lane, v in places])
    for i, more in enumerate(vectors[2:], 2):
        made = vector.shuffle(made, more, [width + lane if v == i else at for at, (lane, v) in enumerate(places)])
    return made


def _strides(turn: Turn, extents: list[im.Index]) -> tuple[list[im.Index], list[im.Index]]:
    """The operand's and the result's strides along the result's axes."""
    own: list[im.Index] = [0] * len(turn.perm)
    for axis, source in enumerate(turn.perm):
        own[source] = extents[axis]
    source_strides = row_major(own)
    return [source_strides[p] for p in turn.perm], row_major(extents)


def _offset(point: list[im.Index], strides: list[im.Index]) -> im.Index:
    total: im.Index = 0
    for i, stride in zip(point, strides, strict=True):
        total = im.add(total, im.mul(i, stride))
    return total


def _raw(buffer: Buffer) -> Buffer:
    """The buffer's elements as they are stored."""
    return replace(buffer, elem=scalars.STORAGE.get(buffer.elem, buffer.elem))


def transposed(vectors: list[ir.Value]) -> list[ir.Value]:
    """Lane j of vector i becomes lane i of vector j: bit by bit of the index, pairs exchange halves."""
    width, step = len(vectors), 1
    while step < width:
        after = list(vectors)
        for i in range(width):
            if not i & step:
                a, c = vectors[i], vectors[i + step]
                low = [lane if not lane & step else width + lane - step for lane in range(width)]
                high = [lane + step if not lane & step else width + lane for lane in range(width)]
                after[i], after[i + step] = vector.shuffle(a, c, low), vector.shuffle(a, c, high)
        vectors, step = after, step * 2
    return vectors
