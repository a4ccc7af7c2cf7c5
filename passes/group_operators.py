"""graph -> tensor: every computation becomes a structured op `kernel.fused`, one per kernel to be.

Before:  %0 = "onnx.MatMul"(%x, %w)        After:  %1 = "kernel.fused"(%x, %w, %b) ({^bb0(%a0, %a1, %a2):
         %1 = "onnx.Relu"("onnx.Add"(%0, %b))          … the same ops on %a0, %a1, %a2 …; "kernel.yield"(%r) })
                                                       {kind = "matmul", root = "onnx.MatMul"}
Reshape-like ops become "kernel.view" (no data moves); control flow, constants and bind_dims stay.
Keeps:   values, types, locations.         Leaves: no onnx op outside a group but Constant, None, If, Loop, Yield.

Which ops go together: fusion_rules.py. Operators that no kernel computes are refused, all at once.
"""

from __future__ import annotations

from dataclasses import dataclass

from mlir import ir

from onnxc.dialects.errors import OnnxcError, Refusals
from onnxc.dialects.levels import GRAPH, TENSOR
from onnxc.dialects.onnx import node_name
from onnxc.dialects.types import Tensor
from onnxc.passes import lowering  # noqa: F401  (fills the tables)
from onnxc.passes.contract import Program, transforms
from onnxc.passes.fusion_rules import STAYS, VIEWS, BlockUses, Group, elementwise, grow, lowers, short
from onnxc.passes.kernels.kinds import ROOTS
from onnxc.passes.kernels.scalars import ELEMENTS
from onnxc.passes.rewriting import functions, move_into, operations, replace_op

STRING = "!onnx.string"
#: the values that they take or make are refused where they are used, or as the model's outputs (signature.py)
TOLD_ELSEWHERE = {"onnx.Constant", "onnx.Yield", "func.return"}


@transforms(GRAPH, TENSOR)
def group_operators(program: Program) -> None:
    """See the file's docstring. Raises Refusals that name every op without a kernel."""
    bodies = [function.regions[0].blocks[0] for function in functions(program.module)]
    refused = [error for body in bodies for op in operations(body) if (error := _refusal(op)) is not None]
    if refused:
        raise Refusals(refused)
    for body in bodies:
        ops = [op for op in operations(body) if op.name in ("onnx.Constant", "onnx.None")]
        _group_block(body, Inlined.of(ops))


def _refusal(op: ir.Operation) -> OnnxcError | None:
    """What moves elements only takes any that have a width: not strings, whose text is somebody else's memory."""
    moves = op.name in STAYS or op.name in VIEWS
    if not moves and not lowers(op):
        return unsupported(op)
    if op.name in TOLD_ELSEWHERE:
        return None
    tensors = [Tensor.of(v.type) for v in (*op.operands, *op.results) if not isinstance(v.type, ir.NoneType)]
    strange = [t.elem for t in tensors if t.elem == STRING or not (moves or t.elem in ELEMENTS)]
    if strange:
        message = f"elements of type {strange[0]} cannot be computed with yet"
        return OnnxcError(message, node=node_name(op.location), op=short(op))
    return None


def unsupported(op: ir.Operation) -> OnnxcError:
    """The refusal of an op that has no kernel."""
    return OnnxcError(f"operator {short(op)} cannot be compiled yet", node=node_name(op.location), op=short(op))


@dataclass
class Inlined:
    """Values that are made inside a group: absent operands, and constants of one element for element-wise ops."""

    absent: set[ir.Value]
    elements: set[ir.Value]

    @classmethod
    def of(cls, ops: list[ir.Operation]) -> Inlined:
        """From all Constants and Nones of a function, which this pass leaves where they are."""
        absent = {op.results[0] for op in ops if op.name == "onnx.None"}
        constants = [op for op in ops if "value" in op.attributes]
        return cls(absent, {op.results[0] for op in constants if Tensor.of(op.results[0].type).numel == 1})

    def __call__(self, v: ir.Value, user: ir.Operation) -> bool:
        return v in self.absent or (v in self.elements and elementwise(user))


def _group_block(block: ir.Block, inlined: Inlined) -> None:
    uses = BlockUses(block)
    taken: set[int] = set()
    groups: list[Group] = []
    for at in range(len(uses.ops) - 1, -1, -1):
        op = uses.ops[at]
        for region in op.regions:
            _group_block(region.blocks[0], inlined)
        if at not in taken and op.name not in STAYS and op.name not in VIEWS:
            groups.append(grow(uses, at, taken))
    for op in uses.ops:
        if op.name in VIEWS:
            replace_op(op, "kernel.view", [op.operands[0]])
    for group in groups:  # an erased op leaves its address to a new one, so nothing is looked up by value from here on
        _fuse(group, inlined)


def _fuse(group: Group, inlined: Inlined) -> None:
    """Moves the group's ops into a `kernel.fused` at the sink's place."""
    ops = [group.block.ops[at] for at in sorted(group.inside)]
    sink, root = ops[-1], group.block.ops[group.sink if group.root is None else group.root]
    inside = {r for op in ops for r in op.results}
    outside = list(dict.fromkeys(v for op in ops for v in op.operands if v not in inside and not inlined(v, op)))
    kind = "map" if group.root is None else ROOTS[root.name]
    fused = ir.Operation.create(
        "kernel.fused",
        results=[r.type for r in sink.results],
        operands=outside,
        attributes={"kind": ir.StringAttr.get(kind), "root": ir.StringAttr.get(root.name)},
        regions=1,
        loc=root.location,
        ip=ir.InsertionPoint(sink),
    )
    move_into(fused, ops, outside)
