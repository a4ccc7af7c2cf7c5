"""kernels -> loops: every kernel becomes its body function, over buffers, symbols and a range of its extent.

Before:  func.func private @k_3f2a91c0(%x: tensor<?xf32, ["d0"]>) -> … attributes {kernel.kind = "map", …} {onnx ops}
After:   func.func @k_3f2a91c0_body(%x: memref<f32>, %y: memref<f32>, %d0: index, %begin: index, %end: index) {loops}
The order of the arguments is that of kernels/builder.py. The compiler emits each kernel in a worker process of its own
(compiler/build_kernel.py) with `emit_kernel`; the pass is for reading and for tests.
Keeps:   main.           Leaves: no kernel function of tensors.
"""

from __future__ import annotations

from typing import Any

from mlir import ir
from mlir.dialects import func

from onnxc.dialects.levels import KERNELS, Level
from onnxc.passes import lowering  # noqa: F401  (fills the tables)
from onnxc.passes.contract import Program, transforms
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.kernel_function import KernelFunction
from onnxc.passes.kernels.kinds import KINDS

#: main may still be at level kernels
EMITTED = Level("emitted kernels", KERNELS.dialects | {"memref", "scf", "vector", "arith", "math", "index", "llvm"})


@transforms(KERNELS, EMITTED)
def emit_kernels(program: Program) -> None:
    """See the file's docstring."""
    for function in list(program.module.body.operations):
        if "kernel.kind" in function.attributes:
            emit_kernel(function, program.options.target, program.module)
            function.operation.erase()


def emit_kernel(function: func.FuncOp, target: Any, module: ir.Module) -> KernelBuilder:
    """Adds the body function of a kernel at level kernels to `module`; the builder knows its signature."""
    kernel = KernelFunction.of(function)
    builder = KernelBuilder(kernel, target, module)
    with builder.function():
        KINDS[kernel.kind].emit(builder)
    return builder
