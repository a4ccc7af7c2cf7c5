"""This file compiles one emitted function into a native array loop, for the tests of `passes/maths`."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import llvmlite.binding as llvm
import numpy as np
from mlir import ir
from mlir.dialects import llvm as llvm_dialect
from mlir.passmanager import PassManager

LOWERING = (
    "builtin.module(convert-scf-to-cf,convert-vector-to-llvm,convert-math-to-llvm,convert-arith-to-llvm,"
    "convert-func-to-llvm,convert-cf-to-llvm,reconcile-unrealized-casts)"
)
LOOP = """
func.func @loop({pointers}%out: !llvm.ptr, %n: i64) attributes {{passthrough = ["nounwind"]}} {{
  %zero = arith.constant 0 : i64
  %step = arith.constant {lanes} : i64
  scf.for %i = %zero to %n step %step : i64 {{
    {loads}
    %y = "test.body"({names}) : ({types}) -> {type}
    %q = llvm.getelementptr %out[%i] : (!llvm.ptr, i64) -> !llvm.ptr, {element}
    llvm.store %y, %q {{alignment = {align} : i64}} : {type}, !llvm.ptr
  }}
  return
}}
"""
LOAD = """%p{k} = llvm.getelementptr %in{k}[%i] : (!llvm.ptr, i64) -> !llvm.ptr, {element}
    %x{k} = llvm.load %p{k} {{alignment = {align} : i64}} : !llvm.ptr -> {type}"""

llvm.initialize_all_targets()
llvm.initialize_all_asmprinters()


def loop_text(emit: Callable[..., ir.Value], element: str, lanes: int, operands: int = 1) -> str:
    """LLVM IR of a loop that applies `emit`; lanes 1 means scalars."""
    kind = element if lanes == 1 else f"vector<{lanes}x{element}>"
    fields = {"element": element, "type": kind, "align": int(element[1:]) // 8, "lanes": lanes}
    ks = range(operands)
    text = LOOP.format(
        pointers="".join(f"%in{k}: !llvm.ptr, " for k in ks),
        loads="\n    ".join(LOAD.format(k=k, **fields) for k in ks),
        names=", ".join(f"%x{k}" for k in ks),
        types=", ".join(kind for _ in ks),
        **fields,
    )
    with ir.Context() as context, ir.Location.unknown():
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(text)
        body = next(op for op in _operations(module.operation) if op.name == "test.body")
        with ir.InsertionPoint(body):
            result = emit(*body.operands)
        body.result.replace_all_uses_with(result)
        body.erase()
        module.operation.verify()
        PassManager.parse(LOWERING).run(module.operation)
        left = {op.name for op in _operations(module.operation)} - {"builtin.module"}
        assert all(name.startswith("llvm.") for name in left), left
        return llvm_dialect.translate_module_to_llvmir(module.operation)


def _operations(top: ir.Operation) -> list[ir.Operation]:
    found: list[ir.Operation] = []
    top.walk(lambda op: (found.append(op.operation), ir.WalkResult.ADVANCE)[1])
    return found


class Loop:
    """The compiled loop; call it with arrays of a length divisible by the lanes."""

    def __init__(self, text: str, cpu: str = "", features: str = "") -> None:
        target = llvm.Target.from_default_triple()
        cpu = cpu or llvm.get_host_cpu_name()
        features = features or llvm.get_host_cpu_features().flatten()
        machine = target.create_target_machine(cpu, features, opt=3, codemodel="small")
        module = llvm.parse_assembly(text)
        module.verify()
        builder = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=3))
        builder.getModulePassManager().run(module, builder)
        self.assembly = machine.emit_assembly(module)
        self.engine = llvm.create_mcjit_compiler(module, machine)
        self.engine.finalize_object()
        self.address = self.engine.get_function_address("loop")

    def __call__(self, *operands: np.ndarray) -> np.ndarray:
        out = np.empty_like(operands[0])
        function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * (len(operands) + 1), ctypes.c_int64)(self.address)
        function(*[a.ctypes.data for a in operands], out.ctypes.data, out.size)
        return out
