"""This file reads the calls of kernels in main: which kernel is called, for which nodes of the model."""

from __future__ import annotations

from collections.abc import Iterator

from mlir import ir

from onnxc.passes.rewriting import functions, operations


def callee_of(call: ir.Operation) -> str:
    """The symbol of the kernel that a `kernel.call` calls."""
    return ir.FlatSymbolRefAttr(call.attributes["callee"]).value


def nodes_of(call: ir.Operation) -> list[str]:
    """The names of the nodes that a call computes, each once; those without a name are left out."""
    nodes = call.attributes["nodes"] if "nodes" in call.attributes else ()
    return [name for name in dict.fromkeys(ir.StringAttr(node).value for node in nodes) if name]


def kernel_calls(module: ir.Module) -> Iterator[ir.Operation]:
    """Every `kernel.call`, in program order."""
    for function in functions(module):
        yield from (op for op in operations(function.regions[0].blocks[0]) if op.name == "kernel.call")


def calls_by_kernel(module: ir.Module) -> dict[str, list[ir.Operation]]:
    """The kernels' symbols in the order of their first calls → their calls, in program order."""
    found: dict[str, list[ir.Operation]] = {}
    for call in kernel_calls(module):
        found.setdefault(callee_of(call), []).append(call)
    return found
