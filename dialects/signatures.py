"""This file derives the signature of every operator of the `onnx` dialect from onnx's own schemas.

An operator's MLIR name is "onnx." + its short name: `Relu`, `ml.Normalizer`, `microsoft.Gelu`, `preview.training.Adam`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property

from onnx import defs
from onnx.defs import OpSchema
from onnx.helper import get_attribute_value

from onnxc.dialects import microsoft

OPSET = 28
"""The one version of ai.onnx inside; older models are upgraded to it on import."""

PREFIX_OF_DOMAIN = {
    "": "",
    "ai.onnx.ml": "ml.",
    "ai.onnx.preview": "preview.",
    "ai.onnx.preview.training": "preview.training.",
    microsoft.DOMAIN: "microsoft.",
}

_KINDS = {
    OpSchema.AttrType.INT: "int",
    OpSchema.AttrType.FLOAT: "float",
    OpSchema.AttrType.STRING: "string",
    OpSchema.AttrType.INTS: "ints",
    OpSchema.AttrType.FLOATS: "floats",
    OpSchema.AttrType.STRINGS: "strings",
    OpSchema.AttrType.TENSOR: "tensor",
    OpSchema.AttrType.TENSORS: "tensors",
    OpSchema.AttrType.SPARSE_TENSOR: "sparse_tensor",
    OpSchema.AttrType.GRAPH: "graph",
    OpSchema.AttrType.TYPE_PROTO: "type",
}


@dataclass(frozen=True)
class Formal:
    """One formal operand or result: a type variable or a type string, and how many values stand for it."""

    name: str
    type: str
    optional: bool
    variadic: bool
    homogeneous: bool
    min_arity: int


@dataclass(frozen=True)
class AttributeSpec:
    """One attribute: its kind ("int", "floats", "graph", …) and its default as a Python value, or None."""

    name: str
    kind: str
    required: bool
    default: object


#: types that older versions of an operator have and today's has not: nodes of those opsets keep them
OLDER_TYPES: dict[str, frozenset[str]] = dict.fromkeys(
    ("ReduceLogSum", "ReduceLogSumExp"),
    frozenset(f"tensor({integer})" for integer in ("int32", "int64", "uint32", "uint64")),
)


@dataclass(frozen=True)
class Signature:
    """What the schema says of one operator."""

    domain: str
    op_type: str
    name: str
    since: int
    inputs: tuple[Formal, ...]
    outputs: tuple[Formal, ...]
    attributes: dict[str, AttributeSpec]
    type_variables: dict[str, frozenset[str]]
    arity: tuple[int, int]
    results: tuple[int, int]
    schema: OpSchema

    @cached_property
    def required_attributes(self) -> tuple[str, ...]:
        """The attributes that every node must have."""
        return tuple(a.name for a in self.attributes.values() if a.required)

    @cached_property
    def required_inputs(self) -> tuple[int, ...]:
        """The operands that must not be absent."""
        return tuple(i for i, f in enumerate(self.inputs) if not f.optional and not f.variadic)

    @cached_property
    def places(self) -> dict[str, tuple[str, int | str]]:
        """Formal name, exact or lower case -> (kind, index or name); kind: operand, operands, attr, result, results."""
        places: dict[str, tuple[str, int | str]] = {}
        named: list[tuple[str, tuple[str, int | str]]] = [
            (f.name, ("operands" if f.variadic else "operand", i)) for i, f in enumerate(self.inputs)
        ]
        named += [(name, ("attr", name)) for name in self.attributes]
        named += [(f.name, ("results" if f.variadic else "result", i)) for i, f in enumerate(self.outputs)]
        for name, place in named:
            places.setdefault(name, place)
        for name, place in named:
            places.setdefault(name.lower(), place)
        return places


@cache
def signature(name: str) -> Signature | None:
    """The signature of short name `name`, or None where no schema declares it."""
    prefix, _, op_type = name.rpartition(".")
    domain = _domain_of(prefix + "." if prefix else "")
    schema = None if domain is None else _schema(domain, op_type)
    return None if schema is None else _derive(name, schema)


def short_name(domain: str, op_type: str) -> str | None:
    """The dialect's short name of an operator, or None where the domain is not known."""
    prefix = PREFIX_OF_DOMAIN.get("" if domain == "ai.onnx" else domain)
    return None if prefix is None else prefix + op_type


def known_operators() -> list[str]:
    """The short names of all operators of the dialect, sorted."""
    names = {short_name(s.domain, s.name) for s in defs.get_all_schemas() if not s.deprecated or s.domain != ""}
    names |= {"microsoft." + name for name in _microsoft()}
    return sorted(n for n in names if n is not None)


@cache
def _microsoft() -> dict[str, OpSchema]:
    return microsoft.schemas()


@cache
def _domain_of(prefix: str) -> str | None:
    return next((d for d, p in PREFIX_OF_DOMAIN.items() if p == prefix), None)


def _schema(domain: str, op_type: str) -> OpSchema | None:
    """The newest schema. A deprecated operator keeps its last valid one; not in ai.onnx, whose are upgraded away."""
    if domain == microsoft.DOMAIN:
        return _microsoft().get(op_type)
    if not defs.has(op_type, domain):
        return None
    version = OPSET if domain == "" else defs.onnx_opset_version()
    schema = defs.get_schema(op_type, version, domain)
    if not schema.deprecated:
        return schema
    return None if domain == "" else defs.get_schema(op_type, schema.since_version - 1, domain)


def _derive(name: str, schema: OpSchema) -> Signature:
    return Signature(
        domain=schema.domain,
        op_type=schema.name,
        name=name,
        since=schema.since_version,
        inputs=tuple(_formal(p) for p in schema.inputs),
        outputs=tuple(_formal(p) for p in schema.outputs),
        attributes={key: _attribute(a) for key, a in schema.attributes.items()},
        type_variables={
            c.type_param_str: frozenset(c.allowed_type_strs) | OLDER_TYPES.get(name, frozenset())
            for c in schema.type_constraints
        },
        arity=(schema.min_input, schema.max_input),
        results=(schema.min_output, schema.max_output),
        schema=schema,
    )


def _formal(parameter: OpSchema.FormalParameter) -> Formal:
    option = OpSchema.FormalParameterOption
    return Formal(
        name=parameter.name,
        type=parameter.type_str,
        optional=parameter.option == option.Optional,
        variadic=parameter.option == option.Variadic,
        homogeneous=parameter.is_homogeneous,
        min_arity=parameter.min_arity,
    )


def _attribute(attribute: OpSchema.Attribute) -> AttributeSpec:
    kind, default = _KINDS[attribute.type], None
    if attribute.default_value.type and kind != "tensor":
        default = get_attribute_value(attribute.default_value)
        if isinstance(default, bytes):
            default = default.decode()
        elif kind.endswith("s"):
            default = [v.decode() if isinstance(v, bytes) else v for v in default]
    return AttributeSpec(attribute.name, kind, attribute.required, default)
