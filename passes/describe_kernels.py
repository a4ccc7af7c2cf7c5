"""kernels -> kernels: notes down what was chosen for the report in the artefact; changes nothing.

`notes["report"]` = {"model_bytes", "objective", "memory", "gains": {weight: how many times as fast by the estimate},
"trade" where the objective is not speed, "kernels": [{kind, algorithm, source, schedule, calls: [[node, …], …]}, …]}: a
kernel once, in the order of its first call, with each call's nodes. Source: where the schedule came from (heuristic,
record or override), for kernels with a schedule; algorithm_source likewise, where it was not the heuristic, and
fusion_source of kernels that are parts of one.
"""

from __future__ import annotations

from typing import Any

from onnxc.dialects.levels import KERNELS
from onnxc.passes.algorithms import FUSED, UNFUSED
from onnxc.passes.contract import Program, transforms
from onnxc.passes.conv_algorithms import FFT, IM2COL, winograd_name
from onnxc.passes.kernel_calls import calls_by_kernel, nodes_of
from onnxc.passes.kernels.kernel_function import KernelFunction, kernels_of


@transforms(KERNELS, KERNELS)
def describe_kernels(program: Program) -> None:
    """See the file's docstring."""
    kernels = kernels_of(program.module)
    described: dict[str, dict[str, Any]] = {}
    for symbol, calls in calls_by_kernel(program.module).items():
        nodes = [nodes_of(call) for call in calls]
        described[symbol] = {**_describe(program, symbol, kernels[symbol], nodes[0]), "calls": nodes}
    program.notes["report"] = {
        "model_bytes": program.notes.get("model_bytes"),
        "objective": program.options.objective,
        "kernels": list(described.values()),
        "memory": program.notes.get("memory", {}),
        "gains": program.notes.get("gains", {}),
        **({"trade": program.notes["trade"]} if "trade" in program.notes else {}),
    }


def _describe(program: Program, symbol: str, kernel: KernelFunction, nodes: list[str]) -> dict[str, Any]:
    described: dict[str, Any] = {"kind": kernel.kind}
    schedule = kernel.schedule
    algorithm = schedule.pop("algorithm", None)
    if kernel.kind.startswith("winograd"):
        algorithm = winograd_name(kernel.root.attr("tile"))
    elif kernel.kind.startswith("fft"):
        algorithm = FFT
    elif kernel.kind == "im2col":
        algorithm = IM2COL
    asked = program.notes.get("algorithms", {})
    if kernel.kind == "attention" and any(node in asked for node in nodes):
        algorithm = FUSED
    elif not program.notes.get("unfused", set()).isdisjoint(nodes):
        algorithm = UNFUSED
    if algorithm is not None:
        described["algorithm"] = algorithm
        sources = [asked[node] for node in nodes if node in asked]
        if sources:
            described["algorithm_source"] = sources[-1]
    if symbol in program.notes.get("fusion", {}):
        described["fusion_source"] = program.notes["fusion"][symbol]
    source = program.notes.get("choices", {}).get(symbol)
    if source is not None:
        described["source"] = source
        described["schedule"] = schedule
    return described
