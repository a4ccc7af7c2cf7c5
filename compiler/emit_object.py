"""Turns loops-level MLIR into LLVM IR, and LLVM IR into machine code.

Both MLIR and LLVM answer some mistakes by ending the process, so everything that can be checked before is:
left-over operations before the translation, calls to functions nobody supplies after the emission. What still
aborts is caught by the processes of `compile_pool`.
"""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Sequence

import llvmlite.binding as llvm
from mlir import ir, passmanager
from mlir.dialects import llvm as llvm_dialect

from onnxc.elf_symbols import undefined_symbols
from onnxc.errors import CompilerBug
from onnxc.missing_instructions import expand_missing
from onnxc.targets import Target

# Order matters: masked transfers and multi-reductions become plain vector code first, reinterpret_casts are folded
# into address arithmetic before memrefs become pointers, floor and ceil divisions and bf16 conversions are spelt out
# by arith-expand, which also makes maximumf two compares and two selects (shorter than llvm.maximum on x86).
LOWERING = (
    "func.func(lower-vector-multi-reduction)",
    "convert-vector-to-scf{full-unroll=true}",
    "lower-affine",
    "convert-scf-to-cf",
    "expand-strided-metadata",
    "lower-affine",
    "arith-expand{include-bf16=1}",
    "convert-vector-to-llvm",
    "convert-math-to-llvm",
    "finalize-memref-to-llvm",
    "convert-arith-to-llvm",
    "convert-index-to-llvm",
    "convert-func-to-llvm{use-bare-ptr-memref-call-conv=1}",
    "convert-cf-to-llvm",
    "convert-ub-to-llvm",
    "reconcile-unrealized-casts",
)
# A hosted library may call these: for the copies and fills that the IR itself asks for (llvm.memcpy, llvm.memset).
# `no-builtins` keeps LLVM from turning other loops into such calls.
LIBC = frozenset({"memcpy", "memmove", "memset"})
CODE_MODEL = {"x86_64": "small", "aarch64": "small", "riscv64": "medium"}
ABI_NAME = {"riscv64": "lp64d"}


def lower_to_llvm(module: ir.Module) -> str:
    """LLVM IR of a module of the loops level; the module itself is left at the llvm level.

    Functions may take rank-0 memrefs (they become plain pointers; `llvm.noalias` is kept) or `!llvm.ptr`.
    Raises CompilerBug, naming the operation, for anything that does not lower.
    """
    with module.context:
        pipeline = passmanager.PassManager.parse(f"builtin.module({','.join(LOWERING)})")
        try:
            pipeline.run(module.operation)
        except ir.MLIRError as error:
            raise CompilerBug("lower_to_llvm", str(error)) from error
        _check_only_llvm_left(module)
        return llvm_dialect.translate_module_to_llvmir(module.operation)


def emit(llvm_ir: str, target: Target, kind: str = "obj") -> bytes:
    """Machine code of LLVM IR: kind "obj" (ELF object), "asm", "ll" (optimised LLVM IR) or "bc".

    Same bytes for the same text and target. Raises CompilerBug for IR that does not parse and for objects that call
    functions which neither the IR declares nor libc's memcpy family supplies (a maths function that was not expanded).
    """
    machine = target_machine(target)
    try:
        module = llvm.parse_assembly(with_target_attributes(expand_missing(llvm_ir, target), target))
        module.triple = target.triple
        module.data_layout = str(machine.target_data)
        module.verify()
    except RuntimeError as error:
        raise CompilerBug("emit_object", f"LLVM IR is not valid: {error}") from error
    _optimise(module, machine)
    if kind == "asm":
        return machine.emit_assembly(module).encode()
    if kind == "ll":
        return str(module).encode()
    if kind == "bc":
        return module.as_bitcode()
    code = machine.emit_object(module)
    declared = set(re.findall(r"^declare [^@]*@(?:\"([^\"]+)\"|([\w.$]+))", llvm_ir, re.MULTILINE))
    unknown = undefined_symbols(code) - {a or b for a, b in declared} - _external_globals(llvm_ir) - LIBC
    if unknown:
        raise CompilerBug("emit_object", f"code for {target} calls {', '.join(sorted(unknown))}, which nobody supplies")
    return code


def join(modules: Sequence[bytes], target: Target, kind: str) -> bytes:
    """One listing, "asm" or "ll", of modules that `emit` made with kind "bc": nothing is optimised again."""
    machine = target_machine(target)
    whole = llvm.parse_bitcode(modules[0])
    for module in modules[1:]:
        whole.link_in(llvm.parse_bitcode(module))
    return machine.emit_assembly(whole).encode() if kind == "asm" else str(whole).encode()


@functools.cache
def target_machine(target: Target) -> llvm.TargetMachine:
    """LLVM's machine for a target. CPU and features also stand on every function, so that inlining agrees."""
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    return llvm.Target.from_triple(target.triple).create_target_machine(
        cpu=target.base_cpu,
        features=target.feature_string,
        opt=3,
        reloc="pic",
        codemodel=CODE_MODEL[target.arch],
        abiname=ABI_NAME.get(target.arch, ""),
    )


def with_target_attributes(llvm_ir: str, target: Target) -> str:
    """The IR with the target's attributes on every function that is defined in it."""
    attributes = ["nounwind", '"no-builtins"', f'"target-cpu"="{target.base_cpu}"']
    if target.feature_string:
        attributes.append(f'"target-features"="{target.feature_string}"')
    attributes += [f'"tune-cpu"="{target.tune}"', f'"prefer-vector-width"="{target.vector_bits}"']
    group = 1 + max((int(n) for n in re.findall(r"^attributes #(\d+)", llvm_ir, re.MULTILINE)), default=0)
    marked, count = re.subn(r"^(define .*?) \{$", rf"\1 #{group} {{", llvm_ir, flags=re.MULTILINE)
    return f"{marked}\nattributes #{group} = {{ {' '.join(attributes)} }}\n" if count else llvm_ir


def _optimise(module: llvm.ModuleRef, machine: llvm.TargetMachine) -> None:
    """LLVM's -O2. On the kernels of four convnets its code is as fast as that of -O3, which unrolls further, for three
    quarters of the compile time. Without unrolling (4-9 % slower code) or with a handful of passes (2-35 %) it
    would take half, see docs/decisions/0006.
    """
    tuning = llvm.create_pipeline_tuning_options(speed_level=2)
    builder = llvm.create_pass_builder(machine, tuning)
    builder.getModulePassManager().run(module, builder)


def _check_only_llvm_left(module: ir.Module) -> None:
    """Translation would end the process on anything but the llvm dialect."""
    left: Counter[str] = Counter()
    where: dict[str, str] = {}

    def look(op: ir.Operation) -> ir.WalkResult:
        if not op.name.startswith("llvm.") and op.name != "builtin.module":
            left[op.name] += 1
            where.setdefault(op.name, f"{[str(operand.type) for operand in op.operands]} at {op.location}")
        return ir.WalkResult.ADVANCE

    module.operation.walk(look)
    if left:
        names = "; ".join(f"{name} ({count} times, first on {where[name]})" for name, count in sorted(left.items()))
        raise CompilerBug("lower_to_llvm", f"operations that do not lower: {names}")


def _external_globals(llvm_ir: str) -> set[str]:
    return set(re.findall(r"^@\"?([\w.$]+)\"? = external ", llvm_ir, re.MULTILINE))
