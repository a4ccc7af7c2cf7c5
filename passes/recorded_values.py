"""This file reads and writes `operand_values`: elements of integer operands that shape inference wrote on an op."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlir import ir

from onnxc.dialects.dims import Dim
from onnxc.dialects.types import attribute_dims, dims_attribute

ATTRIBUTE = "operand_values"


def recorded_values(op: ir.Operation) -> dict[int, tuple[Dim, ...]]:
    """The recorded elements by operand index."""
    attributes = op.attributes
    if ATTRIBUTE not in attributes:
        return {}
    table = attributes[ATTRIBUTE]
    entries = [table[position] for position in range(len(table))]
    return {int(entry.name): attribute_dims(entry.attr) for entry in entries}


def values_attribute(values: Mapping[int, Sequence[Dim]], context: ir.Context) -> ir.DictAttr:
    """The attribute that records `values`."""
    entries = {str(index): dims_attribute(list(elements), context) for index, elements in values.items()}
    return ir.DictAttr.get(entries, context)
