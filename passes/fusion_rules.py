"""This file decides which ops of a block become one kernel, for group_operators.

A group grows backwards from the op whose result leaves it. Consumers of a root (contraction, reduction …) that are
element-wise on its whole result are its epilogue, in front of a Transpose too. Other element-wise ops and moves in
front of a map, and element-wise ops in front of a root that reads each element once, are its prologue. Nothing is
computed twice: a producer joins only when all its users are in the group, and on one side of the root.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from mlir import ir

from onnxc.dialects.types import Tensor
from onnxc.passes.kernels.kinds import EPILOGUES, IN_RESULT, READS_ONCE, ROOTS
from onnxc.passes.lowering.registry import ELEMENTWISE, MOVES
from onnxc.passes.rewriting import operations

VIEWS = {"onnx.Reshape", "onnx.Flatten", "onnx.Squeeze", "onnx.Unsqueeze", "onnx.Identity"}
STAYS = {
    "onnx.Constant", "onnx.None", "onnx.If", "onnx.Loop", "onnx.Yield", "func.return", "kernel.bind_dims",
    "kernel.require", "kernel.scratch",
}  # fmt: skip
# Other ops cost about as much as the load they save: they may be computed again for a broadcast operand of one element.
EXPENSIVE = {
    "Exp", "Log", "Tanh", "Erf", "Sigmoid", "Pow", "Gelu", "Sin", "Cos", "Softplus", "Mish", "Swish", "Div", "Sqrt",
}  # fmt: skip
# Rows of a joined tensor's parts are written one by one: shorter ones are better copied together.
SHORTEST_ROW = 16
NESTED = -1  # the position of a user inside a region of some op


def short(op: ir.Operation) -> str:
    """The op's name in the tables of lowerings."""
    return op.name.removeprefix("onnx.")


def lowers(op: ir.Operation) -> bool:
    """Whether some kernel computes it."""
    return op.name in ROOTS or elementwise(op) or short(op) in MOVES


def elementwise(op: ir.Operation) -> bool:
    return short(op) in ELEMENTWISE


def joinable(op: ir.Operation) -> bool:
    """Whether `op` is a Concat whose parts may be written where they belong (join_in_place): each is a run of the
    result, or a run of each of its rows along the innermost axis."""
    if op.name != "onnx.Concat" or len(op.operands) < 2:
        return False
    parts = [Tensor.of(v.type).dims for v in op.operands]
    axis = join_axis(op)
    if not all(isinstance(d, int) for part in parts for d in part[axis:]):
        return False
    if all(d == 1 for d in parts[0][:axis]):
        return True
    return axis == len(parts[0]) - 1 and all(part[-1] >= SHORTEST_ROW for part in parts)


def join_axis(op: ir.Operation) -> int:
    return ir.IntegerAttr(op.attributes["axis"]).value % len(Tensor.of(op.results[0].type).dims)


class BlockUses:
    """Who computes and who reads what in a block, by position: an operation's hash changes with its attributes."""

    def __init__(self, block: ir.Block):
        self.ops = [view.operation for view in block.operations]
        made = {result: at for at, op in enumerate(self.ops) for result in op.results}
        self.users: list[set[int]] = [set() for _ in self.ops]
        self.producers: list[list[int]] = []  # latest first
        for at, op in enumerate(self.ops):
            read = {made[v] for v in op.operands if v in made}
            self.producers.append(sorted(read, reverse=True))
            for producer in read:
                self.users[producer].add(at)
            for region in op.regions:
                for inner in operations(region.blocks[0]):
                    for v in inner.operands:
                        if v in made:
                            self.users[made[v]].add(NESTED)

    def result(self, at: int) -> Tensor:
        return Tensor.of(self.ops[at].results[0].type)


@dataclass
class Group:
    """Ops of one kernel, by position; `root` is None for a map."""

    block: BlockUses
    sink: int
    root: int | None = None
    inside: set[int] = field(default_factory=set)
    feeding: set[int] = field(default_factory=set)  # the root and what is computed for it
    plain: bool = True  # whether all ops so far are element-wise and have the sink's shape

    def __post_init__(self) -> None:
        self.of = self.block.result(self.sink)
        self.add(self.sink)

    def add(self, at: int) -> None:
        op = self.block.ops[at]
        self.inside.add(at)
        self.plain = self.plain and elementwise(op) and self.block.result(at).shape == self.of.shape
        if op.name in ROOTS:
            self.root = at
            self.feeding.add(at)
        elif self.block.users[at] & self.feeding:
            self.feeding.add(at)


def grow(block: BlockUses, sink: int, taken: set[int]) -> Group:
    """The group that computes what `sink` gives, from ops that are in no group yet."""
    group = Group(block, sink)
    queue = deque([sink])
    while queue:
        for at in block.producers[queue.popleft()]:
            if at in taken or at in group.inside or not _joins(block.ops[at], at, group):
                continue
            if not _ends_a_root(block, at, group, taken):
                group.add(at)
                queue.append(at)
    taken |= group.inside
    return group


def _ends_a_root(block: BlockUses, at: int, group: Group, taken: set[int]) -> bool:
    """Whether `at`, in front of a Transpose of the group, had better be the epilogue of a root: what is left is then a
    transposition alone, whose axes are merged (14² of 96 channels in 0.25 of the time, gathered with a Relu)."""
    if group.root is not None or not any(block.ops[user].name == "onnx.Transpose" for user in block.users[at]):
        return False
    return elementwise(block.ops[at]) and grow(block, at, set(taken)).root is not None


def _joins(op: ir.Operation, at: int, group: Group) -> bool:
    users = group.block.users[at]
    if op.name in STAYS or op.name in VIEWS or len(op.results) != 1 or not users <= group.inside:
        return False
    if op.name in ROOTS:
        return _joins_as_root(op, at, group)
    if group.root is None:
        return _joins_map(op, at, group)
    if not _fits_buffer(group.block.ops[group.root], at, group):
        return False
    if users <= group.feeding:
        return _joins_prologue(op, at, group)
    # an operand of the epilogue; one that the root reads too would be computed twice
    return not users & group.feeding and elementwise(op) and group.block.result(at).shape == group.of.shape


def _joins_as_root(op: ir.Operation, at: int, group: Group) -> bool:
    """What the group does so far becomes the epilogue."""
    return (
        group.root is None
        and ROOTS[op.name] in EPILOGUES
        and group.plain
        and group.block.result(at).shape == group.of.shape
        and _fits_buffer(op, at, group)
    )


def _joins_prologue(op: ir.Operation, at: int, group: Group) -> bool:
    """The root must read each element once, and moves or broadcasts would break its vector loads. What a Concat that is
    made in place joins is computed where it is made."""
    if joinable(group.block.ops[group.root]):
        return False
    read = group.block.result(at).shape
    operands = [Tensor.of(v.type) for v in op.operands if not isinstance(v.type, ir.NoneType)]
    return (
        group.block.ops[group.root].name in READS_ONCE
        and elementwise(op)
        and all(t.shape == read for t in operands if t.numel != 1)
    )


def _joins_map(op: ir.Operation, at: int, group: Group) -> bool:
    """As many elements as the sink has, or cheap ones: a single one, or those that moves pick from a larger tensor."""
    result = group.block.result(at)
    if result.numel == group.of.numel:
        return True
    if short(op) in EXPENSIVE:
        return False
    moved = all(short(group.block.ops[user]) in MOVES for user in group.block.users[at])
    return result.numel == 1 or (moved and elementwise(op) and _no_more(group.of, result))


def _fits_buffer(root: ir.Operation, at: int, group: Group) -> bool:
    return ROOTS[root.name] not in IN_RESULT or group.block.result(at).elem == group.of.elem


def _no_more(sink: Tensor, result: Tensor) -> bool:
    return isinstance(sink.numel, int) and isinstance(result.numel, int) and sink.numel <= result.numel
