"""This file is the `onnx` dialect: the context, the cheap view `OnnxOp` of an operation, and `build`.

Operations are MLIR's unregistered ones; what they must look like stands in `signatures.py`; `verifier.py` checks it.
Tensors never sit in attributes here: they are `onnx.Constant`s (see `weights.py`), and graphs are regions.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from mlir import ir

from onnxc.dialects.errors import CompilerBug, OnnxcError
from onnxc.dialects.signatures import Signature, signature
from onnxc.dialects.weights import dense_array

NAMESPACE = "onnx."
_UPSTREAM = ("func", "arith", "math", "scf", "cf", "memref", "vector", "llvm", "index", "ub", "tensor", "linalg")

# For every op that it hands out, the binding tries to import its dialect's Python module, and remembers success only:
# without one, an access to an op of ours cost 20 µs instead of 1.
for _name in ("onnx", "kernel"):
    sys.modules.setdefault(f"mlir.dialects.{_name}", ModuleType(f"mlir.dialects.{_name}"))

_REGION_NAMES = {"If": ("then_branch", "else_branch"), "Loop": ("body",), "Scan": ("body",)}


def new_context() -> ir.Context:
    """A context in which every level of the compiler parses: upstream dialects loaded, multithreading off."""
    context = ir.Context()
    context.allow_unregistered_dialects = True
    context.enable_multithreading(False)  # a fork after a threaded pass hangs; modules are small
    for name in _UPSTREAM:
        context.get_dialect_descriptor(name)
    return context


def is_onnx(op: ir.Operation | ir.OpView) -> bool:
    """Whether `op` belongs to the `onnx` dialect."""
    return op.operation.name.startswith(NAMESPACE)


def region_names(name: str) -> tuple[str, ...]:
    """The graph attributes of operator `name`, in the order of its regions."""
    found = _REGION_NAMES.get(name)
    if found is None:
        known = signature(name)
        found = () if known is None else tuple(a.name for a in known.attributes.values() if a.kind == "graph")
        _REGION_NAMES[name] = found
    return found


def node_name(location: ir.Location) -> str:
    """The ONNX node that a location names ("" where it names none)."""
    while not location.is_a_name():
        if location.is_a_fused():
            parts = [n for n in map(node_name, location.locations) if n]
            return parts[0] if parts else ""
        if not location.is_a_callsite():
            return ""
        location = location.callee
    return location.name_str


class OnnxOp:
    """A view of one `onnx` operation. Formal names of the schema are attributes, in their own or in lower case:
    `op.x` is an operand (None where absent), `op.axis` an attribute's Python value, `op.y` a result."""

    __slots__ = ("_operands", "_signature", "name", "op")

    def __init__(self, op: ir.Operation | ir.OpView) -> None:
        self.op: ir.Operation = op.operation
        self.name: str = self.op.name[len(NAMESPACE) :]
        self._signature: Signature | None = signature(self.name)
        self._operands: list[ir.Value | None] | None = None

    @property
    def signature(self) -> Signature:
        if self._signature is None:
            raise CompilerBug("onnx dialect", f"there is no operator onnx.{self.name}", node=self.node)
        return self._signature

    @property
    def domain(self) -> str:
        return self.signature.domain

    @property
    def op_type(self) -> str:
        return self.name.rpartition(".")[2]

    @property
    def node(self) -> str:
        return node_name(self.op.location)

    @property
    def operands(self) -> list[ir.Value | None]:
        """The operands in order, None where an optional one is absent. Read once: make a new view after rewriting."""
        if self._operands is None:
            self._operands = [None if isinstance(v.type, ir.NoneType) else v for v in self.op.operands]
        return self._operands

    @property
    def results(self) -> list[ir.Value]:
        return list(self.op.results)

    @property
    def result(self) -> ir.Value:
        """The first result."""
        return self.op.results[0]

    @property
    def regions(self) -> list[ir.Region]:
        return list(self.op.regions)

    def operand(self, formal: str) -> ir.Value | None:
        """The operand of that formal name; None where it is absent."""
        index = self._place(formal, ("operand",))[1]
        operands = self.operands
        return operands[index] if index < len(operands) else None

    def attr(self, name: str, default: Any = None) -> Any:
        """The attribute's Python value; absent: the schema's default, then `default`."""
        attributes = self.op.attributes
        if name in attributes:
            return python_value(attributes[name])
        spec = self.signature.attributes.get(name)
        if spec is not None and spec.default is not None:
            return list(spec.default) if isinstance(spec.default, list) else spec.default
        return default

    def has_attr(self, name: str) -> bool:
        return name in self.op.attributes

    def values(self, index: int) -> list | None:
        """The elements of operand `index` (of an int tensor, in row-major order) as dims, where they were recorded
        by shape inference or stand in an inline constant; else None."""
        from onnxc.dialects import dims  # dims has no need of this file, but its tests import it alone

        recorded = self.op.attributes.get("operand_values")
        if recorded is not None and str(index) in recorded:
            entry = recorded[str(index)]
            return [e.value if isinstance(e, ir.IntegerAttr) else dims.parse(e.value) for e in entry]
        operand = self.operands[index] if index < len(self.operands) else None
        return None if operand is None else inline_ints(operand)

    def refuse(self, message: str, *, why: str | None = None, hint: str | None = None) -> OnnxcError:
        """An error that names this node, its operator and its operands' types: `raise op.refuse("…")`."""
        types = [str(v.type) for v in self.op.operands if not isinstance(v.type, ir.NoneType)]
        return OnnxcError(message, node=self.node, op=self.name, types=types or None, why=why, hint=hint)

    def _place(self, name: str, kinds: tuple[str, ...] = ()) -> tuple[str, Any]:
        found = self.signature.places.get(name)
        if found is None or (kinds and found[0] not in kinds):
            raise AttributeError(f"onnx.{self.name} has no {kinds[0] if kinds else 'formal name'} {name!r}")
        return found

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        kind, index = self._place(name)
        if kind == "attr":
            return self.attr(index)
        if kind == "operand":
            return self.operands[index] if index < len(self.operands) else None
        if kind == "operands":
            return self.operands[index:]
        results = self.op.results
        if kind == "results":
            return list(results)[index:]
        return results[index] if index < len(results) else None

    def __repr__(self) -> str:
        return f"<onnx.{self.name} {self.node!r}>"


def is_constant(value: ir.Value) -> bool:
    """Whether it is the result of a Constant."""
    return not isinstance(value.owner, ir.Block) and value.owner.name == "onnx.Constant"


def inline_ints(value: ir.Value) -> list[int] | None:
    """The elements of an integer constant that stands in the IR; None for any other value."""
    owner = value.owner
    if isinstance(owner, ir.Block) or owner.name != "onnx.Constant" or "value" not in owner.attributes:
        return None
    dense = owner.attributes["value"]
    return [int(e) for e in dense] if isinstance(dense, ir.DenseIntElementsAttr) else None


def build(
    name: str,
    operands: Sequence[ir.Value | None],
    types: Sequence[ir.Type],
    attrs: Mapping[str, object] = {},
    *,
    loc: ir.Location,
    ip: ir.InsertionPoint | None = None,
    regions: int = 0,
) -> ir.Operation:
    """Make operation "onnx.`name`" at `ip` (default: the current insertion point). Attributes are Python values of the
    kind that the schema asks for, or ready `ir.Attribute`s; trailing absent operands are dropped."""
    context = loc.context
    known = signature(name)
    specs = {} if known is None else known.attributes
    attributes = {
        key: value
        if isinstance(value, ir.Attribute)
        else attribute(value, context, specs[key].kind if key in specs else None)
        for key, value in attrs.items()
    }
    present = list(operands)
    while present and present[-1] is None:
        present.pop()
    if any(v is None for v in present):
        none = absent(loc, ip)
        present = [none if v is None else v for v in present]
    return ir.Operation.create(
        NAMESPACE + name, results=types, operands=present, attributes=attributes, regions=regions, loc=loc, ip=ip
    )


def absent(loc: ir.Location, ip: ir.InsertionPoint | None = None) -> ir.Value:
    """A fresh `onnx.None`: the operand that is not there."""
    return ir.Operation.create("onnx.None", results=[ir.NoneType.get(loc.context)], loc=loc, ip=ip).result


def attribute(value: Any, context: ir.Context, kind: str | None = None) -> ir.Attribute:
    """`value` as the dialect spells it; `kind` ("int", "floats", …) settles what Python's type leaves open."""
    if kind is None:
        kind = _kind_of(value)
    if kind == "int":
        return ir.IntegerAttr.get(ir.IntegerType.get_signless(64, context), int(value))
    if kind == "float":
        return ir.FloatAttr.get(ir.F32Type.get(context), float(value), ir.Location.unknown(context))
    if kind == "string":
        return ir.StringAttr.get(value, context)
    if kind == "ints":
        return ir.DenseI64ArrayAttr.get([int(v) for v in value], context)
    if kind == "floats":
        return ir.DenseF32ArrayAttr.get([float(v) for v in value], context)
    if kind == "strings":
        return ir.ArrayAttr.get([ir.StringAttr.get(v, context) for v in value], context)
    if kind == "type":
        return ir.TypeAttr.get(value, context)
    raise CompilerBug("onnx dialect", f"a {kind} is not an attribute of this dialect")


def _kind_of(value: Any) -> str:
    if isinstance(value, (bool, int)):
        return "int"
    if isinstance(value, float):
        return "float"
    if isinstance(value, (str, bytes)):
        return "string"
    if isinstance(value, ir.Type):
        return "type"
    kinds = {_kind_of(v) for v in value}
    return "floats" if "float" in kinds else next(iter(kinds), "int") + "s"


def python_value(attr: ir.Attribute) -> Any:
    """The Python value of one of the dialect's attributes; of a tensor its array, or its key in the weight store."""
    if isinstance(attr, (ir.IntegerAttr, ir.FloatAttr, ir.StringAttr, ir.TypeAttr)):
        return attr.value
    if isinstance(attr, (ir.DenseI64ArrayAttr, ir.DenseF32ArrayAttr)):
        return list(attr)
    if isinstance(attr, ir.ArrayAttr):
        return [python_value(a) for a in attr]
    return dense_array(attr) if isinstance(attr, ir.DenseElementsAttr) else attr
