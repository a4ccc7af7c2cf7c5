"""This file checks a module against MLIR's rules, and every `onnx` operation against its signature.

Values whose type is not known yet (`!onnx.any`) fit anything. Attributes with a dot in their name are notes of passes.
"""

from __future__ import annotations

from collections.abc import Iterator

from mlir import ir
from onnx import TensorProto

from onnxc.dialects.errors import CompilerBug
from onnxc.dialects.onnx import NAMESPACE, node_name, region_names
from onnxc.dialects.signatures import Formal, Signature, signature
from onnxc.dialects.types import ONNX_ELEMENTS
from onnxc.dialects.weights import INLINE_ELEMENTS, INLINE_LIMIT

RECORDED = "operand_values"
"""The attribute in which shape inference keeps the values of int operands that it then makes absent."""

_SPELLED = {element: TensorProto.DataType.Name(number).lower() for number, element in ONNX_ELEMENTS.items()}
_KINDS = {
    "int": ir.IntegerAttr,
    "float": ir.FloatAttr,
    "string": ir.StringAttr,
    "ints": ir.DenseI64ArrayAttr,
    "floats": ir.DenseF32ArrayAttr,
    "strings": ir.ArrayAttr,
    "tensor": (ir.DenseElementsAttr, ir.StringAttr),
    "type": ir.TypeAttr,
}
_CONTAINERS = {"!onnx.seq<": "seq", "!onnx.optional<": "optional"}


def verify(module: ir.Module, pass_name: str = "verifier") -> None:
    """Raise CompilerBug that names the first operation at fault."""
    try:
        module.operation.verify()
    except ir.MLIRError as error:
        raise CompilerBug(pass_name, f"the module is not valid: {error}") from error
    found: list[ir.Operation] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name.startswith(NAMESPACE):
            found.append(op)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    names = TypeNames()
    for op in found:
        fault = next(_faults(op, names), None)
        if fault is not None:
            raise CompilerBug(pass_name, fault, node=node_name(op.location), op=op.name)


def verify_round_trip(module: ir.Module) -> None:
    """Raise CompilerBug where the module's text does not parse back to the same module."""
    text = module.operation.get_asm(enable_debug_info=True)
    try:
        again = ir.Module.parse(text, module.context).operation.get_asm(enable_debug_info=True)
    except ir.MLIRError as error:
        raise CompilerBug("round trip", f"the module's text does not parse: {error}") from error
    if again != text:
        raise CompilerBug("round trip", "the module's text parses to another module")


class TypeNames:
    """ONNX's spelling of MLIR types, remembered for one module."""

    def __init__(self) -> None:
        self._known: dict[ir.Type, str | None] = {}

    def name(self, type_: ir.Type) -> str | None:
        """`tensor(float)`, `seq(tensor(int64))` …; None where a part is not known yet."""
        if type_ not in self._known:
            self._known[type_] = self._spell(type_)
        return self._known[type_]

    def _spell(self, type_: ir.Type) -> str | None:
        if isinstance(type_, (ir.RankedTensorType, ir.UnrankedTensorType)):
            element = str(type_.element_type)
            return None if element == "!onnx.any" else f"tensor({_SPELLED.get(element, element)})"
        text = str(type_)
        for start, container in _CONTAINERS.items():
            if text.startswith(start):
                inner = self.name(ir.Type.parse(text[len(start) : -1], type_.context))
                return None if inner is None else f"{container}({inner})"
        if text.startswith("!onnx.map<"):
            key, _, value = text[len("!onnx.map<") : -1].partition(", ")
            inner = self.name(ir.Type.parse(value, type_.context))
            return None if inner is None else f"map({_SPELLED.get(key, key)},{inner})"
        return text


def _faults(op: ir.Operation, names: TypeNames) -> Iterator[str]:
    name = op.name[len(NAMESPACE) :]
    special = _SPECIAL.get(name)
    if special is not None:
        yield from special(op)
        return
    known = signature(name)
    if known is None:
        yield f"there is no operator {op.name}"
        return
    yield from _arity_faults(op, known)
    yield from _attribute_faults(op, known)
    yield from _region_faults(op, name, known)
    yield from type_faults(op, names)


def _none_faults(op: ir.Operation) -> Iterator[str]:
    if len(op.operands) or len(op.results) != 1 or not isinstance(op.results[0].type, ir.NoneType):
        yield "onnx.None gives one value of type none"


def _yield_faults(op: ir.Operation) -> Iterator[str]:
    if op.parent is None or op.parent.name.partition(".")[0] not in ("onnx", "kernel"):
        yield "onnx.Yield is outside of a region of an onnx or kernel operation"
    elif op != op.block.operations[len(op.block.operations) - 1].operation:
        yield "onnx.Yield is not the last operation of its block"


def _constant_faults(op: ir.Operation) -> Iterator[str]:
    attributes = op.attributes
    if ("value" in attributes) == ("weight" in attributes):
        yield "a constant has either a value or a weight"
    elif "value" in attributes:
        tensor = ir.ShapedType(attributes["value"].type)
        elements = 1
        for size in tensor.shape:
            elements *= size
        if elements > INLINE_LIMIT or str(tensor.element_type) not in INLINE_ELEMENTS:
            yield f"a constant of type {tensor} belongs in the weight store"
        elif tensor != op.results[0].type:
            yield f"a constant of type {tensor} gives {op.results[0].type}"


_SPECIAL = {"None": _none_faults, "Yield": _yield_faults, "Constant": _constant_faults}


def _arity_faults(op: ir.Operation, known: Signature) -> Iterator[str]:
    operands = op.operands
    least, most = known.arity
    recorded = _recorded(op)
    needed = max((i + 1 for i in known.required_inputs if i not in recorded), default=0)
    if not min(least, needed) <= len(operands) <= most:
        yield f"it has {len(operands)} operands, and takes {least} to {most}"
        return
    for index in known.required_inputs:
        gone = index >= len(operands) or isinstance(operands[index].type, ir.NoneType)
        if gone and index not in recorded:
            yield f"operand {known.inputs[index].name} is absent, and its values are not recorded"
    least, most = known.results
    if not least <= len(op.results) <= most:
        yield f"it has {len(op.results)} results, and gives {least} to {most}"


def _recorded(op: ir.Operation) -> set[int]:
    recorded = op.attributes.get(RECORDED)
    return set() if recorded is None else {int(entry.name) for entry in ir.DictAttr(recorded)}


def _attribute_faults(op: ir.Operation, known: Signature) -> Iterator[str]:
    present = {entry.name: entry.attr for entry in _entries(op)}
    for name in known.required_attributes:
        if name not in present and known.attributes[name].kind != "graph":
            yield f"attribute {name} is missing"
    for name, attribute in present.items():
        spec = known.attributes.get(name)
        if spec is None:
            if name != RECORDED and "." not in name:
                yield f"it has no attribute {name}"
        elif not isinstance(attribute, _KINDS.get(spec.kind, ())):
            yield f"attribute {name} is {attribute}, and should be of kind {spec.kind}"


def _entries(op: ir.Operation) -> list[ir.NamedAttribute]:
    attributes = op.attributes
    return [attributes[i] for i in range(len(attributes))]


def _region_faults(op: ir.Operation, name: str, known: Signature) -> Iterator[str]:
    wanted = region_names(name)
    regions = list(op.regions)
    if len(regions) != len(wanted):
        yield f"it has {len(regions)} regions, and takes {len(wanted)}"
        return
    for label, region in zip(wanted, regions, strict=True):
        blocks = list(region.blocks)
        if not blocks and not known.attributes[label].required:
            continue
        if len(blocks) != 1:
            yield f"region {label} has {len(blocks)} blocks"
            return
        count = len(blocks[0].operations)
        last = blocks[0].operations[count - 1].operation if count else None
        if last is None or last.name != "onnx.Yield":
            yield f"region {label} does not end in onnx.Yield"
            return
        yield from _flow_faults(op, name, label, len(blocks[0].arguments), len(last.operands))


def _flow_faults(op: ir.Operation, name: str, label: str, arguments: int, yielded: int) -> Iterator[str]:
    """What a region takes and yields: If yields its results, Loop its condition too, Scan takes its operands."""
    takes, gives = {
        "If": (0, len(op.results)),
        "Loop": (max(len(op.operands), 2), len(op.results) + 1),
        "Scan": (len(op.operands), len(op.results)),
    }.get(name, (arguments, yielded))
    if arguments != takes:
        yield f"region {label} takes {arguments} values, and is given {takes}"
    if yielded != gives:
        yield f"region {label} yields {yielded} values, and {gives} are expected"


def type_faults(op: ir.Operation, names: TypeNames) -> Iterator[str]:
    """What is wrong with the types of an operation's operands and results."""
    known = signature(op.name[len(NAMESPACE) :])
    if known is None:
        return
    bound: dict[str, str] = {}
    for side, formals, values in (("operand", known.inputs, op.operands), ("result", known.outputs, op.results)):
        for formal, value in _pairs(formals, list(values)):
            if isinstance(value.type, ir.NoneType):
                if side == "result" or not (formal.optional or formal.variadic or _recorded(op)):
                    yield f"{side} {formal.name} is of type none"
                continue
            spelled = names.name(value.type)
            if spelled is None:
                continue
            allowed = known.type_variables.get(formal.type, frozenset((formal.type,)))
            if spelled not in allowed and f"optional({spelled})" not in allowed:
                yield f"{side} {formal.name} is {value.type}, which {formal.type} does not allow"
            if formal.type in known.type_variables and (formal.homogeneous or not formal.variadic):
                other = bound.setdefault(formal.type, spelled)
                if other != spelled:
                    yield f"{side} {formal.name} is {spelled}, and {formal.type} is {other} already"


def _pairs(formals: tuple[Formal, ...], values: list[ir.Value]) -> Iterator[tuple[Formal, ir.Value]]:
    for index, value in enumerate(values):
        yield formals[min(index, len(formals) - 1)], value
