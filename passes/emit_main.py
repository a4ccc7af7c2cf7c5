"""kernels -> loops: main becomes two functions over pointers, `prepare` and `run`; kernels are left declared.

Before:  func.func @main(%x: tensor<?x4xf32, ["N", 4]>) -> … {kernel.call, kernel.view, onnx.If, …}
After:   func.func @<name>_prepare(in_dims, out_dims, workspace_bytes) -> i32
         func.func @<name>_run(env, inputs, in_dims, outputs, workspace) -> i32
The signatures are those of runtime_stub/onnxc.h. A positive result is an entry of the error table
(`program.parts.errors`), -1 is "out of memory". Weights get their offsets here (`program.parts.weights`), kernels their
symbols; `program.notes["workspace"]` is the workspace's size in bytes, a dim.
Leaves:  no onnx or kernel op in main; the kernels' functions are moved out into `program.notes["kernels"]`, as text.
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import func

from onnxc.dialects import dims
from onnxc.dialects.levels import KERNELS, LOOPS
from onnxc.passes.contract import Program, transforms
from onnxc.passes.kernel_calls import callee_of, kernel_calls
from onnxc.passes.main import shims
from onnxc.passes.main.prepare import emit_prepare
from onnxc.passes.main.run import RunEmitter
from onnxc.passes.rewriting import main_function


@transforms(KERNELS, LOOPS)
def emit_main(program: Program) -> None:
    """See the file's docstring."""
    functions = list(program.module.body.operations)
    main = main_function(program.module)
    kernels = _named(program, [f for f in functions if f.operation != main])
    program.notes["workspace"] = dims.parse(ir.StringAttr(main.attributes["workspace"]).value)
    program.notes["kernels"] = {name: str(f.operation) for name, f in sorted(kernels.items())}
    with ir.InsertionPoint(program.module.body):
        for name, type_ in shims.DECLARATIONS.items():
            _declare(name, type_)
        emit_prepare(program, main)
        RunEmitter(program, main, kernels).emit()
        for f in functions:
            f.operation.erase()
        for name in sorted(kernels):
            _declare(name, "(!llvm.ptr, i64, i64) -> ()")


def _named(program: Program, kernels: list[ir.Operation]) -> dict[str, ir.Operation]:
    """The kernels by the symbols that they have in the artefact, where another one may have their own."""
    target = getattr(program.options.target, "key", "")
    renamed: dict[str, str] = {}
    found: dict[str, ir.Operation] = {}
    for kernel in kernels:
        own = ir.StringAttr(kernel.attributes["sym_name"]).value
        name = program.parts.kernel_name(own, str(kernel.operation), target)
        found[name] = kernel
        if name != own:
            renamed[own] = name
            kernel.attributes["sym_name"] = ir.StringAttr.get(name)

    for call in kernel_calls(program.module):
        callee = callee_of(call)
        if callee in renamed:
            call.attributes["callee"] = ir.FlatSymbolRefAttr.get(renamed[callee])
    return found


def _declare(name: str, type_: str) -> None:
    func.FuncOp(name, ir.TypeAttr.parse(type_).value, visibility="private")
