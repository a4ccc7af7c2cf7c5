"""Building one kernel's loops: its function, arguments as buffers, symbols as indices, loops and checks.

The function is
`@<name>_body(memref<T> noalias per buffer…, memref<i32> status?, index per symbol…, index begin, index end)`,
which the rank-0 memrefs turn into plain pointers; `entry_ir` gives the LLVM wrapper that unpacks the argument slots.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import arith, func, memref, scf, vector

from onnxc.dialects import dims
from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels import scalars
from onnxc.passes.kernels.kernel_function import KernelFunction

DYNAMIC = ir.ShapedType.get_dynamic_size()


@dataclass
class Buffer:
    """A row-major tensor in memory: `memory` is memref<?xT>, one dim; `shape` and `strides` count elements.

    Dense, but for slices of a joined tensor, whose last axis is a part of its rows (KernelFunction.row)."""

    memory: ir.Value
    elem: str
    shape: list[im.Index]
    strides: list[im.Index]

    def offset(self, idx: Sequence[im.Index]) -> im.Index:
        total: im.Index = 0
        for i, stride in zip(idx, self.strides, strict=True):
            total = im.add(total, im.mul(i, stride))
        return total

    def load(self, idx: Sequence[im.Index]) -> ir.Value:
        """The element at `idx`, as a value to compute with (bool: i1)."""
        return self.load_flat(self.offset(idx))

    def load_flat(self, offset: im.Index) -> ir.Value:
        return scalars.from_storage(memref.load(self.memory, [im.value(offset)]), self.elem)

    def store(self, v: ir.Value, idx: Sequence[im.Index]) -> None:
        self.store_flat(v, self.offset(idx))

    def store_flat(self, v: ir.Value, offset: im.Index) -> None:
        memref.store(scalars.to_storage(v, self.elem), self.memory, [im.value(offset)])

    def load_vector(self, offset: im.Index, width: int, mask: ir.Value | None = None) -> ir.Value:
        """`width` consecutive elements from flat `offset`; lanes off in `mask` are not read and give 0."""
        if width == 1 and mask is None:
            return self.load_flat(offset)
        type_ = ir.VectorType.get([width], scalars.storage_type(self.elem))
        if mask is None:
            v = vector.load(type_, self.memory, [im.value(offset)])
        else:
            v = vector.maskedload(type_, self.memory, [im.value(offset)], mask, scalars.constant(0, type_))
        return scalars.from_storage(v, self.elem)

    def store_vector(self, v: ir.Value, offset: im.Index, mask: ir.Value | None = None) -> None:
        if not isinstance(v.type, ir.VectorType):
            self.store_flat(v, offset)
            return
        v = scalars.to_storage(v, self.elem)
        if mask is None:
            vector.store(v, self.memory, [im.value(offset)])
        else:
            vector.maskedstore(self.memory, [im.value(offset)], mask, v)


class DimArithmetic:
    """What dims.emit builds with: index arithmetic that folds."""

    const = staticmethod(lambda i: i)
    add = staticmethod(im.add)
    mul = staticmethod(im.mul)
    min = staticmethod(im.minimum)
    max = staticmethod(im.maximum)

    @staticmethod
    def floordiv(a: im.Index, b: im.Index) -> im.Index:
        if isinstance(a, int) and isinstance(b, int):
            return a // b
        if isinstance(b, int):
            return im.floordiv_signed(a, b)
        return arith.floordivsi(im.value(a), im.value(im.select(im.compare(b, "==", 0), 1, b)))

    @staticmethod
    def mod(a: im.Index, b: im.Index) -> im.Index:
        return im.sub(a, im.mul(DimArithmetic.floordiv(a, b), b))

    @staticmethod
    def broadcast(a: im.Index, b: im.Index) -> im.Index:
        return im.select(im.compare(a, "==", 1), b, a)


class KernelBuilder:
    """Emits one kernel into `module`: `b = KernelBuilder(kernel, target, module)`, then `with b.function(): …`."""

    def __init__(self, kernel: KernelFunction, target, module: ir.Module):
        self.kernel, self.target, self.module = kernel, target, module
        self.name = kernel.symbol
        self.symbols: dict[str, ir.Value] = {}
        self.buffers: list[Buffer] = []
        self.inputs: dict[ir.Value, Buffer] = {}
        self.outputs: list[Buffer] = []
        self.status: ir.Value | None = None
        self.begin: ir.Value
        self.end: ir.Value
        self._dims: dict[dims.Dim, im.Index] = {}
        self._spelt: dict[ir.Value, dims.Dim] = {}  # the other way round

    @contextmanager
    def function(self) -> Iterator[None]:
        """The body function; inside, the insertion point is its entry block and the arguments are there."""
        k = self.kernel
        values = [*k.operands, *k.results]
        tensors = [Tensor.of(v.type) for v in values]
        pointers = [ir.MemRefType.get([], scalars.storage_type(t.elem)) for t in tensors]
        index = ir.IndexType.get()
        status = [ir.MemRefType.get([], ir.IntegerType.get_signless(32))] if k.failures else []
        types = [*pointers, *status, *([index] * len(k.symbols)), index, index]
        with ir.InsertionPoint(self.module.body):
            body = func.FuncOp(f"{self.name}_body", (types, []))
        noalias = ir.DictAttr.get({"llvm.noalias": ir.UnitAttr.get()})
        plain = ir.DictAttr.get({})
        body.arg_attrs = ir.ArrayAttr.get([noalias] * len(pointers) + [plain] * (len(types) - len(pointers)))
        block = body.add_entry_block()
        arguments = list(block.arguments)
        with ir.InsertionPoint(block):
            first = len(pointers) + len(status)
            self.status = arguments[len(pointers)] if status else None
            self.symbols = dict(zip(k.symbols, arguments[first:], strict=False))
            self.begin, self.end = arguments[-2:]
            for value, tensor, pointer in zip(values, tensors, arguments, strict=False):
                self.buffers.append(self.buffer(pointer, tensor, k.row(value) if k.strided(value) else None))
            self.inputs = dict(zip(k.operands, self.buffers, strict=False))
            self.outputs = self.buffers[len(k.operands) :]
            for op in k.ops:  # every dim is computed here, where all later uses are dominated
                for r in op.results:
                    self.shape(r)
            yield
            func.ReturnOp([])

    def buffer(self, pointer: ir.Value, tensor: Tensor, row: int | None = None) -> Buffer:
        """An argument as a buffer, whose rows are `row` elements apart (default: dense)."""
        shape = [self.dim(d) for d in tensor.shape]
        lengths = shape if row is None else [*shape[:-1], row]
        size = im.value(im.product(lengths))
        elem = scalars.storage_type(tensor.elem)
        memory = memref.reinterpret_cast(
            ir.MemRefType.get([DYNAMIC], elem), pointer, [], [size], [], [0], [DYNAMIC], [1]
        )
        return Buffer(memory, tensor.elem, shape, row_major(lengths))

    def dim(self, d: dims.Dim) -> im.Index:
        """A dim as an index; symbolic ones are emitted once, so ask first where the result dominates its uses."""
        if isinstance(d, int):
            return d
        if d not in self._dims:
            i = self._dims[d] = dims.emit(d, self.symbols.__getitem__, DimArithmetic)
            if not isinstance(i, int):
                self._spelt[i] = d
        return self._dims[d]

    def divides(self, step: int, i: im.Index) -> bool:
        """Whether `step` provably divides `i`, a number or an index that `dim` gave."""
        d = i if isinstance(i, int) else self._spelt.get(i)
        return d is not None and dims.mod(d, step) == 0

    def divisor(self, i: im.Index) -> int:
        """The largest number that provably divides `i`, a number or an index that `dim` gave."""
        d = i if isinstance(i, int) else self._spelt.get(i, 1)
        return dims.divisor(d)

    def shape(self, v: ir.Value) -> list[im.Index]:
        if v.type == ir.NoneType.get():
            return []
        return [self.dim(d) for d in Tensor.of(v.type).shape]

    @contextmanager
    def loop(self, start: im.Index, stop: im.Index, step: im.Index = 1) -> Iterator[ir.Value]:
        """`for i in range(start, stop, step)`; yields the induction variable."""
        op = scf.ForOp(im.value(start), im.value(stop), im.value(step))
        with ir.InsertionPoint(op.body):
            yield op.induction_variable
            scf.YieldOp([])

    def reduce(
        self,
        start: im.Index,
        stop: im.Index,
        step: im.Index,
        init: Sequence[ir.Value],
        body: Callable[..., Sequence[ir.Value]],
    ) -> list[ir.Value]:
        """A loop that carries values: `body(i, *carried)` gives the next ones; returns the last."""
        op = scf.ForOp(im.value(start), im.value(stop), im.value(step), list(init))
        with ir.InsertionPoint(op.body):
            scf.YieldOp(list(body(op.induction_variable, *op.inner_iter_args)))
        return list(op.results)

    @contextmanager
    def when(self, condition: bool | ir.Value) -> Iterator[None]:
        """Emits the block under `if condition`; nothing around it where the condition is known to hold."""
        if condition is True:
            yield
            return
        value = arith.constant(ir.IntegerType.get_signless(1), 0) if condition is False else condition
        op = scf.IfOp(value)
        with ir.InsertionPoint(op.then_block):
            yield
            scf.YieldOp([])

    def choose(
        self,
        condition: bool | ir.Value,
        type_: ir.Type,
        then: Callable[[], ir.Value],
        otherwise: Callable[[], ir.Value],
    ) -> ir.Value:
        """`then() if condition else otherwise()`, evaluating only the one that is needed."""
        return self.choose_all(condition, [type_], lambda: [then()], lambda: [otherwise()])[0]

    def choose_all(
        self,
        condition: bool | ir.Value,
        types: Sequence[ir.Type],
        then: Callable[[], Sequence[ir.Value]],
        otherwise: Callable[[], Sequence[ir.Value]],
    ) -> list[ir.Value]:
        """`choose` for several values at once."""
        if isinstance(condition, bool):
            return list(then() if condition else otherwise())
        op = scf.IfOp(condition, list(types), has_else=True)
        for block, values in ((op.then_block, then), (op.else_block, otherwise)):
            with ir.InsertionPoint(block):
                scf.YieldOp(list(values()))
        return list(op.results)

    def fail(self, op_position: int) -> None:
        """Sets the status cell to the failure of the op at that position of the group; the kernel goes on."""
        code = 1 + [position for position, _ in self.kernel.failures].index(op_position)
        i32 = ir.IntegerType.get_signless(32)
        # atomic: several threads may fail at once
        memref.atomic_rmw(arith.AtomicRMWKind.assign, arith.constant(i32, code), self.status, [])

    def index_cast(self, v: ir.Value, elem: str = "i64") -> ir.Value:
        """An integer element as an index (sign- or zero-extended)."""
        index = ir.IndexType.get()
        return arith.index_castui(index, v) if scalars.is_unsigned(elem) else arith.index_cast(index, v)

    def entry_ir(self) -> str:
        """LLVM IR of `void <name>(ptr args, i64 begin, i64 end)`, which unpacks the slots and calls the body."""
        pointers = len(self.buffers) + (self.status is not None)
        types = ["ptr"] * pointers + ["i64"] * len(self.kernel.symbols)
        lines = [f"define void @{self.name}(ptr %args, i64 %begin, i64 %end) {{"]
        for i, type_ in enumerate(types):
            lines += [
                f"  %p{i} = getelementptr inbounds i64, ptr %args, i64 {i}",
                f"  %a{i} = load {type_}, ptr %p{i}, align 8",
            ]
        call = ", ".join([*(f"{t} %a{i}" for i, t in enumerate(types)), "i64 %begin", "i64 %end"])
        return "\n".join([*lines, f"  call void @{self.name}_body({call})", "  ret void", "}", ""])


def row_major(shape: Sequence[im.Index]) -> list[im.Index]:
    """Strides of a dense tensor, in elements."""
    strides: list[im.Index] = []
    step: im.Index = 1
    for extent in reversed(shape):
        strides.append(step)
        step = im.mul(step, extent)
    return strides[::-1]
