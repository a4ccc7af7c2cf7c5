"""Kernels that take turns: main hands their functions, arguments and plan to the stub (runtime_stub/bands.c)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from mlir import ir
from mlir.dialects import func, memref

from onnxc.passes.kernel_calls import callee_of
from onnxc.passes.kernels import pointers

if TYPE_CHECKING:
    from onnxc.passes.main.run import RunEmitter


def emit_bands(run: RunEmitter, op: ir.Operation) -> None:
    """Code for a `kernel.bands`."""
    m = run.m
    run.place_results(op)
    block = op.regions[0].blocks[0]
    run.pointers.update(zip(block.arguments, (run.pointers[v] for v in list(op.operands)[1:]), strict=True))
    calls = [view.operation for view in block.operations][:-1]
    run.pointers[calls[-1].results[0]] = run.pointers[op.results[0]]
    scratch = run.pointers[op.operands[0]]
    with m.at():
        arguments = m.arguments(sum(1 + len(call.operands) + len(call.results) for call in calls))
        first = 0
        for call in calls:
            _store_function(run, callee_of(call), arguments, first)
            values = [*call.operands, *call.results]
            for i, v in enumerate(values, first + 1):
                # results between kernels lie where the stub will put them
                m.store(run.pointers.get(v, scratch), arguments, i)
            first += 1 + len(values)
        m.call("onnxc_shim_bands", [], [run.env, _plan(run, op), arguments, scratch])


def _store_function(run: RunEmitter, name: str, arguments: ir.Value, at: int) -> None:
    m = run.m
    type_ = ir.FunctionType.get([m.ptr, m.i64, m.i64], [])
    function = func.ConstantOp(type_, ir.FlatSymbolRefAttr.get(name)).result
    m.call("onnxc_shim_function", [], [arguments, m.as_i64(at), function])


def _plan(run: RunEmitter, op: ir.Operation) -> ir.Value:
    """The address of the plan, a constant of main's module."""
    words = np.array(list(ir.DenseI64ArrayAttr(op.attributes["plan"])), np.int64)
    name = f"{run.program.name}_bands{run.band_plans}"
    run.band_plans += 1
    type_ = ir.MemRefType.get([len(words)], run.m.i64)
    with ir.InsertionPoint(run.program.module.body):
        value = ir.DenseElementsAttr.get(words)
        memref.GlobalOp(name, type_, initial_value=value, constant=True, sym_visibility="private")
    return pointers.pointer(memref.get_global(type_, name))
