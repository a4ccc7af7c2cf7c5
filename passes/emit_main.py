"""kernels -> loops: main becomes two functions over pointers, `prepare` and `run`; kernels are left declared.

Before:  func.func @main(%x: tensor<?x4xf32, ["N", 4]>) -> … {kernel.call, kernel.view, onnx.If, …}
After:   func.func @<name>_prepare(in_dims, out_dims, workspace_bytes) -> i32
         func.func @<name>_run(env, inputs, in_dims, outputs, workspace) -> i32
The signatures are those of runtime_stub/onnxc.h. A positive result is an entry of the error table
(`program.notes["errors"]`), -1 is "out of memory". Weights get their offsets here (`program.notes["weights"]`, bytes),
and `program.notes["workspace"]` is the workspace's size in bytes, a dim.
Leaves:  no onnx or kernel op in main; the kernels' functions are moved out into `program.notes["kernels"]`, as text.
"""

from __future__ import annotations

from mlir import ir
from mlir.dialects import func

from onnxc.dialects import dims
from onnxc.dialects.levels import KERNELS, LOOPS
from onnxc.passes.contract import Program, transforms
from onnxc.passes.main import shims
from onnxc.passes.main.prepare import emit_prepare
from onnxc.passes.main.run import RunEmitter


@transforms(KERNELS, LOOPS)
def emit_main(program: Program) -> None:
    """See the file's docstring."""
    functions = list(program.module.body.operations)
    main = next(f for f in functions if "kernel.kind" not in f.attributes)
    kernels = {ir.StringAttr(f.attributes["sym_name"]).value: f for f in functions if f is not main}
    program.notes["errors"] = []
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


def _declare(name: str, type_: str) -> None:
    func.FuncOp(name, ir.TypeAttr.parse(type_).value, visibility="private")
