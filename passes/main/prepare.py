"""`prepare`: from the input dims to the output dims and the workspace's size, without touching any data."""

from __future__ import annotations

from mlir import ir
from mlir.dialects import arith, func, llvm

from onnxc.dialects import dims
from onnxc.dialects.types import Tensor
from onnxc.passes.contract import Program
from onnxc.passes.dim_names import PlainDims
from onnxc.passes.kernels import index_math as im
from onnxc.passes.main.machine import OUT_OF_MEMORY, TOO_MANY_BYTES, Machine
from onnxc.passes.main.requirements import emit_known_requirements


def bind_inputs(m: Machine, main: ir.Operation, in_dims: ir.Value) -> None:
    """Gives every symbol of the input types its value; the caller has checked static and repeated dims, and facts."""
    position = 0
    for argument in main.regions[0].blocks[0].arguments:
        for d in Tensor.of(argument.type).dims:
            found = dims.multiple_of_symbol(d)
            if found is not None and found[1] not in m.symbols[0]:
                factor, name = found
                with m.at():
                    size = m.as_index(m.load(m.i64, in_dims, position))
                    m.bind(name, im.floordiv(size, factor))
            position += 1


def emit_prepare(program: Program, main: ir.Operation) -> None:
    """Emits `@<name>_prepare(in_dims, out_dims, workspace_bytes) -> i32`."""
    ptr, i32 = ir.Type.parse("!llvm.ptr"), ir.IntegerType.get_signless(32)
    function = func.FuncOp(f"{program.name}_prepare", ([ptr] * 3, [i32]))
    m = Machine(function, program.parts.errors)
    in_dims, out_dims, workspace = m.entry.arguments
    bind_inputs(m, main, in_dims)
    names_of_dims = PlainDims(program)
    emit_known_requirements(m, main, names_of_dims)
    block = main.regions[0].blocks[0]
    returned = list(block.operations[len(block.operations) - 1].operands)
    names = [ir.StringAttr(a).value for a in ir.ArrayAttr(main.attributes["output_names"])]
    position = 0
    for name, v in zip(names, returned, strict=True):
        for d in Tensor.of(v.type).dims:
            known = m.dim(d) if m.is_bound(d) else -1
            if not isinstance(known, int):
                why = f"the input's shape makes a dim negative ({names_of_dims.plain(str(d))})"
                m.require(_at(m, known), f"output '{name}': {why}")
            with m.at():
                m.store(m.as_i64(known), out_dims, position)
            position += 1
    _store_workspace(m, main, workspace)
    m.finish()


def _at(m: Machine, d: im.Index) -> ir.Value:
    with m.at():
        return im.compare(d, ">=", 0)


def _store_workspace(m: Machine, main: ir.Operation, workspace: ir.Value) -> None:
    total = dims.parse(ir.StringAttr(main.attributes["workspace"]).value)
    size = m.dim(total)
    if not isinstance(size, int):
        with m.at():
            f64 = ir.F64Type.get()
            guess = dims.emit(total, lambda s: arith.sitofp(f64, m.as_i64(m.lookup(s))), FloatArithmetic(f64))
            large = arith.cmpf(2, guess, arith.constant(f64, TOO_MANY_BYTES))
        m.leave_if(large, OUT_OF_MEMORY)
    with m.at():
        llvm.StoreOp(m.as_i64(size), workspace)


class FloatArithmetic:
    """Dims in floating point: too coarse to use, but it cannot wrap around."""

    def __init__(self, f64: ir.Type):
        self.f64 = f64

    def const(self, value: int) -> ir.Value:
        return arith.constant(self.f64, float(value))

    def add(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return arith.addf(a, b)

    def mul(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return arith.mulf(a, b)

    def floordiv(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return arith.divf(a, b)

    def mod(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return b

    def min(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return arith.minimumf(a, b)

    def max(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return arith.maximumf(a, b)

    def broadcast(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return arith.maximumf(a, b)
