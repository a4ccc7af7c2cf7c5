"""tensor -> tensor: a Concat becomes a "kernel.join" where the kernels that make its parts can write them in place.

Before:  %a = "kernel.fused"(%x, %w) {kind = "conv", …} : … -> tensor<1x8x8x32xf32>       %b likewise
         %0 = "kernel.fused"(%a, %b) ({ "onnx.Concat" … }) {kind = "concat", …} : … -> tensor<1x8x8x64xf32>
         %c = "kernel.fused"(%a) …
After:   %a = "kernel.fused"(%x, %w) {kind = "conv", rows = [0, 0, 64], …} : … -> tensor<1x8x8x32xf32>
         %0 = "kernel.join"(%a, %b) {offsets = [0, 32]}
         %c = "kernel.fused"(%a) {rows = [64, 0], …}
A part lies in the joined tensor from element `offsets` on. Along the innermost axis its rows are those of the joined
tensor: `rows` has an entry an operand and then one a result, the elements from one row to the next, 0 where it is
dense. Parts that nothing can write so (inputs, weights, views, parts of two Concats) are copied, each by a
Concat of its own.
Keeps:   values, types, locations.         Leaves: a Concat where no part can be written in place, or where its size is
         not known before the run.
"""

from __future__ import annotations

from mlir import ir

from onnxc.dialects import dims
from onnxc.dialects.levels import TENSOR
from onnxc.dialects.types import Tensor
from onnxc.passes.contract import Program, transforms
from onnxc.passes.fusion_rules import join_axis, joinable
from onnxc.passes.rewriting import functions, operations

#: kinds that address their one result by its strides
WRITE_ROWS = frozenset(
    {"concat", "conv", "conv_transpose", "im2col", "map", "matmul", "pool", "resize", "winograd", "winograd_output"}
)
#: kinds that address their root's first operand, and what the epilogue reads, by their strides
READ_ROWS = WRITE_ROWS - {"im2col", "winograd_output"} | {"winograd_input"}


@transforms(TENSOR, TENSOR)
def join_in_place(program: Program) -> None:
    """See the file's docstring."""
    for function in functions(program.module):
        entry = function.regions[0].blocks[0]
        known = {s for a in entry.arguments for d in Tensor.of(a.type).dims for s in dims.symbols(d)}
        parts: set[ir.Value] = set()
        for op in [op for op in operations(entry) if op.name == "kernel.fused"]:
            if _is_join(op, known):
                _join(op, parts)


def _is_join(fused: ir.Operation, known: set[str]) -> bool:
    ops = _body(fused)
    size = Tensor.of(fused.results[0].type).dims
    return len(ops) == 1 and joinable(ops[0]) and all(dims.symbols(d) <= known for d in size)


def _body(fused: ir.Operation) -> list[ir.Operation]:
    return [view.operation for view in fused.regions[0].blocks[0].operations][:-1]


def _join(fused: ir.Operation, parts: set[ir.Value]) -> None:
    concat = _body(fused)[0]
    axis, whole = join_axis(concat), Tensor.of(fused.results[0].type).dims
    dense = all(d == 1 for d in whole[:axis])
    given = [fused.operands[ir.BlockArgument(v).arg_number] for v in concat.operands]
    fits = [_in_place(v, fused, dense) and v not in parts and given.count(v) == 1 for v in given]
    if not any(fits):
        return
    lengths = [dims.product(Tensor.of(v.type).dims[axis:]) for v in given]
    made = [v if fit else _copied(v, concat, fused) for v, fit in zip(given, fits, strict=True)]
    parts.update(made)
    if not dense:
        for v in made:
            _spread(v, whole[-1])
    offsets = [sum(lengths[:i]) for i in range(len(lengths))]
    join = ir.Operation.create(
        "kernel.join",
        results=[fused.results[0].type],
        operands=made,
        attributes={"offsets": ir.DenseI64ArrayAttr.get(offsets)},
        loc=fused.location,
        ip=ir.InsertionPoint(fused),
    )
    fused.results[0].replace_all_uses_with(join.results[0])
    fused.erase()


def _in_place(v: ir.Value, fused: ir.Operation, dense: bool) -> bool:
    """Whether the kernel that makes `v` can write it into a joined tensor, and all that read it can read it there."""
    if isinstance(v.owner, ir.Block):
        return False
    maker = v.owner.operation
    if maker.name != "kernel.fused" or maker.block != fused.block or len(maker.results) != 1:
        return False
    if dense:
        return all(use.owner.name != "func.return" for use in v.uses)
    return _addresses_rows(maker, WRITE_ROWS) and all(
        use.owner.operation == fused or _reads_rows(use.owner.operation, use.operand_number) for use in v.uses
    )


def _reads_rows(reader: ir.Operation, position: int) -> bool:
    """Along rows of any distance: the root's first operand and what is read element by element."""
    if reader.name != "kernel.fused" or not _addresses_rows(reader, READ_ROWS):
        return False
    argument, root = reader.regions[0].blocks[0].arguments[position], ir.StringAttr(reader.attributes["root"]).value
    fixed = [use.operand_number for use in argument.uses if use.owner.name == root and use.operand_number > 0]
    return not fixed or ir.StringAttr(reader.attributes["kind"]).value in ("map", "concat")


def _addresses_rows(fused: ir.Operation, kinds: frozenset[str]) -> bool:
    """A Concat does along the innermost axis, a map unless it moves that axis."""
    kind = ir.StringAttr(fused.attributes["kind"]).value
    ops = _body(fused)
    if any(op.name == "onnx.Transpose" for op in ops):
        return False
    innermost = all(
        join_axis(op) == len(Tensor.of(op.results[0].type).dims) - 1 for op in ops if op.name == "onnx.Concat"
    )
    return kind in kinds and innermost


def _spread(v: ir.Value, row: int) -> None:
    """Tells all kernels that write or read `v` how far its rows are apart."""
    maker = v.owner.operation
    _set_row(maker, len(maker.operands), row)
    for use in v.uses:
        if use.owner.name == "kernel.fused":
            _set_row(use.owner.operation, use.operand_number, row)


def _set_row(fused: ir.Operation, position: int, row: int) -> None:
    count = len(fused.operands) + len(fused.results)
    rows = list(ir.DenseI64ArrayAttr(fused.attributes["rows"])) if "rows" in fused.attributes else [0] * count
    rows[position] = row
    fused.attributes["rows"] = ir.DenseI64ArrayAttr.get(rows)


def _copied(v: ir.Value, concat: ir.Operation, fused: ir.Operation) -> ir.Value:
    """A copy of `v`, made by a Concat of it alone."""
    copy = ir.Operation.create(
        "kernel.fused",
        results=[v.type],
        operands=[v],
        attributes={"kind": ir.StringAttr.get("concat"), "root": ir.StringAttr.get("onnx.Concat")},
        regions=1,
        loc=fused.location,
        ip=ir.InsertionPoint(fused),
    )
    block = copy.regions[0].blocks.append(v.type, arg_locs=[fused.location])
    with ir.InsertionPoint(block):
        made = ir.Operation.create(
            "onnx.Concat",
            results=[v.type],
            operands=[block.arguments[0]],
            attributes={"axis": concat.attributes["axis"]},
            loc=concat.location,
        )
        ir.Operation.create("kernel.yield", operands=[made.results[0]])
    if "rows" in fused.attributes:  # a part of another joined tensor
        row = list(ir.DenseI64ArrayAttr(fused.attributes["rows"]))[list(fused.operands).index(v)]
        _set_row(copy, 0, row)
    return copy.results[0]
