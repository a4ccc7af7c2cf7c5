"""If and Loop in main: branches and trips as blocks of code.

A tensor that crosses a join is its pointer and the dims of its type that the join binds. A loop's carried tensors that
a trip made are copied, at its end, to homes in the arena that outlive it: two homes each, used in turn, so that a value
never overwrites one that is still read. The arena is then released to where the trip began; a trip in which a home had
to grow is not released (homes double, so what is lost that way is no more than the homes themselves).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mlir import ir
from mlir.dialects import arith, cf, llvm

from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels import scalars

if TYPE_CHECKING:
    from onnxc.passes.main.run import RunEmitter


def unbound_dims(e: RunEmitter, v: ir.Value) -> list[tuple[int, str]]:
    """(axis, symbol) for the dims of v's type that are symbols nobody has bound yet."""
    found: list[tuple[int, str]] = []
    for axis, d in enumerate(Tensor.of(v.type).dims):
        if not e.m.is_bound(d) and str(d) not in [s for _, s in found]:
            found.append((axis, str(d)))
    return found


def emit_if(e: RunEmitter, op: ir.Operation) -> None:
    m = e.m
    joins = [(r, unbound_dims(e, r)) for r in op.results]
    types = [t for _, dims_ in joins for t in [m.ptr, *[ir.IndexType.get()] * len(dims_)]]
    then, otherwise, join = m.new_block(), m.new_block(), m.new_block(types)
    with m.at():
        byte = m.load(ir.IntegerType.get_signless(8), e.pointers[op.operands[0]])
        cf.CondBranchOp(arith.cmpi(1, byte, scalars.constant_like(0, byte)), [], [], then, otherwise)
    for block, region in ((then, op.regions[0]), (otherwise, op.regions[1])):
        m.block = block
        with m.scope():
            e.emit_block(region.blocks[0])
            passed = _joined(e, joins, region.blocks[0])
            with m.at():
                cf.BranchOp(passed, join)
    m.block = join
    _take(e, joins, list(join.arguments))


def _joined(e: RunEmitter, joins, body: ir.Block) -> list[ir.Value]:
    yielded = list(body.operations[len(body.operations) - 1].operands)
    passed: list[ir.Value] = []
    for (_, free), v in zip(joins, yielded, strict=True):
        extents = [e.m.dim(Tensor.of(v.type).dims[axis]) for axis, _ in free]
        with e.m.at():
            passed += [e.pointers[v], *map(im.value, extents)]
    return passed


def _take(e: RunEmitter, joins, arguments: list[ir.Value]) -> None:
    for v, free in joins:
        e.pointers[v] = arguments.pop(0)
        for _, name in free:
            e.m.bind(name, arguments.pop(0))


@dataclass
class Carried:
    """Loop state of one carried tensor: block arguments in this order."""

    argument: ir.Value  # of the loop's body
    free: list[tuple[int, str]]  # dims that the block argument binds
    tensor: Tensor
    state: list[ir.Value] = field(default_factory=list)  # in the trip that is being emitted

    def types(self, e: RunEmitter) -> list[ir.Type]:
        # pointer, the home it is not in, that home's bytes, the other home, its bytes, dims
        return [e.m.ptr, e.m.ptr, e.m.i64, e.m.ptr, e.m.i64, *[ir.IndexType.get()] * len(self.free)]


@dataclass
class Scanned:
    """Loop state of one scan output: buffer, its bytes, bytes used, then the dims of a slice."""

    rank: int
    width: int
    state: list[ir.Value] = field(default_factory=list)  # in the trip that is being emitted

    def types(self, e: RunEmitter) -> list[ir.Type]:
        return [e.m.ptr, e.m.i64, e.m.i64, *[ir.IndexType.get()] * self.rank]


class LoopEmitter:
    """Emits one onnx.Loop."""

    def __init__(self, e: RunEmitter, op: ir.Operation):
        self.e, self.m, self.op = e, e.m, op
        self.body = op.regions[0].blocks[0]
        ops = self.body.operations
        self.yielded = list(ops[len(ops) - 1].operands)
        self.initial = list(op.operands)[2:]
        count = len(self.initial)
        self.carried = [Carried(a, unbound_dims(e, a), Tensor.of(a.type)) for a in list(self.body.arguments)[2:]]
        scans = [Tensor.of(v.type) for v in self.yielded[1 + count :]]
        self.scanned = [Scanned(t.rank, scalars.byte_width(t.elem)) for t in scans]

    def emit(self) -> None:
        m = self.m
        done = m.new_block([ir.IndexType.get(), *self._types()])
        head = m.new_block([ir.IndexType.get(), ir.IntegerType.get_signless(1), *self._types()])
        body = m.new_block()
        limit = self._trip_limit()
        first = self._first()
        with m.at():
            cf.BranchOp([im.value(0), first, *self._initial_state()], head)
        m.block = head
        i, keep_on, *state = head.arguments
        with m.at():
            go = arith.andi(keep_on, im.compare(i, "<", limit)) if limit is not None else keep_on
            cf.CondBranchOp(go, [], [i, *state], body, done)
        m.block = body
        with m.scope():
            next_state, again = self._trip(i, list(state))
            with m.at():
                cf.BranchOp([im.value(im.add(i, 1)), again, *next_state], head)
        m.block = done
        trips, *last = done.arguments
        self._results(trips, list(last))

    def _types(self) -> list[ir.Type]:
        return [t for part in [*self.carried, *self.scanned] for t in part.types(self.e)]

    def _trip_limit(self) -> im.Index | None:
        operand = self.op.operands[0]
        if isinstance(operand.type, ir.NoneType):
            return None
        with self.m.at():
            return self.m.as_index(self.m.load(self.m.i64, self.e.pointers[operand]))

    def _first(self) -> ir.Value:
        operand = self.op.operands[1]
        with self.m.at():
            if isinstance(operand.type, ir.NoneType):
                return arith.constant(ir.IntegerType.get_signless(1), 1)
            return self._bool(operand)

    def _bool(self, v: ir.Value) -> ir.Value:
        byte = self.m.load(ir.IntegerType.get_signless(8), self.e.pointers[v])
        return arith.cmpi(1, byte, scalars.constant_like(0, byte))

    def _initial_state(self) -> list[ir.Value]:
        m, state = self.m, []
        null, none = llvm.ZeroOp(m.ptr).result, arith.constant(m.i64, 0)
        for part, v in zip(self.carried, self.initial, strict=True):
            extents = [im.value(m.dim(Tensor.of(v.type).dims[axis])) for axis, _ in part.free]
            state += [self.e.pointers[v], null, none, null, none, *extents]
        for part in self.scanned:
            state += [null, none, none, *[im.value(0)] * part.rank]
        return state

    def _trip(self, i: ir.Value, state: list[ir.Value]) -> tuple[list[ir.Value], ir.Value]:
        m, e = self.m, self.e
        for part in self.carried:
            part.state, state = state[: 5 + len(part.free)], state[5 + len(part.free) :]
            e.pointers[part.argument] = part.state[0]
            for (_, name), extent in zip(part.free, part.state[5:], strict=True):
                m.bind(name, extent)
        for part in self.scanned:
            part.state, state = state[: 3 + part.rank], state[3 + part.rank :]
        iteration, condition = list(self.body.arguments)[:2]
        e.pointers[iteration], e.pointers[condition] = self._counters(i)
        with m.at():
            mark = m.call("onnxc_shim_mark", [m.i64], [e.env])
        e.emit_block(self.body)
        with m.at():
            again = self._bool(self.yielded[0])
        return self._end_of_trip(mark), again

    def _counters(self, i: ir.Value) -> tuple[ir.Value, ir.Value]:
        """The tensors `iteration` and `condition` of the body: two cells on the stack."""
        m = self.m
        with ir.InsertionPoint.at_block_begin(m.entry):
            one = arith.constant(m.i64, 1)
            number, flag = (llvm.AllocaOp(m.ptr, one, t).result for t in (m.i64, ir.IntegerType.get_signless(8)))
        with m.at():
            m.store(m.as_i64(i), number)
            m.store(arith.constant(ir.IntegerType.get_signless(8), 1), flag)
        return number, flag

    def _end_of_trip(self, mark: ir.Value) -> list[ir.Value]:
        """Moves what the trip made to homes that outlive it, and gives the next trip's state."""
        count = len(self.carried)
        moves = [self._move(part, v) for part, v in zip(self.carried, self.yielded[1 : 1 + count], strict=True)]
        appends = [self._append(part, v) for part, v in zip(self.scanned, self.yielded[1 + count :], strict=True)]
        grown = [g for *_, g in [*moves, *appends] if g is not None]
        self._release_unless(grown, mark)
        state: list[ir.Value] = []
        for new, _ in [*moves, *appends]:
            state += new
        return state

    def _move(self, part: Carried, v: ir.Value) -> tuple[list[ir.Value], ir.Value | None]:
        m = self.m
        current, home, room, other, other_room, *_ = part.state
        extents = [m.dim(d) for d in Tensor.of(v.type).dims]
        free = [extents[axis] for axis, _ in part.free]
        source = self.e.pointers[v]
        if source == current:
            return [current, home, room, other, other_room, *map(im.value, free)], None
        bytes_ = m.checked_bytes(extents, scalars.byte_width(part.tensor.elem))
        home, room, grew = self._with_room(home, room, bytes_)
        with m.at():
            m.copy(home, source, bytes_)
            return [home, other, other_room, home, room, *map(im.value, free)], grew

    def _append(self, part: Scanned, v: ir.Value) -> tuple[list[ir.Value], ir.Value]:
        m = self.m
        buffer, room, used, *_ = part.state
        extents = [m.dim(d) for d in Tensor.of(v.type).dims]
        bytes_ = m.checked_bytes(extents, part.width)
        with m.at():
            need = arith.addi(used, m.as_i64(bytes_))
            need_index = m.as_index(need)
        new, room, grew = self._with_room(buffer, room, need_index)
        with m.at():
            m.copy(new, buffer, m.as_index(arith.select(grew, used, arith.constant(m.i64, 0))))
            m.copy(m.far(new, used), self.e.pointers[v], bytes_)
            return [new, room, need, *map(im.value, extents)], grew

    def _with_room(self, home: ir.Value, room: ir.Value, bytes_: im.Index) -> tuple[ir.Value, ir.Value, ir.Value]:
        """(home of at least that size, its size, whether it is a new one); a new one is twice as large as asked for."""
        m = self.m
        grow, join = m.new_block(), m.new_block([m.ptr, m.i64, ir.IntegerType.get_signless(1)])
        with m.at():
            need = m.as_i64(bytes_)
            small = arith.cmpi(2, room, need)
            false = arith.constant(ir.IntegerType.get_signless(1), 0)
            cf.CondBranchOp(small, [], [home, room, false], grow, join)
        m.block = grow
        with m.at():
            twice = arith.muli(need, arith.constant(m.i64, 2))
            size = m.as_index(twice)
        fresh = m.allocate(self.e.env, [size], 1)
        with m.at():
            cf.BranchOp([fresh, twice, arith.constant(ir.IntegerType.get_signless(1), 1)], join)
        m.block = join
        return tuple(join.arguments)

    def _release_unless(self, grown: list[ir.Value], mark: ir.Value) -> None:
        m = self.m
        if not grown:
            with m.at():
                m.call("onnxc_shim_release", [], [self.e.env, mark])
            return
        release, go_on = m.new_block(), m.new_block()
        with m.at():
            any_grew = grown[0]
            for g in grown[1:]:
                any_grew = arith.ori(any_grew, g)
            cf.CondBranchOp(any_grew, [], [], go_on, release)
        m.block = release
        with m.at():
            m.call("onnxc_shim_release", [], [self.e.env, mark])
            cf.BranchOp([], go_on)
        m.block = go_on

    def _results(self, trips: ir.Value, state: list[ir.Value]) -> None:
        m, results = self.m, list(self.op.results)
        for part, result in zip(self.carried, results, strict=False):
            mine, state = state[: 5 + len(part.free)], state[5 + len(part.free) :]
            self.e.pointers[result] = mine[0]
            known = dict(zip([axis for axis, _ in part.free], mine[5:], strict=True))
            for axis, name in unbound_dims(self.e, result):
                m.bind(name, known[axis])
        for part, result in zip(self.scanned, results[len(self.carried) :], strict=True):
            mine, state = state[: 3 + part.rank], state[3 + part.rank :]
            self.e.pointers[result] = mine[0]
            for axis, name in unbound_dims(self.e, result):
                m.bind(name, trips if axis == 0 else mine[3 + axis - 1])


def emit_loop(e: RunEmitter, op: ir.Operation) -> None:
    """Emits one Loop of main or of a nested body."""
    LoopEmitter(e, op).emit()
