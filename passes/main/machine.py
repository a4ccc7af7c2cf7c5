"""What main's code is built from: pointers, the environment's functions, dims as indices, checks that end the run.

Code is a graph of blocks (cf), so that a failed check leaves the run from inside any control flow. The functions of
the environment are reached through the small shims of `shims.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager

from mlir import ir
from mlir.dialects import arith, cf, func, llvm

from onnxc.dialects import dims
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels.builder import DimArithmetic

DYNAMIC_INDEX = -2147483648  # llvm.getelementptr's mark for an index that is an operand
# Bytes that no allocation may ask for: products of dims beyond it are refused before they wrap around.
TOO_MANY_BYTES = float(2**46)
OUT_OF_MEMORY = -1


class Machine:
    """Builds one function of main's code. `block` is where code goes now; `fail` and friends move it on."""

    def __init__(self, function: func.FuncOp, errors: list[str]):
        self.function, self.errors = function, errors
        self.block = function.add_entry_block()
        self.entry = self.block
        self.i64 = ir.IntegerType.get_signless(64)
        self.i32 = ir.IntegerType.get_signless(32)
        self.ptr = ir.Type.parse("!llvm.ptr")
        self.symbols: list[dict[str, im.Index]] = [{}]
        self._dims: list[dict[dims.Dim, im.Index]] = [{}]
        self.slots = 0  # most argument slots of any call
        self.slots_pointer: ir.Value | None = None

    @contextmanager
    def at(self):
        """Code goes to the current block."""
        with ir.InsertionPoint(self.block):
            yield

    @contextmanager
    def scope(self):
        """Dims computed and symbols bound inside are forgotten: what follows is not dominated by them."""
        self.symbols.append({})
        self._dims.append({})
        try:
            yield
        finally:
            self.symbols.pop()
            self._dims.pop()

    def new_block(self, types: Sequence[ir.Type] = ()) -> ir.Block:
        blocks = self.function.regions[0].blocks
        return blocks.append(*types, arg_locs=[ir.Location.unknown()] * len(types))

    # dims

    def bind(self, name: str, value: im.Index) -> None:
        self.symbols[-1][name] = value

    def is_bound(self, d: dims.Dim) -> bool:
        return all(any(s in scope for scope in self.symbols) for s in dims.symbols(d))

    def lookup(self, name: str) -> im.Index:
        return next(scope[name] for scope in reversed(self.symbols) if name in scope)

    def dim(self, d: dims.Dim) -> im.Index:
        """A dim as an int or index value, computed once a scope."""
        if isinstance(d, int):
            return d
        for known in reversed(self._dims):
            if d in known:
                return known[d]
        with self.at():
            value = dims.emit(d, self.lookup, DimArithmetic)
        self._dims[-1][d] = value
        return value

    def as_i64(self, i: im.Index) -> ir.Value:
        return arith.constant(self.i64, i) if isinstance(i, int) else arith.index_cast(self.i64, i)

    def as_index(self, v: ir.Value) -> ir.Value:
        return arith.index_cast(ir.IndexType.get(), v)

    # memory

    def offset(self, base: ir.Value, bytes_: im.Index) -> ir.Value:
        """`base + bytes_`."""
        if isinstance(bytes_, int):
            if bytes_ == 0:
                return base
            if bytes_ < 2**28:  # constant indices have 29 bits, sign included
                return llvm.GEPOp(self.ptr, base, [], [bytes_], ir.IntegerType.get_signless(8), 0).result
        return self.far(base, self.as_i64(bytes_))

    def far(self, base: ir.Value, bytes_: ir.Value) -> ir.Value:
        return llvm.GEPOp(self.ptr, base, [bytes_], [DYNAMIC_INDEX], ir.IntegerType.get_signless(8), 0).result

    def load(self, type_: ir.Type, pointer: ir.Value, index: int = 0, stride: int = 8) -> ir.Value:
        return llvm.LoadOp(type_, self.offset(pointer, index * stride)).result

    def store(self, v: ir.Value, pointer: ir.Value, index: int = 0) -> None:
        """As word `index`."""
        llvm.StoreOp(v, self.offset(pointer, index * 8))

    def copy(self, target: ir.Value, source: ir.Value, bytes_: im.Index) -> None:
        llvm.MemcpyOp(target, source, self.as_i64(bytes_), ir.BoolAttr.get(False))

    def call(self, name: str, results: list[ir.Type], operands: list[ir.Value]) -> ir.Value | None:
        op = func.CallOp(results, name, operands)
        return op.results[0] if results else None

    def allocate(self, env: ir.Value, sizes: list[im.Index], width: int) -> ir.Value:
        """Arena memory for a tensor of those dims; ends the run where a dim is negative or memory is out."""
        with self.at():
            bytes_ = self.checked_bytes(sizes, width)
        with self.at():
            pointer = self.call("onnxc_shim_alloc", [self.ptr], [env, self.as_i64(bytes_)])
            null = llvm.ZeroOp(self.ptr).result
            bad = llvm.ICmpOp(ir.IntegerAttr.get(self.i64, 0), pointer, null).result
        self.leave_if(bad, OUT_OF_MEMORY)
        return pointer

    def checked_bytes(self, sizes: list[im.Index], width: int) -> im.Index:
        """The product of dims and width; ends the run where a dim is negative or the product is out of reach."""
        unknown = [s for s in sizes if not isinstance(s, int)]
        if unknown:
            with self.at():
                f64 = ir.F64Type.get()
                total = arith.constant(f64, float(width))
                negative = None
                for s in sizes:
                    total = arith.mulf(total, arith.sitofp(f64, self.as_i64(s)))
                for s in unknown:
                    below = im.compare(s, "<", 0)
                    negative = below if negative is None else arith.ori(negative, below)
                bad = arith.ori(negative, arith.cmpf(2, total, arith.constant(f64, TOO_MANY_BYTES)))
            self.leave_if(bad, OUT_OF_MEMORY)
        with self.at():
            return im.mul(im.product(sizes), width)

    # leaving

    def leave_if(self, condition: ir.Value, code: int | ir.Value) -> None:
        """Ends the run with `code` where `condition` holds; code goes on in a new block."""
        leave, go_on = self.new_block(), self.new_block()
        with self.at():
            cf.CondBranchOp(condition, [], [], leave, go_on)
        with ir.InsertionPoint(leave):
            func.ReturnOp([arith.constant(self.i32, code) if isinstance(code, int) else code])
        self.block = go_on

    def require(self, condition: bool | ir.Value, message: str) -> None:
        """Ends the run with the error `message` unless `condition` holds."""
        if condition is True:
            return
        with self.at():
            true = arith.constant(ir.IntegerType.get_signless(1), 1)
            bad = true if condition is False else arith.xori(condition, true)
        self.leave_if(bad, self.error(message))

    def error(self, message: str) -> int:
        self.errors.append(message)
        return len(self.errors)

    def arguments(self, count: int) -> ir.Value:
        """The array that call arguments are put into; `finish` makes it as long as the longest call needs."""
        self.slots = max(self.slots, count)
        if self.slots_pointer is None:
            with ir.InsertionPoint.at_block_begin(self.entry):
                one, array = arith.constant(self.i64, 1), ir.Type.parse("!llvm.array<1 x i64>")
                self.slots_pointer = llvm.AllocaOp(self.ptr, one, array, alignment=64).result
        return self.slots_pointer

    def finish(self) -> None:
        """Ends the function with success."""
        with self.at():
            func.ReturnOp([arith.constant(self.i32, 0)])
        if self.slots_pointer is not None:
            array = ir.Type.parse(f"!llvm.array<{max(1, self.slots)} x i64>")
            self.slots_pointer.owner.attributes["elem_type"] = ir.TypeAttr.get(array)
