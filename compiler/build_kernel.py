"""What workers do: a kernel's text at level kernels becomes loops, LLVM IR and an object; main's LLVM IR an object."""

from __future__ import annotations

from mlir import ir

from onnxc.compile_pool import Job
from onnxc.dialects.onnx import new_context
from onnxc.emit_object import emit, lower_to_llvm
from onnxc.passes import lowering  # noqa: F401  (fills the tables)
from onnxc.passes.kernels.builder import KernelBuilder
from onnxc.passes.kernels.kernel_function import KernelFunction
from onnxc.passes.kernels.kinds import KINDS
from onnxc.targets import Target


def kernel_to_loops(text: str, target: Target) -> tuple[ir.Module, str]:
    """kernels → loops: the kernel's module, and LLVM IR of the entry that unpacks its arguments."""
    source = ir.Module.parse(text)
    kernel = KernelFunction.of(source.body.operations[0])
    module = ir.Module.create()
    builder = KernelBuilder(kernel, target, module)
    with builder.function():
        KINDS[kernel.kind].emit(builder)
    module.operation.verify()
    return module, builder.entry_ir()


def kernel_loops_text(text: str, target: Target) -> str:
    """The kernel's functions at level loops, as text."""
    with new_context(), ir.Location.unknown():
        module, _ = kernel_to_loops(text, target)
        return "\n".join(str(f) for f in module.body.operations)


def kernel_llvm_ir(text: str, target: Target) -> str:
    """The kernel's LLVM IR before optimisation."""
    with new_context(), ir.Location.unknown():
        module, entry = kernel_to_loops(text, target)
        return lower_to_llvm(module) + entry


def kernel_llvm_text(text: str, target: Target) -> str:
    """The kernel's functions at level llvm, as text."""
    with new_context(), ir.Location.unknown():
        module, _ = kernel_to_loops(text, target)
        lower_to_llvm(module)
        return "\n".join(str(f) for f in module.body.operations)


def build_kernel(job: Job, target: Target) -> bytes:
    """The kernel's object."""
    return emit(kernel_llvm_ir(job.text, target), target)


def build_assembly(job: Job, target: Target) -> bytes:
    """The kernel's assembly."""
    return emit(kernel_llvm_ir(job.text, target), target, "asm")


def build_optimised_ir(job: Job, target: Target) -> bytes:
    """The kernel's LLVM IR after optimisation."""
    return emit(kernel_llvm_ir(job.text, target), target, "ll")


def build_main(job: Job, target: Target) -> bytes:
    """The object of `prepare` and `run`, given as LLVM IR."""
    return emit(job.text, target)


def build_main_assembly(job: Job, target: Target) -> bytes:
    """Main's assembly."""
    return emit(job.text, target, "asm")


def build_main_optimised_ir(job: Job, target: Target) -> bytes:
    """Main's LLVM IR after optimisation."""
    return emit(job.text, target, "ll")
