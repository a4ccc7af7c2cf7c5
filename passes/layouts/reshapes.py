"""Reshape on moved tensors: it splits and joins axes where they lie, as far as joined axes are neighbours in order."""

from __future__ import annotations

from mlir import ir

from onnxc.dialects import dims
from onnxc.dialects.dims import Dim
from onnxc.dialects.onnx import OnnxOp
from onnxc.dialects.types import Tensor
from onnxc.passes.layouts.versions import Layouts, Order, carries, permute

Group = tuple[list[int], list[int]]  # axes of the operand, axes of the result: the same elements


@carries("Reshape")
def reshape(op: OnnxOp, layouts: Layouts) -> bool:
    """A moved operand is first brought to an order in which the Reshape is one; a native one gives its offers on."""
    x, result = op.operands[0], op.results[0]
    source, target = Tensor.of(x.type).dims, Tensor.of(result.type).dims
    groups = matched(source, target)
    if groups is None:
        return False
    moved = layouts.order(x)
    if moved is not None:
        order = _chosen(moved, groups, result)
        after = carried(order, groups)
        version = layouts.reshape(layouts.want(x, order), permute(after, target))
        layouts.define(result, after, version)
        return True
    for order, version in layouts.offers(x).items():
        if order != tuple(range(len(order))) and gathered(order, groups) == order:
            after = carried(order, groups)
            layouts.offer(result, after, layouts.reshape(version, permute(after, target)))
    return False


def _chosen(moved: Order, groups: list[Group], result: ir.Value) -> Order:
    """Of two orders in which the Reshape is one, the one that is native after it, or after the Transpose behind it."""
    early, late = gathered(moved, groups), gathered(moved, groups, late=True)
    if early != late:
        shape = Tensor.of(result.type).dims
        big = [axis for axis in carried(late, groups) if shape[axis] != 1]
        if big == sorted(big):
            return late
        for use in result.uses:
            user = use.owner.operation
            if user.name == "onnx.Transpose" and tuple(OnnxOp(user).attr("perm") or ()) == carried(late, groups):
                return late
    return early


def matched(source: tuple[Dim, ...], target: tuple[Dim, ...]) -> list[Group] | None:
    """Runs of axes with equal products, as short as possible; axes of size 1 stand alone. None: they don't match."""
    groups: list[Group] = []
    i = j = 0
    while i < len(source) or j < len(target):
        if i < len(source) and source[i] == 1:
            groups.append(([i], []))
            i += 1
        elif j < len(target) and target[j] == 1:
            groups.append(([], [j]))
            j += 1
        else:
            run = _run(source, target, i, j)
            if run is None:
                return None
            groups.append(
                ([a for a in range(i, run[0]) if source[a] != 1], [a for a in range(j, run[1]) if target[a] != 1])
            )
            groups += [([a], []) for a in range(i, run[0]) if source[a] == 1]
            groups += [([], [a]) for a in range(j, run[1]) if target[a] == 1]
            i, j = run
    return groups


def _run(source: tuple[Dim, ...], target: tuple[Dim, ...], i: int, j: int) -> tuple[int, int] | None:
    """Where the shortest runs of equal product that start at i, j end."""
    left = [dims.product(source[i:end]) for end in range(i + 1, len(source) + 1)]
    right = [dims.product(target[j:end]) for end in range(j + 1, len(target) + 1)]
    for steps in range(len(left) + len(right) - 1):
        for taken in range(max(0, steps - len(right) + 1), min(steps + 1, len(left))):
            if left[taken] == right[steps - taken]:
                return i + taken + 1, j + steps - taken + 1
    return None


def gathered(order: Order, groups: list[Group], *, late: bool = False) -> Order:
    """`order` with the axes of each run brought together, in their own order, where the first (or last) of them is."""
    run_of = {axis: axes for axes, _ in groups for axis in axes}
    result: list[int] = []
    for axis in reversed(order) if late else order:
        if axis not in result:
            result += reversed(run_of[axis]) if late else run_of[axis]
    return tuple(reversed(result)) if late else tuple(result)


def carried(order: Order, groups: list[Group]) -> Order:
    """The order of the result when the operand is in `order`; new axes of size 1 follow the axis before them."""
    made = {axes[0]: new for axes, new in groups if axes}
    result = [axis for old in order for axis in made.get(old, ())]
    for axis in sorted(new[0] for axes, new in groups if not axes):
        result.insert(result.index(axis - 1) + 1 if axis else 0, axis)
    return tuple(result)
