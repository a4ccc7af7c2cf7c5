"""kernels -> kernels: a kernel falls into several where that was measured to be faster, or where a node asks for it.

Before:  %1 = "kernel.call"(%x, %w) {callee = @k_3f2a91c0, nodes = ["fc", "gelu"]}     MatMul, Gelu
After:   %0 = "kernel.call"(%x, %w) {callee = @k_77d10c42, nodes = ["fc"]}             MatMul
         %1 = "kernel.call"(%0) {callee = @k_0be5a3f1, nodes = ["gelu"]}               a map: Gelu
What tuning has found (`options.choices`) goes by the kernel's signature: the operators after which a kernel ends, [1]
or [1, 3] (kernels/boundaries.py); with `--objective memory` it is not used, since what is between needs room. What the
user asks for (`options.overrides`) goes by the node's name: "apart" leaves no other node in its kernel, "fused" lets no
record split it. `notes["fusion"]`: kernel → record or override.
Keeps:   what is computed, bit for bit: each operator's result is rounded to its type in one kernel as well.
Leaves:  kernels as outline_kernels would make them of their parts.
"""

from __future__ import annotations

from collections.abc import Sequence

from mlir import ir
from mlir.dialects import func

from onnxc.dialects import dims
from onnxc.dialects.levels import KERNELS
from onnxc.dialects.types import Tensor
from onnxc.passes.contract import Program, transforms
from onnxc.passes.fusion_rules import short
from onnxc.passes.kernel_calls import build_call, callee_of, dims_of, kernel_calls, nodes_by_operator
from onnxc.passes.kernels.boundaries import INLINED, Indivisible, Part, around, divisions, parts, refusal
from onnxc.passes.kernels.kernel_function import KernelFunction, kernels_of
from onnxc.passes.outline_kernels import LIMITED, OpaqueDims, kernel_function, kernel_name
from onnxc.passes.overrides import APART, FUSED, NOWHERE, Override, asked, overrides
from onnxc.passes.signatures import kernel_signature


@transforms(KERNELS, KERNELS)
def split_kernels(program: Program) -> None:
    """See the file's docstring. OnnxcError where a node asks for what is not possible."""
    if program.options.choices is None and not any(o.fusion for o in overrides(program)):
        return
    chooser = _Chooser(program)
    for call in list(kernel_calls(program.module)):
        after, source = chooser.boundaries(call)
        if after:
            for symbol in _split(program, chooser.kernels, call, after):
                program.notes.setdefault("fusion", {})[symbol] = source
    chooser.check()
    left = {callee_of(call) for call in kernel_calls(program.module)}
    for symbol, kernel in chooser.kernels.items():
        if symbol not in left:
            kernel.func.operation.erase()


def part_function(program: Program, kernel: KernelFunction, part: Part) -> tuple[func.FuncOp, OpaqueDims]:
    """The function of a part of a kernel, named, and what its dims are of the kernel's."""
    attributes = _attributes(kernel, part)
    opaque = OpaqueDims(ir.StringAttr(attributes["kernel.kind"]).value in LIMITED)
    ops = [kernel.ops[n].op for n in part.numbers]
    function = kernel_function(program, ops, part.operands, [part.result], attributes, opaque)
    function.attributes["sym_name"] = ir.StringAttr.get(kernel_name(str(function.operation)))
    return function, opaque


def _attributes(kernel: KernelFunction, part: Part) -> dict[str, ir.Attribute]:
    kind = "map" if part.root is None else kernel.kind
    root = kernel.ops[part.numbers[-1] if part.root is None else part.root].op.name
    attributes: dict[str, ir.Attribute] = {
        "kernel.kind": ir.StringAttr.get(kind),
        "kernel.root": ir.StringAttr.get(root),
    }
    given = [kernel.operands.index(v) if v in kernel.operands else None for v in part.operands]
    if "kernel.rows" in kernel.func.attributes:
        rows = list(ir.DenseI64ArrayAttr(kernel.func.attributes["kernel.rows"]))
        own = [0 if i is None else rows[i] for i in given]
        own.append(rows[-1] if part.result == kernel.results[0] else 0)
        if any(own):
            attributes["kernel.rows"] = ir.DenseI64ArrayAttr.get(own)
    constants = [position for position, i in enumerate(given) if i in kernel.constants]
    if constants:
        attributes["kernel.constants"] = ir.DenseI64ArrayAttr.get(constants)
    return attributes


def _split(program: Program, kernels: dict[str, KernelFunction], call: ir.Operation, after: Sequence[int]) -> list[str]:
    """Calls the parts in place of the whole; their names."""
    kernel = kernels[callee_of(call)]
    values = dims_of(call)
    made = dict(zip(kernel.operands, call.operands, strict=True))
    names: list[str] = []
    for part in parts(kernel, after):
        function, opaque = part_function(program, kernel, part)
        name = ir.StringAttr(function.attributes["sym_name"]).value
        if name in kernels:
            function.operation.erase()
        else:
            kernels[name] = KernelFunction.of(function)
        made[part.result] = _call(call, kernel, part, name, [made[v] for v in part.operands], values, opaque)
        names.append(name)
    call.results[0].replace_all_uses_with(made[kernel.results[0]])
    call.erase()
    return names


def _call(
    whole: ir.Operation, kernel: KernelFunction, part: Part, name: str, operands: Sequence[ir.Value],
    values: dict[str, dims.Dim], opaque: OpaqueDims,
) -> ir.Value:  # fmt: skip
    own = {f"d{i}": dims.substitute(unit, values) for i, unit in enumerate(opaque.names)}
    tensor = Tensor.of(part.result.type)
    shape = [d if isinstance(d, int) else dims.substitute(d, values) for d in tensor.dims]
    nodes = nodes_by_operator(whole) or [""] * len(kernel.ops)
    loc = ir.Location.name(nodes[part.numbers[-1] if part.root is None else part.root])
    types, names = [tensor.of_shape(shape).type(whole.context)], [nodes[n] for n in part.numbers]
    return build_call(name, list(operands), types, own, names, loc, ir.InsertionPoint(whole)).results[0]


class _Chooser:
    """The boundaries of each call's kernel, and who wants them."""

    def __init__(self, program: Program) -> None:
        self.program, self.choices = program, program.options.choices
        self.kernels = kernels_of(program.module)
        self._recorded: dict[str, Sequence[int]] = {}
        self._honoured: set[str] = set()  # origins of overrides

    def boundaries(self, call: ir.Operation) -> tuple[Sequence[int], str]:
        """Of the kernel that is called, and who wants them: record or override."""
        symbol = callee_of(call)
        kernel, nodes = self.kernels[symbol], nodes_by_operator(call)
        computed = [n for n, op in enumerate(kernel.ops) if op.name not in INLINED]
        wanted = {n: self._asked(kernel, nodes[n]) for n in computed if n < len(nodes)}
        apart = [n for n, fusion in wanted.items() if fusion == APART]
        if apart:
            return self._around(kernel, apart, nodes[apart[0]]), "override"
        if FUSED in wanted.values():
            return (), "override"
        if symbol not in self._recorded:
            self._recorded[symbol] = self._of_records(kernel)
        return self._recorded[symbol], "record"

    def _asked(self, kernel: KernelFunction, node: str) -> str | None:
        for override in overrides(self.program):
            if override.matches(node) and (override.fusion == APART or divisions(kernel)):
                self._honoured.add(override.origin)
        override = asked(self.program, node, "fusion")
        return None if override is None else override.fusion

    def _around(self, kernel: KernelFunction, apart: Sequence[int], node: str) -> Sequence[int]:
        try:
            return around(kernel, apart)
        except Indivisible as why:
            override = asked(self.program, node, "fusion") or Override(node)
            op = short(kernel.ops[apart[0]].op)
            raise override.refuse("its kernel cannot be divided", node=node, op=op, why=str(why)) from None

    def _of_records(self, kernel: KernelFunction) -> Sequence[int]:
        """What tuning has found, if it is possible here."""
        signature = kernel_signature(kernel) if self.choices is not None else ""
        after = self.choices.fusion(signature) if self.choices is not None else None
        if self.choices is None or not after:
            return ()
        why = refusal(kernel, after)
        if why is not None:
            place = self.choices.origin(signature, "fusion")
            self.program.warnings.append(f"{place}: {why}: it stays one kernel: {signature}")
            return ()
        if self.program.options.objective == "memory":
            self.program.log.append(("split_kernels", f"stays one kernel, which takes less memory: {signature}"))
            return ()
        where = ", ".join(map(str, after))
        self.program.log.append(("split_kernels", f"divided after {where} by a record: {signature}"))
        return after

    def check(self) -> None:
        """Refuses what is asked of nodes none of which can do it."""
        named = self.program.notes.get("named", {})
        for override in overrides(self.program):
            if override.fusion is None or override.origin in self._honoured or override.origin not in named:
                continue
            alone = "its kernel computes nothing else, or cannot be divided"
            raise override.refuse(
                f"fusion = '{override.fusion}' is not possible",
                node=named[override.origin],
                why=alone if override.fusion == FUSED else NOWHERE,
            )
