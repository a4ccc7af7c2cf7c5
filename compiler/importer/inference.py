"""This file asks onnx's own inference for ranks and element types that old operator versions depend on.

It runs once, and only for models that hold such operators; what it cannot tell stays unknown.
"""

from __future__ import annotations

import numpy as np
from google.protobuf.message import DecodeError, EncodeError
from onnx import GraphProto, ModelProto, TensorProto, TypeProto, ValueInfoProto, helper, shape_inference

from onnxc.dialects.types import ONNX_ELEMENTS
from onnxc.dialects.weights import dtype_of
from onnxc.importer.nodes import Name


class Inference:
    """Types of the values of one model, by name."""

    def __init__(self, model: ModelProto) -> None:
        self._model = model
        self._types: dict[str, TypeProto.Tensor | None] | None = None

    def rank(self, name: Name) -> int | None:
        found = self._find(name)
        return len(found.shape.dim) if found is not None and found.HasField("shape") else None

    def dtype(self, name: Name) -> np.dtype | None:
        found = self._find(name)
        element = ONNX_ELEMENTS.get(found.elem_type) if found is not None else None
        return None if element is None else np.dtype(dtype_of(element))

    def _find(self, name: Name) -> TypeProto.Tensor | None:
        if self._types is None:
            self._types = {}
            collect_types(inferred(self._model).graph, self._types)
        return self._types.get(name) if isinstance(name, str) else None


def inferred(model: ModelProto) -> ModelProto:
    """The model with the types that onnx can infer; the model itself where onnx refuses it."""
    try:
        return shape_inference.infer_shapes(model)
    except (shape_inference.InferenceError, RuntimeError, ValueError, TypeError, DecodeError, EncodeError):
        return model


def _info(tensor: TensorProto) -> ValueInfoProto:
    return helper.make_tensor_value_info(tensor.name, tensor.data_type, list(tensor.dims))


def collect_types(graph: GraphProto, types: dict[str, TypeProto.Tensor | None]) -> None:
    """Add the tensors of `graph` and its sub-graphs; a name with two meanings is worth nothing."""
    infos = [*graph.input, *graph.value_info, *graph.output]
    stated = {info.name for info in infos}
    infos += [_info(tensor) for tensor in graph.initializer if tensor.name not in stated]
    for info in infos:
        if info.type.HasField("tensor_type"):
            known = types.setdefault(info.name, info.type.tensor_type)
            if known is not None and known != info.type.tensor_type:
                types[info.name] = None
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                collect_types(attribute.g, types)
