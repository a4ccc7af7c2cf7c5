"""This file checks a node against its operator's schema while its error can still be told as the model's fault."""

from __future__ import annotations

from onnxc.dialects.signatures import Signature
from onnxc.importer.nodes import Node


def check_node(node: Node, known: Signature) -> None:
    """Raise OnnxcError (exit code 2) where operands, results or attributes are missing or too many."""
    count = len(node.inputs)
    least, most = known.arity
    if not least <= count <= most:
        raise node.malformed(f"it has {count} inputs, {node.op_type} takes {_range(least, most)}")
    if "" in node.inputs:
        for index in known.required_inputs:
            if node.inputs[index] == "":
                raise node.malformed(f"its input {known.inputs[index].name} is absent")
    least, most = known.results
    if len(node.outputs) > most:
        raise node.malformed(f"it has {len(node.outputs)} outputs, {node.op_type} gives {_range(least, most)}")
    for name in known.required_attributes:
        if name not in node.attrs:
            raise node.malformed(f"its attribute '{name}' is missing")


def _range(least: int, most: int) -> str:
    if least == most:
        return str(least)
    return f"{least} or more" if most > 1 << 30 else f"{least} to {most}"
