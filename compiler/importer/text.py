"""This file checks that all names of a model are text: protobuf gives `bytes` for what is not UTF-8."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from onnx import GraphProto, ModelProto, NodeProto

from onnxc.dialects.errors import UNREADABLE, OnnxcError


def check_names(model: ModelProto) -> None:
    """Raise OnnxcError (exit code 2) where a name is not UTF-8."""
    _check(i.domain for i in model.opset_import)
    _check_graph(model.graph)
    for function in model.functions:
        _check((function.name, function.domain, function.overload, *function.input, *function.output))
        _check(i.domain for i in function.opset_import)
        _check(a.name for a in function.attribute_proto)
        _check_nodes(function.node)


def _check_graph(graph: GraphProto) -> None:
    _check(i.name for i in graph.input)
    _check(o.name for o in graph.output)
    _check(t.name for t in graph.initializer)
    _check(t.values.name for t in graph.sparse_initializer)
    _check(dim.dim_param for i in graph.input if i.type.HasField("tensor_type") for dim in i.type.tensor_type.shape.dim)
    _check_nodes(graph.node)


def _check_nodes(nodes: Sequence[NodeProto]) -> None:
    for node in nodes:
        _check((node.op_type, node.name, node.domain, node.overload, *node.input, *node.output))
        for attribute in node.attribute:
            _check((attribute.name, attribute.ref_attr_name))
            if attribute.HasField("g"):
                _check_graph(attribute.g)


def _check(names: Iterable[Any]) -> None:
    if bytes in set(map(type, names)):
        raise OnnxcError("a name in the model is not text", why="it is not UTF-8", exit_code=UNREADABLE)
