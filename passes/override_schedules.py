"""graph -> graph: operators get the entries of the schedule that the user asks for.

Before:  %0 = "onnx.MatMul"(%x, %w)      After:  %0 = "onnx.MatMul"(%x, %w) {schedule = {rows = 6, vectors = 4}}
Only operators that become the root of a kernel with a schedule; choose_schedules lays the entries over what the
heuristic chooses. Refuses a pattern all of whose nodes have no such kernel. Keeps: everything else.
"""

from __future__ import annotations

from onnxc.dialects.levels import GRAPH
from onnxc.dialects.onnx import node_name
from onnxc.passes.contract import Program, transforms
from onnxc.passes.kernels.kernel_function import schedule_attribute
from onnxc.passes.kernels.kinds import KINDS, ROOTS
from onnxc.passes.overrides import asked, overrides
from onnxc.passes.rewriting import functions, operations


@transforms(GRAPH, GRAPH)
def override_schedules(program: Program) -> None:
    """See the file's docstring."""
    wanting = {o.pattern: o for o in overrides(program) if o.schedule}
    if not wanting:
        return
    others: dict[str, str] = {}  # pattern → a node without a schedule
    for function in functions(program.module):
        for op in operations(function.regions[0].blocks[0]):
            override = asked(program, node_name(op.location), "schedule")
            if override is None:
                continue
            if op.name not in ROOTS or not hasattr(KINDS[ROOTS[op.name]], "choose"):
                others.setdefault(override.pattern, node_name(op.location))
                continue
            wanting.pop(override.pattern, None)
            op.attributes["schedule"] = schedule_attribute(override.schedule)
    for pattern, override in wanting.items():
        if pattern in others:
            why = "it is computed by no kernel that has one"
            raise override.refuse("there is no schedule to override", node=others[pattern], why=why)
