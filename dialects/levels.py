"""This file defines the levels: a level is a name and the operations that may occur in a module at it."""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from onnxc.dialects.errors import CompilerBug


@dataclass(frozen=True)
class Level:
    """`dialects` may occur whole, of other dialects only the operations in `ops`."""

    name: str
    dialects: frozenset[str]
    ops: frozenset[str] = frozenset()

    def allows(self, op_name: str) -> bool:
        """Whether an operation of that full name ("onnx.ml.Scaler") belongs to this level."""
        return op_name.partition(".")[0] in self.dialects or op_name in self.ops

    def strays(self, module: ir.Module) -> list[ir.Operation]:
        """The operations of `module` that do not belong here, in order."""
        found: list[ir.Operation] = []
        seen: dict[str, bool] = {"builtin.module": True}

        def visit(op: ir.Operation) -> ir.WalkResult:
            name = op.name
            allowed = seen.get(name)
            if allowed is None:
                allowed = seen[name] = self.allows(name)
            if not allowed:
                found.append(op)
            return ir.WalkResult.ADVANCE

        module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
        return found

    def check(self, module: ir.Module, pass_name: str = "check") -> None:
        """Raise CompilerBug where an operation does not belong; `pass_name` promised that none is left."""
        strays = self.strays(module)
        if strays:
            first = strays[0]
            more = f" and {len(strays) - 1} more" if len(strays) > 1 else ""
            raise CompilerBug(
                pass_name, f"promised level {self.name}, but left {first.name}{more} at {first.location}", op=first.name
            )


def _level(name: str, dialects: str, ops: str = "") -> Level:
    return Level(name, frozenset(dialects.split()), frozenset(ops.split()))


GRAPH = _level(
    "graph",
    "func onnx",
    "kernel.bind_dims kernel.require kernel.nonzero_count kernel.nms kernel.cumulative kernel.conv "
    "kernel.conv_transpose kernel.max_pool kernel.average_pool kernel.scratch kernel.winograd "
    "kernel.winograd_input kernel.winograd_output kernel.fft_input kernel.fft_output kernel.fft kernel.im2col "
    "kernel.attention kernel.conv_planes kernel.depthwise_planes "
    "kernel.recurrent kernel.resize",
)
TENSOR = _level("tensor", "func onnx kernel")
KERNELS = _level("kernels", "func onnx kernel")
LOOPS = _level("loops", "func memref scf cf vector arith math index llvm ub affine")
LLVM = _level("llvm", "llvm")

LEVELS = {level.name: level for level in (GRAPH, TENSOR, KERNELS, LOOPS, LLVM)}
