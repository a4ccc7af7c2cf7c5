"""This file is the importer's own form of a node: plain Python that the upgrade steps rewrite."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from onnx import AttributeProto, NodeProto

from onnxc.dialects.errors import UNREADABLE, OnnxcError
from onnxc.importer.tensors import TensorReader

Name = str | tuple
"""A value's name: the model's string, or a tuple for the values that the importer makes (they never collide)."""


@dataclass
class Node:
    """An operator call. `version` is the since_version of its operator; attributes are Python values: numbers, `str`,
    lists, arrays for tensors, GraphProto for graphs, TypeProto for types. Trailing empty outputs are dropped."""

    op_type: str
    domain: str
    version: int
    inputs: list[Name]
    outputs: list[Name]
    attrs: dict[str, Any] = field(default_factory=dict)
    name: str = ""

    def input(self, index: int) -> Name:
        """The name of input `index`, "" where it is absent."""
        return self.inputs[index] if index < len(self.inputs) else ""

    def put_input(self, index: int, name: Name) -> None:
        """Set input `index`; inputs skipped over become absent."""
        self.inputs += [""] * (index + 1 - len(self.inputs))
        self.inputs[index] = name

    def refuse(self, message: str, hint: str | None = None) -> OnnxcError:
        """An error at this node for a valid model that cannot be compiled."""
        return OnnxcError(message, node=self.name, op=self.op_type, hint=hint)

    def malformed(self, message: str) -> OnnxcError:
        """An error at this node for a model that breaks ONNX's rules."""
        return OnnxcError(message, node=self.name, op=self.op_type, exit_code=UNREADABLE)


class AttributeReader:
    """Python values of attributes. Inside a model-local function `given` holds the values of the call's attributes."""

    def __init__(self, tensors: TensorReader) -> None:
        self.tensors = tensors

    def read(self, node: NodeProto, given: dict[str, Any] | None) -> dict[str, Any]:
        """The attributes of `node`; references to attributes that the call leaves out are left out too."""
        attributes: dict[str, Any] = {}
        for attribute in node.attribute:
            reference = attribute.ref_attr_name
            if not reference:
                attributes[attribute.name] = self.value(attribute)
            elif given is not None and reference in given:
                attributes[attribute.name] = given[reference]
        return attributes

    def value(self, attribute: AttributeProto) -> Any:
        """The attribute's value."""
        read = _READERS.get(attribute.type or _guess(attribute))
        if read is None:
            raise OnnxcError(
                f"attribute '{attribute.name}' is malformed", why="it has no known type", exit_code=UNREADABLE
            )
        return read(attribute, self.tensors)


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")


_READERS: dict[int, Callable[[AttributeProto, TensorReader], Any]] = {
    AttributeProto.INT: lambda a, _: a.i,
    AttributeProto.FLOAT: lambda a, _: a.f,
    AttributeProto.STRING: lambda a, _: _text(a.s),
    AttributeProto.INTS: lambda a, _: list(a.ints),
    AttributeProto.FLOATS: lambda a, _: list(a.floats),
    AttributeProto.STRINGS: lambda a, _: [_text(s) for s in a.strings],
    AttributeProto.TENSOR: lambda a, tensors: tensors.array(a.t),
    AttributeProto.SPARSE_TENSOR: lambda a, tensors: tensors.sparse(a.sparse_tensor),
    AttributeProto.GRAPH: lambda a, _: a.g,
    AttributeProto.TYPE_PROTO: lambda a, _: a.tp,
}


def _guess(attribute: AttributeProto) -> int:
    """The type of an attribute that does not tell it (IR version 1 did not)."""
    for name, kind in (("f", 1), ("i", 2), ("s", 3), ("t", 4), ("g", 5)):
        if attribute.HasField(name):
            return kind
    for values, kind in ((attribute.floats, 6), (attribute.ints, 7), (attribute.strings, 8)):
        if len(values):
            return kind
    return 0
