"""graph -> tensor: every computation becomes a structured op `kernel.fused`, one per kernel to be.

Before:  %0 = "onnx.MatMul"(%x, %w)        After:  %1 = "kernel.fused"(%x, %w, %b) ({^bb0(%a0, %a1, %a2):
         %1 = "onnx.Relu"("onnx.Add"(%0, %b))          … the same ops on %a0, %a1, %a2 …; "kernel.yield"(%r) })
                                                       {kind = "matmul", root = "onnx.MatMul"}
Reshape-like ops become "kernel.view" (no data moves); control flow, constants and bind_dims stay.
Keeps:   values, types, locations.         Leaves: no onnx op outside a group but Constant, None, If, Loop, Scan, Yield.

A group grows backwards from the op whose result leaves it. Consumers of a root (contraction, reduction …) that are
element-wise on its whole result are its epilogue; element-wise ops and moves in front of a map or of a root that reads
each element once are its prologue. Nothing is computed twice: a producer joins only if the group is its one user.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from mlir import ir

from onnxc.dialects.errors import OnnxcError, Refusals
from onnxc.dialects.levels import GRAPH, TENSOR
from onnxc.dialects.onnx import node_name
from onnxc.dialects.types import Tensor
from onnxc.passes import lowering  # noqa: F401  (fills the tables)
from onnxc.passes.contract import Program, transforms
from onnxc.passes.kernels.kinds import EPILOGUES, IN_RESULT, READS_ONCE, ROOTS
from onnxc.passes.kernels.scalars import ELEMENTS
from onnxc.passes.lowering.registry import ELEMENTWISE, MOVES

VIEWS = {"onnx.Reshape", "onnx.Flatten", "onnx.Squeeze", "onnx.Unsqueeze", "onnx.Identity"}
STAYS = {
    "onnx.Constant", "onnx.None", "onnx.If", "onnx.Loop", "onnx.Scan", "onnx.Yield", "func.return", "kernel.bind_dims",
    "kernel.require", "kernel.scratch",
}
# Ops that cost about as much as the load they save may be computed again for a broadcast operand of one element.
EXPENSIVE = {"Exp", "Log", "Tanh", "Erf", "Sigmoid", "Pow", "Gelu", "Sin", "Cos", "Softplus", "Mish", "Swish", "Div", "Sqrt"}


@dataclass
class Group:
    """Ops of one kernel, sink last found first; `root` is None for a map."""

    sink: ir.Operation
    root: ir.Operation | None = None
    ops: list[ir.Operation] = field(default_factory=list)


@transforms(GRAPH, TENSOR)
def group_operators(program: Program) -> None:
    """See the file's docstring."""
    refused: list[OnnxcError] = []
    for function in program.module.body.operations:
        _group_block(function.regions[0].blocks[0], refused)
    if refused:
        raise Refusals(refused)


def _group_block(block: ir.Block, refused: list[OnnxcError]) -> None:
    ops = [op.operation for op in block.operations]
    order = {op: i for i, op in enumerate(ops)}
    taken: set[ir.Operation] = set()
    groups: list[Group] = []
    for op in reversed(ops):
        for region in op.regions:
            _group_block(region.blocks[0], refused)
        if op in taken or op.name in STAYS or op.name in VIEWS:
            continue
        if not _lowers(op):
            refused.append(unsupported(op))
            continue
        strange = _strange_elements(op)
        if strange:
            message = f"elements of type {strange[0]} cannot be computed with yet"
            refused.append(OnnxcError(message, node=node_name(op.location), op=op.name.removeprefix("onnx.")))
            continue
        groups.append(_grow(op, order, taken))
    for op in ops:
        if op.name in VIEWS:
            _to_view(op)
    for group in groups:  # an erased op leaves its address to a new one, so nothing is looked up from here on
        _fuse(group)


def _lowers(op: ir.Operation) -> bool:
    name = op.name.removeprefix("onnx.")
    return op.name in ROOTS or name in ELEMENTWISE or name in MOVES


def _strange_elements(op: ir.Operation) -> list[str]:
    """The element types of its operands and results that kernels do not know."""
    return [e for v in (*op.operands, *op.results) if _is_tensor(v) and (e := Tensor.of(v.type).elem) not in ELEMENTS]


def unsupported(op: ir.Operation) -> OnnxcError:
    name = op.name.removeprefix("onnx.")
    return OnnxcError(f"operator {name} cannot be compiled yet", node=node_name(op.location), op=name)


def _grow(sink: ir.Operation, order: dict, taken: set) -> Group:
    group = Group(sink, sink if sink.name in ROOTS else None, [sink])
    taken.add(sink)
    queue = [sink]
    while queue:
        user = queue.pop(0)
        for operand in sorted({o.owner for o in user.operands if isinstance(o.owner, ir.Operation | ir.OpView)},
                              key=lambda o: -order.get(o.operation, -1)):
            op = operand.operation
            if op in taken or op not in order or not _joins(op, user, group):
                continue
            group.ops.append(op)
            taken.add(op)
            if op.name in ROOTS:
                group.root = op
            queue.append(op)
    group.ops.sort(key=order.__getitem__)
    return group


def _joins(op: ir.Operation, user: ir.Operation, group: Group) -> bool:
    if op.name in STAYS or op.name in VIEWS or not _lowers(op) or len(op.results) != 1:
        return False
    inside = set(group.ops)
    if any(use.owner.operation not in inside for use in op.results[0].uses):
        return False
    result, sink = Tensor.of(op.results[0].type), Tensor.of(group.sink.results[0].type)
    if _keeps_element_type(op, group) and Tensor.of(group.sink.results[0].type).elem != result.elem:
        return False
    if op.name in ROOTS:
        return group.root is None and ROOTS[op.name] in EPILOGUES and result.shape == sink.shape and all(_elementwise(o) for o in group.ops) and all(
            Tensor.of(o.results[0].type).shape == sink.shape for o in group.ops)
    if group.root is not None and _before_root(user, group):
        # prologue of a root: it must read each element once, and moves would break its vector loads
        read = Tensor.of(op.results[0].type).shape
        return group.root.name in READS_ONCE and _elementwise(op) and all(
            Tensor.of(o.type).shape == read for o in op.operands if _is_tensor(o) and _big(o))
    if group.root is not None:
        return _elementwise(op) and result.shape == sink.shape
    if result.numel == sink.numel:
        return True
    cheap = op.name.removeprefix("onnx.") not in EXPENSIVE
    moved = user.name.removeprefix("onnx.") in MOVES
    return cheap and (result.numel == 1 or (moved and _elementwise(op) and _no_more(sink, result)))


def _keeps_element_type(op: ir.Operation, group: Group) -> bool:
    root = op if op.name in ROOTS else group.root
    return root is not None and ROOTS[root.name] in IN_RESULT


def _no_more(sink: Tensor, result: Tensor) -> bool:
    return isinstance(sink.numel, int) and isinstance(result.numel, int) and sink.numel <= result.numel


def _elementwise(op: ir.Operation) -> bool:
    return op.name.removeprefix("onnx.") in ELEMENTWISE


def _is_tensor(v: ir.Value) -> bool:
    return not isinstance(v.type, ir.NoneType)


def _big(v: ir.Value) -> bool:
    return Tensor.of(v.type).numel != 1


def _before_root(user: ir.Operation, group: Group) -> bool:
    """Whether `user` is the root or one of the ops that only feed it."""
    if user == group.root:
        return True
    frontier = [user]
    while frontier:
        op = frontier.pop()
        for result in op.results:
            for use in result.uses:
                owner = use.owner.operation
                if owner == group.root:
                    return True
                if owner in group.ops:
                    frontier.append(owner)
    return False


def _to_view(op: ir.Operation) -> None:
    view = ir.Operation.create("kernel.view", results=[op.results[0].type], operands=[op.operands[0]], loc=op.location,
                               ip=ir.InsertionPoint(op))
    op.results[0].replace_all_uses_with(view.results[0])
    op.erase()


def _fuse(group: Group) -> None:
    ops = group.ops
    inside = {r for op in ops for r in op.results}
    outside: list[ir.Value] = []
    for op in ops:
        for operand in op.operands:
            if operand not in inside and operand not in outside and not _inlined(operand, op):
                outside.append(operand)
    root = group.root or group.sink
    kind = ROOTS[root.name] if group.root is not None else "map"
    attributes = {"kind": ir.StringAttr.get(kind), "root": ir.StringAttr.get(root.name)}
    fused = ir.Operation.create("kernel.fused", results=[r.type for r in group.sink.results], operands=outside,
                                attributes=attributes, regions=1, loc=root.location, ip=ir.InsertionPoint(group.sink))
    block = fused.regions[0].blocks.append(*[v.type for v in outside], arg_locs=[root.location] * len(outside))
    mapping = dict(zip(outside, block.arguments, strict=True))
    with ir.InsertionPoint(block):
        for op in ops:
            for operand in op.operands:
                if operand not in mapping:
                    mapping[operand] = operand.owner.clone().results[0]
            copy = ir.Operation.create(op.name, results=[r.type for r in op.results], operands=[mapping[o] for o in op.operands],
                                       attributes=dict(op.attributes.items()), loc=op.location)
            mapping.update(zip(op.results, copy.results, strict=True))
        ir.Operation.create("kernel.yield", operands=[mapping[r] for r in group.sink.results])
    for old, new in zip(group.sink.results, fused.results, strict=True):
        old.replace_all_uses_with(new)
    for op in reversed(ops):
        op.erase()


def _inlined(v: ir.Value, user: ir.Operation) -> bool:
    """Absent operands and constants of one element are made inside the group."""
    owner = v.owner
    if isinstance(owner, ir.Block):
        return False
    if owner.name == "onnx.None":
        return True
    return owner.name == "onnx.Constant" and "value" in owner.attributes and Tensor.of(v.type).numel == 1 and (
        user.name.removeprefix("onnx.") in ELEMENTWISE)



