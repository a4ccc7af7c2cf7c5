"""graph -> graph: what a Loop carries from trip to trip without changing it is read from outside.

Before:  %last, %same = "onnx.Loop"(%n, %go, %start, %w) ({^bb0(%i, %c, %state, %v): %0 = "onnx.MatMul"(%state, %v)
                        … "onnx.Yield"(%c, %0, %v)})
After:   %last = "onnx.Loop"(%n, %go, %start) ({^bb0(%i, %c, %state): %0 = "onnx.MatMul"(%state, %w)
                 … "onnx.Yield"(%c, %0)})                                  and %w instead of %same
Exporters of `while` carry all that a loop reads, its weights among it: as constants they can be folded and packed.
Keeps:   values, types, locations. Works before shapes are inferred.
Leaves:  no Loop that yields a carried value as it was given, be it by Identities.
"""

from __future__ import annotations

from collections.abc import Iterable

from mlir import ir

from onnxc.dialects.levels import GRAPH
from onnxc.passes.contract import Program, transforms
from onnxc.passes.rewriting import functions, match_signature, operations

CONTROL = 2  # operands, and arguments of the body, before the carried ones: trips and condition


@transforms(GRAPH, GRAPH)
def free_loop_states(program: Program) -> None:
    """See the file's docstring."""
    for function in functions(program.module):
        # innermost first: what an inner loop hands through, the outer one may, too
        for op in [o for o in operations(function.regions[0].blocks[0]) if o.name == "onnx.Loop"][::-1]:
            same = _unchanged(op)
            if same:
                _free(op, same)
        match_signature(function)


def _unchanged(op: ir.Operation) -> set[int]:
    """The numbers of the carried values that the body yields as they are."""
    body = op.regions[0].blocks[0]
    origin: dict[ir.Value, ir.Value] = {}
    for view in body.operations:
        if view.operation.name == "onnx.Identity":
            source = view.operation.operands[0]
            origin[view.operation.results[0]] = origin.get(source, source)
    yielded = list(body.operations[len(body.operations) - 1].operation.operands)[1:]
    carried = list(body.arguments)[CONTROL:]
    return {i for i, (given, v) in enumerate(zip(carried, yielded, strict=False)) if origin.get(v, v) == given}


def _free(op: ir.Operation, same: set[int]) -> None:
    """Replaces the Loop by one without these carried values."""
    body = op.regions[0].blocks[0]
    end = body.operations[len(body.operations) - 1].operation
    for i in sorted(same, reverse=True):
        body.arguments[CONTROL + i].replace_all_uses_with(op.operands[CONTROL + i])
        op.results[i].replace_all_uses_with(op.operands[CONTROL + i])
    ir.Operation.create(
        "onnx.Yield", operands=_without(end.operands, same, 1), loc=end.location, ip=ir.InsertionPoint(end)
    )
    end.erase()
    results = _without(op.results, same, 0)
    if results:
        made = ir.Operation.create(
            op.name,
            results=[v.type for v in results],
            operands=_without(op.operands, same, CONTROL),
            attributes=dict(op.attributes.items()),
            regions=1,
            loc=op.location,
            ip=ir.InsertionPoint(op),
        )
        for old, new in zip(results, made.results, strict=True):
            old.replace_all_uses_with(new)
        for i in sorted(same, reverse=True):
            body.erase_argument(CONTROL + i)
        body.append_to(made.regions[0])
    op.erase()


def _without(values: Iterable[ir.Value], same: set[int], first: int) -> list[ir.Value]:
    """The values but those of carried values `same`, which are counted from number `first` on."""
    return [v for i, v in enumerate(values) if i - first not in same]
