"""tensor -> kernels: every `kernel.fused` becomes a call of a private function; equal groups share one function.

Before:  %1 = "kernel.fused"(%x, %w) ({…}) {kind = "matmul", root = "onnx.MatMul"}
After:   func.func private @k_3f2a91c0(%x: tensor<?x64xf32, ["d0", 64]>, …) attributes {kernel.kind = "matmul", …}
         %1 = "kernel.call"(%x, %w) {callee = @k_3f2a91c0, dims = {d0 = "N"}, nodes = ["fc1"]}
A kernel's dims are names of its own: every distinct expression becomes one symbol d0, d1 …, whose value the call gives.
What divides it stays to be seen, as far as a tile could need it: `320*q` becomes `64*d0`, d0 being `5*q`, so that a
kernel for heights divided by 32 has no code for what a tile leaves over (`program.facts`, see passes/apply_facts.py).
So does a small upper limit, rounded up to a power of two, in kernels whose schedules ask for it: `d0:0..64`.
The name is a hash of the function's text, so kernels are equal across models too, and their objects can be cached.
Keeps:   values, locations of calls.       Leaves: no `kernel.fused`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from math import gcd

from mlir import ir
from mlir.dialects import func

from onnxc.dialects import dims
from onnxc.dialects.levels import KERNELS, TENSOR
from onnxc.dialects.onnx import is_constant, node_name
from onnxc.dialects.types import Tensor, attribute_dims, dims_attribute
from onnxc.passes.contract import Program, transforms
from onnxc.passes.kernel_calls import build_call


@transforms(TENSOR, KERNELS)
def outline_kernels(program: Program) -> None:
    """See the file's docstring."""
    known: dict[str, str] = {}
    for function in list(program.module.body.operations):
        _outline_block(program, function.regions[0].blocks[0], known)


def _outline_block(program: Program, block: ir.Block, known: dict[str, str]) -> None:
    for view in list(block.operations):
        op = view.operation
        if op.name == "kernel.fused":
            _outline(program, op, known)
        else:
            for region in op.regions:
                _outline_block(program, region.blocks[0], known)


LARGEST_MULTIPLE = 64  # lanes of a sweep, the longest step of any kernel; more would tell equal kernels apart,
SMALLEST_MULTIPLE = 4  # and so would less, which is no tile
LARGEST_LIMIT = 128  # keys that attention goes through at once, rows that a product's tiles are chosen for
LIMITED = {"attention", "matmul"}


class OpaqueDims:
    """Gives each distinct symbolic dim a name of the kernel's own, in order of first sight, times what divides it.

    `limited`: with its upper limit, if that is small."""

    def __init__(self, limited: bool) -> None:
        self.names: dict[dims.Dim, dims.Expr] = {}
        self.limited = limited

    def __call__(self, d: dims.Dim) -> dims.Dim:
        if isinstance(d, int):
            return d
        multiple = gcd(dims.divisor(d), LARGEST_MULTIPLE)
        multiple = multiple if multiple >= SMALLEST_MULTIPLE else 1
        unit = dims.floordiv(d, multiple)
        if unit not in self.names:
            name, most = f"d{len(self.names)}", dims.bounds(unit)[1]
            known = self.limited and 1 <= most * multiple <= LARGEST_LIMIT
            self.names[unit] = dims.ranged(name, 0, 1 << (int(most) - 1).bit_length()) if known else dims.symbol(name)
        return self.names[unit] * multiple

    def type(self, type_: ir.Type) -> ir.Type:
        if isinstance(type_, ir.NoneType):
            return type_
        tensor = Tensor.of(type_)
        return Tensor(tensor.elem, tuple(self(d) for d in tensor.dims)).type(type_.context)

    def attributes(self, op: ir.Operation) -> dict[str, ir.Attribute]:
        found = dict(op.attributes.items())
        if "operand_values" in found:
            entries = ir.DictAttr(found["operand_values"])
            found["operand_values"] = ir.DictAttr.get(
                {e.name: dims_attribute([self(d) for d in attribute_dims(e.attr)], op.context) for e in entries}
            )
        return found


def _outline(program: Program, fused: ir.Operation, known: dict[str, str]) -> None:
    opaque = OpaqueDims(ir.StringAttr(fused.attributes["kind"]).value in LIMITED)
    body = fused.regions[0].blocks[0]
    ops = [view.operation for view in body.operations]
    attributes = {"kernel.kind": fused.attributes["kind"], "kernel.root": fused.attributes["root"]}
    if "rows" in fused.attributes:
        attributes["kernel.rows"] = fused.attributes["rows"]
    constants = [i for i, v in enumerate(fused.operands) if is_constant(v)]
    if constants:  # they may be packed, so they are part of what the kernel is
        attributes["kernel.constants"] = ir.DenseI64ArrayAttr.get(constants)
    function = kernel_function(program, ops[:-1], list(body.arguments), list(ops[-1].operands), attributes, opaque)
    text = str(function.operation)  # a short function of its own: printing it is linear
    name = known.get(text)
    if name is None:
        name = known[text] = kernel_name(text)
        function.attributes["sym_name"] = ir.StringAttr.get(name)
    else:
        function.operation.erase()
    _call(fused, name, opaque, [node_name(op.location) for op in ops[:-1]])


def kernel_function(
    program: Program, ops: Sequence[ir.Operation], operands: Sequence[ir.Value], results: Sequence[ir.Value],
    attributes: Mapping[str, ir.Attribute], opaque: OpaqueDims,
) -> func.FuncOp:  # fmt: skip
    """A function, not named yet, that computes copies of `ops` on its arguments, which stand for `operands`."""
    with ir.InsertionPoint(program.module.body), ir.Location.unknown():
        types = [opaque.type(v.type) for v in operands], [opaque.type(v.type) for v in results]
        function = func.FuncOp("kernel", types, visibility="private")
        for name, attribute in attributes.items():
            function.attributes[name] = attribute
        entry = function.add_entry_block()
        mapping = dict(zip(operands, entry.arguments, strict=True))
        with ir.InsertionPoint(entry):
            for op in ops:
                copy = ir.Operation.create(
                    op.name,
                    results=[opaque.type(r.type) for r in op.results],
                    operands=[mapping[o] for o in op.operands],
                    attributes=opaque.attributes(op),
                )
                mapping.update(zip(op.results, copy.results, strict=True))
            func.ReturnOp([mapping[v] for v in results])
    return function


def kernel_name(text: str) -> str:
    """The name of the kernel whose function, still without it, has this text."""
    return "k_" + hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _call(fused: ir.Operation, name: str, opaque: OpaqueDims, nodes: list[str]) -> None:
    values = {f"d{i}": d for i, d in enumerate(opaque.names)}
    types, ip = [r.type for r in fused.results], ir.InsertionPoint(fused)
    call = build_call(name, list(fused.operands), types, values, nodes, fused.location, ip)
    for old, new in zip(fused.results, call.results, strict=True):
        old.replace_all_uses_with(new)
    fused.erase()
