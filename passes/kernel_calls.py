"""This file reads and makes the calls of kernels in main: which kernel is called, for which nodes of the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mlir import ir

from onnxc.dialects import dims
from onnxc.passes.rewriting import functions, operations


def callee_of(call: ir.Operation) -> str:
    """The symbol of the kernel that a `kernel.call` calls."""
    return ir.FlatSymbolRefAttr(call.attributes["callee"]).value


def nodes_of(call: ir.Operation) -> list[str]:
    """The names of the nodes that a call computes, each once; those without a name are left out."""
    return [name for name in dict.fromkeys(nodes_by_operator(call)) if name]


def nodes_by_operator(call: ir.Operation) -> list[str]:
    """The node of each operator of the kernel that is called; none where a call does not tell."""
    nodes = call.attributes["nodes"] if "nodes" in call.attributes else ()
    return [ir.StringAttr(node).value for node in nodes]


def dims_of(call: ir.Operation) -> dict[str, dims.Dim]:
    """What the kernel's symbols are in this call."""
    return {entry.name: dims.parse(ir.StringAttr(entry.attr).value) for entry in ir.DictAttr(call.attributes["dims"])}


def build_call(
    callee: str, operands: Sequence[ir.Value], results: Sequence[ir.Type], values: Mapping[str, object],
    nodes: Sequence[str], loc: ir.Location, ip: ir.InsertionPoint,
) -> ir.Operation:  # fmt: skip
    """A `kernel.call`; `values`: what the kernel's symbols are there; `nodes`: of each of its operators."""
    attributes = {
        "callee": ir.FlatSymbolRefAttr.get(callee),
        "dims": ir.DictAttr.get({symbol: ir.StringAttr.get(str(d)) for symbol, d in values.items()}),
        "nodes": ir.ArrayAttr.get([ir.StringAttr.get(node) for node in nodes]),
    }
    return ir.Operation.create("kernel.call", results=results, operands=operands, attributes=attributes, loc=loc, ip=ip)


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
