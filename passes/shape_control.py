"""This file infers shapes through If, Loop and Scan.

A size that differs between branches, or changes from trip to trip, becomes a fresh symbol: bound by the node where it
is a size of a result, by the block argument where it is one of a carried value. An If whose condition is decided is
replaced by its branch, and so is one of whose branches only one has legal shapes: which one runs is then checked. A
loop's body is first inferred on copies, until the types of what it carries are stable. All three stand in one file
since they join types in the same way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from mlir import ir

from onnxc.dialects import dims
from onnxc.dialects.dims import Dim
from onnxc.dialects.errors import OnnxcError
from onnxc.dialects.onnx import OnnxOp
from onnxc.dialects.shapes import IllegalShape, UnknownOperandRank, UnknownRank
from onnxc.dialects.shapes.requirements import Requirement
from onnxc.dialects.types import Tensor
from onnxc.passes.shape_binding import bound_symbols, demand

if TYPE_CHECKING:
    from onnxc.passes.infer_shapes import Inference

_DEEPEST = 3  # branches tried inside tried branches

Types = list["Tensor | None"]  # None: no tensor


def visit_if(inference: Inference, op: ir.Operation) -> None:
    """Joins the branches; a decided If becomes the branch that runs."""
    _require_one(inference, op, op.operands[0], "the condition's elements")
    condition = _decided(inference, op.operands[0])
    if condition is not None:
        _inline(inference, op, op.regions[0 if condition else 1].blocks[0])
        return
    yields, failures = [], []
    for region in op.regions:
        errors = len(inference.errors)
        inference.block(region.blocks[0])
        failures.append(inference.errors[errors:])
        yields.append(_yielded(region.blocks[0]))
    if not inference.trials and bool(failures[0]) != bool(failures[1]):
        _take_legal(inference, op, failures)
        return
    inner = _inner_symbols(op)
    pairs = [[inference.type_of(value) for value in pair] for pair in zip(*yields, strict=True)]
    if any(a is not None and b is not None and None not in (a.rank, b.rank) and a.rank != b.rank for a, b in pairs):
        legal = [choice for choice in (0, 1) if _is_legal(inference, op, choice)]
        if len(legal) == 1:
            _inline(inference, op, op.regions[legal[0]].blocks[0])
            return
    types: Types = []
    for index, (a, b) in enumerate(zip(*yields, strict=True)):
        types.append(_join(inference, op, f"{index}", inference.type_of(a), inference.type_of(b), inner))
    _set_results(inference, op, types, yields[0])


def _require_one(inference: Inference, op: ir.Operation, value: ir.Value, what: str) -> None:
    """A condition or a trip count is a scalar or has one element; more or none are refused, or checked at run time."""
    tensor = inference.type_of(value)
    if tensor is None or tensor.shape is None:
        return
    requirement = Requirement("==", tensor.numel, 1, what)
    if (holds := requirement.holds()) is False:
        raise IllegalShape(str(requirement))
    if holds is None:
        inference.requirements.write([requirement], ir.InsertionPoint(op), op.location)


def _decided(inference: Inference, condition: ir.Value) -> bool | None:
    values = inference.values_of(condition)
    if values is not None and values[0] in (0, 1):
        return values[0] == 1
    return inference.assumed.get(condition)


def _is_legal(inference: Inference, op: ir.Operation, choice: int) -> bool:
    """Whether what follows has legal shapes if branch `choice` runs: tried on a copy of the whole block.

    Ranks that depend on the branch (a squeeze "if the size is 1") are mostly decided by what uses them.
    """
    if inference.trials == _DEEPEST:
        return True
    inference.trials += 1
    parent, block = op.parent.operation, op.block
    region = next(i for i, r in enumerate(parent.regions) if r.blocks[0] == block)
    place = next(i for i, inner in enumerate(block.operations) if inner.operation == op)
    errors, unknown = len(inference.errors), len(inference.unknown)
    copy = parent.clone(ir.InsertionPoint(parent))
    twin_block = copy.regions[region].blocks[0]
    twin = twin_block.operations[place].operation
    inference.assumed[twin.operands[0]] = choice == 0
    inference.block(twin_block)
    legal = len(inference.errors) == errors
    del inference.errors[errors:], inference.unknown[unknown:]
    _forget(inference, copy)
    inference.trials -= 1
    return legal


def _take_legal(inference: Inference, op: ir.Operation, failures: Sequence[Sequence[OnnxcError]]) -> None:
    """Replaces an If by its only branch with legal shapes, and has the run end where the condition asks for the other.

    Sizes that are known may rule a branch out: one that is for another sampling rate, say.
    """
    wrong, error = next((choice, errors[0]) for choice, errors in enumerate(failures) if errors)
    del inference.errors[-len(failures[wrong]) :]
    if any(True for result in op.results for _ in result.uses):
        demand(inference, op.operands[0], "s", op)
        (condition,) = inference.values_of(op.operands[0]) or ()
        what = f"its {('then', 'else')[wrong]} branch cannot run with these shapes: node '{error.node}': {error.why}"
        inference.requirements.write(
            [Requirement("branch", condition, wrong, what)], ir.InsertionPoint(op), op.location
        )
    _inline(inference, op, op.regions[1 - wrong].blocks[0])


def _inline(inference: Inference, op: ir.Operation, block: ir.Block) -> None:
    operations = list(block.operations)
    for inner in operations[:-1]:
        inner.operation.move_before(op)
        inference.visit(inner.operation)
    results = list(operations[-1].operation.operands)
    for result, value in zip(op.results, results, strict=True):
        result.replace_all_uses_with(value)
    _forget(inference, op)


def visit_loop(inference: Inference, op: ir.Operation) -> None:
    for operand, what in zip(OnnxOp(op).operands, ("trip count's", "condition's"), strict=False):
        if operand is not None:
            _require_one(inference, op, operand, f"the {what} elements")
    body = op.regions[0].blocks[0]
    initial: Types = [inference.type_of(operand) for operand in list(op.operands)[2:]]
    body.arguments[0].set_type(Tensor("i64", ()).type(inference.context))
    body.arguments[1].set_type(Tensor("i1", ()).type(inference.context))
    carried = _infer_body(inference, op, initial, first_argument=2, first_yield=1)
    yields = _yielded(body)
    trips = _trips(inference, op, yields[0])
    types = _results_of_carried(inference, op, initial, carried)
    inner = _inner_symbols(op)
    for index, value in enumerate(yields[1 + len(initial) :], len(initial)):
        slice_ = inference.type_of(value)
        if slice_ is None or slice_.shape is None:
            types.append(slice_)
            continue
        kept = _visible(inference, op, f"{index}", slice_, inner)
        types.append(kept.of_shape((trips, *kept.dims)))
    _set_results(inference, op, types, [])


def _trips(inference: Inference, op: ir.Operation, goes_on: ir.Value) -> Dim:
    """How often a Loop runs: its operand M where nothing ends it before, else a symbol."""
    view = OnnxOp(op)
    limit = None if view.operands[0] is None else inference.values_of(view.operands[0])
    start = (1,) if view.operands[1] is None else inference.values_of(view.operands[1])
    body = op.regions[0].blocks[0]
    if start == (0,):
        return 0
    always = goes_on == body.arguments[1] or inference.values_of(goes_on) == (1,)
    if start == (1,) and always and limit and isinstance(limit[0], (int, dims.Expr)):
        return dims.max(0, limit[0])
    return inference.symbols.of_result(inference, op, "trips")


def visit_scan(inference: Inference, op: ir.Operation) -> None:
    view = OnnxOp(op)
    body = op.regions[0].blocks[0]
    count = view.attr("num_scan_inputs", 1)
    operands: Types = [inference.type_of(operand) for operand in op.operands]
    states, scanned = operands[: len(operands) - count], operands[len(operands) - count :]
    axes = view.attr("scan_input_axes", None) or [0] * count
    trips: Dim | None = None
    for argument, tensor, axis in zip(list(body.arguments)[len(states) :], scanned, axes, strict=True):
        if tensor is None or tensor.shape is None:
            raise IllegalShape("it scans something that is no tensor of known rank")
        axis = axis + len(tensor.dims) if axis < 0 else axis
        trips = tensor.dims[axis] if trips is None else _same(trips, tensor.dims[axis])
        slice_ = tensor.of_shape(tensor.dims[:axis] + tensor.dims[axis + 1 :])
        argument.set_type(slice_.type(inference.context))
    carried = _infer_body(inference, op, states, first_argument=0, first_yield=0)
    types = _results_of_carried(inference, op, states, carried)
    inner = _inner_symbols(op)
    outputs = _yielded(body)[len(states) :]
    out_axes = view.attr("scan_output_axes", None) or [0] * len(outputs)
    for index, (value, axis) in enumerate(zip(outputs, out_axes, strict=True), len(states)):
        slice_ = inference.type_of(value)
        if slice_ is None or slice_.shape is None:
            types.append(slice_)
            continue
        shape = list(_visible(inference, op, f"{index}", slice_, inner).dims)
        shape.insert(axis + len(shape) + 1 if axis < 0 else axis, 0 if trips is None else trips)
        types.append(slice_.of_shape(shape))
    _set_results(inference, op, types, [])


def _same(a: Dim, b: Dim) -> Dim:
    gap = a - b
    if isinstance(gap, int) and gap:
        raise IllegalShape(f"it scans {a} and {b} slices")
    return b if isinstance(b, int) else a


def _infer_body(
    inference: Inference, op: ir.Operation, initial: Types, *, first_argument: int, first_yield: int
) -> Types:
    """Infers the body with types of the carried values that hold for every trip, and gives these types."""
    carried = list(initial)
    while True:
        copy = op.clone(ir.InsertionPoint(op))
        found = _try_body(inference, copy, carried, first_argument, first_yield)
        joined = [
            _join(inference, op, f"carried{index}", a, b)
            for index, (a, b) in enumerate(zip(carried, found, strict=True))
        ]
        _forget(inference, copy)
        if joined == carried:
            break
        carried = joined
    _run_body(inference, op, carried, first_argument)
    return carried


def _try_body(inference: Inference, copy: ir.Operation, carried: Types, first_argument: int, first_yield: int) -> Types:
    errors, unknown = len(inference.errors), len(inference.unknown)
    _run_body(inference, copy, carried, first_argument)
    del inference.errors[errors:], inference.unknown[unknown:]  # they come back when the body itself is inferred
    yields = _yielded(copy.regions[0].blocks[0])[first_yield : first_yield + len(carried)]
    body = copy.regions[0].blocks[0]
    return [
        tensor if value == body.arguments[first_argument + index] else inference.type_of(value)
        for index, (value, tensor) in enumerate(zip(yields, carried, strict=True))
    ]


def _run_body(inference: Inference, op: ir.Operation, carried: Types, first_argument: int) -> None:
    body = op.regions[0].blocks[0]
    for argument, tensor in zip(list(body.arguments)[first_argument:], carried, strict=False):
        if tensor is not None:
            argument.set_type(tensor.type(inference.context))
    if op.name == "onnx.Loop":
        inference.values[body.arguments[1]] = (1,)  # the body only runs while it is true
    inference.block(body)


def _forget(inference: Inference, top: ir.Operation) -> None:
    """Erases an operation, and what was noted of its values: their addresses may be used again."""

    def visit(op: ir.Operation) -> ir.WalkResult:
        for result in op.results:
            inference.forget(result)
        for region in op.regions:
            for block in region.blocks:
                for argument in block.arguments:
                    inference.forget(argument)
        return ir.WalkResult.ADVANCE

    top.walk(visit)
    top.erase()


def _results_of_carried(inference: Inference, op: ir.Operation, initial: Types, carried: Types) -> Types:
    """Result types of the carried values: what changes from trip to trip ends in a size that the node binds."""
    return [_join(inference, op, f"{index}", a, b) for index, (a, b) in enumerate(zip(initial, carried, strict=True))]


def _join(
    inference: Inference,
    op: ir.Operation,
    key: str,
    a: Tensor | None,
    b: Tensor | None,
    inner: frozenset[str] = frozenset(),
) -> Tensor | None:
    """The type of a value that is `a` or `b`. Sizes that differ become symbols of `op`,
    and so do sizes that hold symbols of `inner`."""
    if a is None or b is None:
        return a or b
    if a.elem != b.elem:
        raise IllegalShape(f"a value is of {a.elem} in one place and of {b.elem} in another")
    if a.shape is None or b.shape is None or len(a.shape) != len(b.shape):
        return Tensor(a.elem, None)
    shape: list[Dim] = []
    for axis, (x, y) in enumerate(zip(a.shape, b.shape, strict=True)):
        stays = (x is y or x == y) and inner.isdisjoint(dims.symbols(x))
        shape.append(x if stays else inference.symbols.of_result(inference, op, f"{key}.{axis}"))
    return Tensor(a.elem, tuple(shape))


def _visible(inference: Inference, op: ir.Operation, key: str, tensor: Tensor, inner: frozenset[str]) -> Tensor:
    """`tensor` with sizes that hold symbols of the body replaced by symbols of the node."""
    joined = _join(inference, op, key, tensor, tensor, inner)
    return tensor if joined is None else joined


def _inner_symbols(op: ir.Operation) -> frozenset[str]:
    """The symbols that are bound inside `op`, its carried values included."""
    found: set[str] = set()

    def visit(inner: ir.Operation) -> ir.WalkResult:
        found.update(bound_symbols(inner))
        return ir.WalkResult.ADVANCE

    for region in op.regions:
        for block in region.blocks:
            for inner in block.operations:
                inner.operation.walk(visit)
    found.update(bound_symbols(op, "carried"))
    return frozenset(found)


def _yielded(block: ir.Block) -> list[ir.Value]:
    return list(block.operations[len(block.operations) - 1].operation.operands)


def _set_results(inference: Inference, op: ir.Operation, types: Types, values: Sequence[ir.Value]) -> None:
    for index, (result, tensor) in enumerate(zip(op.results, types, strict=True)):
        if tensor is not None:
            type_ = tensor.type(inference.context)
        elif index < len(values):
            type_ = values[index].type
        else:
            continue
        if result.type != type_:
            result.set_type(type_)
    unranked = [index for index, tensor in enumerate(types) if tensor is not None and tensor.shape is None]
    if unranked and inference.unknown:
        raise UnknownOperandRank("a rank inside is not known")  # its cause is noted already
    if unranked:
        raise UnknownRank(f"result {unranked[0]} has another rank in each branch or trip")


VISIT: dict[str, Callable[[Inference, ir.Operation], None]] = {
    "onnx.If": visit_if,
    "onnx.Loop": visit_loop,
    "onnx.Scan": visit_scan,
}
