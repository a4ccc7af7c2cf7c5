"""What workers do: a kernel's text at level kernels becomes loops, LLVM IR and an object; main's LLVM IR an object."""

from __future__ import annotations

from pathlib import Path

from mlir import ir

from onnxc.compile_pool import Job
from onnxc.dialects.onnx import new_context
from onnxc.emit_object import emit, join, lower_to_llvm
from onnxc.passes.emit_kernels import emit_kernel
from onnxc.targets import Target


def kernel_to_loops(text: str, target: Target) -> tuple[ir.Module, str]:
    """kernels → loops: the kernel's module, and LLVM IR of the entry that unpacks its arguments."""
    source, module = ir.Module.parse(text), ir.Module.create()
    builder = emit_kernel(source.body.operations[0], target, module)
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


def build_object(job: Job, target: Target) -> bytes:
    """The object of a kernel (text at level kernels) or of main (LLVM IR)."""
    return emit(_llvm_ir(job, target), target)


def build_bitcode(job: Job, target: Target) -> bytes:
    """The same, as optimised LLVM IR in bitcode."""
    return emit(_llvm_ir(job, target), target, "bc")


def join_listing(job: Job, target: Target) -> bytes:
    """The listing of the bitcode files in the folder that is the job's text; its name is the listing's kind."""
    return join([path.read_bytes() for path in sorted(Path(job.text).iterdir())], target, job.name)


def _llvm_ir(job: Job, target: Target) -> str:
    return job.text if job.text.startswith("; ModuleID") else kernel_llvm_ir(job.text, target)
