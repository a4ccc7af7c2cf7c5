"""kernels -> kernels: notes down what was chosen for the report in the artefact; changes nothing.

`notes["report"]` = {"model_bytes", "objective", "memory", "gains": {weight: how many times as fast by the estimate},
"kernels": [{kind, algorithm, source, schedule, calls: [[node, …], …]}, …]}: a kernel once, in the order of its first
call, with each call's nodes. Source: where the schedule came from (heuristic, record or override), for kernels with a
schedule; algorithm_source likewise, where it was not the heuristic.
"""

from __future__ import annotations

from typing import Any

from mlir import ir

from onnxc.dialects.levels import KERNELS
from onnxc.passes.contract import Program, transforms
from onnxc.passes.kernels.kernel_function import KernelFunction
from onnxc.passes.rewriting import functions, operations


@transforms(KERNELS, KERNELS)
def describe_kernels(program: Program) -> None:
    """See the file's docstring."""
    kernels = {
        ir.StringAttr(f.attributes["sym_name"]).value: KernelFunction.of(f)
        for f in program.module.body.operations
        if "kernel.kind" in f.attributes
    }
    described: dict[str, dict[str, Any]] = {}
    for function in functions(program.module):
        for op in operations(function.regions[0].blocks[0]):
            if op.name == "kernel.call":
                nodes = _nodes(op)
                symbol = ir.FlatSymbolRefAttr(op.attributes["callee"]).value
                if symbol not in described:
                    described[symbol] = _describe(program, symbol, kernels[symbol], nodes)
                described[symbol]["calls"].append(nodes)
    program.notes["report"] = {
        "model_bytes": program.notes.get("model_bytes"),
        "objective": getattr(program.options, "objective", "speed"),
        "kernels": list(described.values()),
        "memory": program.notes.get("memory", {}),
        "gains": program.notes.get("gains", {}),
    }


def _describe(program: Program, symbol: str, kernel: KernelFunction, nodes: list[str]) -> dict[str, Any]:
    described: dict[str, Any] = {"kind": kernel.kind}
    schedule = kernel.schedule
    algorithm = schedule.pop("algorithm", None)
    if kernel.kind.startswith("winograd"):
        algorithm = f"winograd{kernel.root.attr('tile')}"
    elif kernel.kind.startswith("fft"):
        algorithm = "fft"
    elif kernel.kind == "im2col":
        algorithm = "im2col"
    if algorithm is not None:
        described["algorithm"] = algorithm
        asked = program.notes.get("algorithms", {})
        sources = [asked[node] for node in nodes if node in asked]
        if sources:
            described["algorithm_source"] = sources[-1]
    source = program.notes.get("choices", {}).get(symbol)
    if source is not None:
        described["source"] = source
        described["schedule"] = schedule
    return {**described, "calls": []}


def _nodes(call: ir.Operation) -> list[str]:
    names = (
        [ir.StringAttr(n).value for n in ir.ArrayAttr(call.attributes["nodes"])] if "nodes" in call.attributes else []
    )
    return [name for name in dict.fromkeys(names) if name]
