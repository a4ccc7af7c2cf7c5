"""This file makes weights in another domain out of constants: an entry of the weight store that is computed late.

What one program of an artefact has transformed, others may read (`stored_transforms`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from mlir import ir

from onnxc.dialects.types import Tensor
from onnxc.dialects.weights import build_constant, constant_array, dtype_of, element_of, weight_key
from onnxc.passes.contract import Program


def transformed_constant(
    program: Program,
    constant: ir.Operation,
    name: str,
    shape: tuple[int, ...],
    make: Callable[[np.ndarray], np.ndarray],
    ip: ir.InsertionPoint,
    elem: str | None = None,
) -> ir.Value:
    """`make` of the constant's array, of shape `shape` and the same element type, or `elem`; equal names mean equal
    results."""
    store = program.weights
    if "weight" not in constant.attributes:
        return build_constant(make(constant_array(constant, store)).reshape(shape), store, loc=constant.location, ip=ip)
    key = ir.StringAttr(constant.attributes["weight"]).value
    dtype = store.dtype(key) if elem is None else dtype_of(elem)
    program.parts.note_transform(key, name)
    made = store.add_lazy(f"{key}:{name}", shape, dtype, lambda: make(store.get(key)))
    return ir.Operation.create(
        "onnx.Constant",
        results=[Tensor(element_of(dtype), shape).type()],
        attributes={"weight": ir.StringAttr.get(made)},
        loc=constant.location,
        ip=ip,
    ).result


def stored_transforms(program: Program, constant: ir.Operation) -> Sequence[str]:
    """The names of what programs of this artefact have made of the constant so far."""
    key = weight_key(constant)
    return () if key is None else program.parts.transforms(key)
