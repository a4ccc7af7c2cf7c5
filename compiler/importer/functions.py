"""This file unfolds operators that ONNX defines by other operators, where the compiler has no lowering of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from onnx import GraphProto, ModelProto, NodeProto, TypeProto, ValueInfoProto, defs, inliner

from onnxc.dialects.signatures import short_name
from onnxc.importer.call_names import named_by_calls, node_lists
from onnxc.importer.inference import collect_types, inferred
from onnxc.importer.upgrade import opset_versions, schema_at

_ROUNDS = 8  # bodies hold further functions, and their types are known only after another inference


def unfold_schema_functions(model: ModelProto, has_lowering: Callable[[str], bool]) -> ModelProto:
    """`model` with the bodies of such operators in their place; those whose body depends on unknown types stay.

    A body's nodes are named CALL/NODE, as those of model-local functions are.
    """
    wanted = _wanted(model, has_lowering)
    if not wanted:
        return model
    if model.functions:
        copy = ModelProto()
        copy.CopyFrom(model)
        local = {(f.domain, f.name) for f in model.functions}
        model = named_by_calls(copy, local, inliner.inline_local_functions)
    left = -1
    for _ in range(_ROUNDS):
        wanted = _wanted(model, has_lowering)
        count = _count(model.graph, wanted)
        if not count or count == left:
            break
        left = count
        typed = ModelProto()
        typed.CopyFrom(inferred(model))
        _spell_defaults(typed.graph, wanted, opset_versions(model.opset_import))
        declared = len(typed.graph.value_info)
        _declare_all(typed.graph)
        try:
            model = named_by_calls(typed, wanted, partial(_unfolded, wanted=sorted(wanted)))
        except RuntimeError:  # the inliner asks for the types of absent operands, too: what is left is refused by name
            break
        del model.graph.value_info[declared:]
    return model


def _unfolded(model: ModelProto, wanted: list[tuple[str, str]]) -> ModelProto:
    """Functions of other opsets than the model's, which the inliner refuses, stay as they are."""
    functions = list(model.functions)
    del model.functions[:]
    found = inliner.inline_selected_functions(model, wanted, exclude=False, inline_schema_functions=True)
    found.functions.extend(functions)
    return found


def _spell_defaults(graph: GraphProto, wanted: set[tuple[str, str]], opsets: dict[str, int]) -> None:
    """Give the nodes to unfold the attributes that they leave to their defaults: the inliner does not know those."""
    for node in _nodes(graph):
        if (node.domain, node.op_type) in wanted:
            plain = "" if node.domain == "ai.onnx" else node.domain
            schema = schema_at(plain, node.op_type, opsets[plain])
            present = {attribute.name for attribute in node.attribute}
            defaults = () if schema is None else schema.attributes.values()
            node.attribute.extend(a.default_value for a in defaults if a.name not in present and a.default_value.type)


def _declare_all(graph: GraphProto) -> None:
    """Declare the types of all values in the outermost graph, where bodies that depend on types look for them.

    The inliner knows neither those of initialisers nor those of nested graphs.
    """
    types: dict[str, TypeProto.Tensor | None] = {}
    collect_types(graph, types)
    declared = {info.name for info in (*graph.input, *graph.value_info, *graph.output)}
    graph.value_info.extend(
        ValueInfoProto(name=name, type=TypeProto(tensor_type=found))
        for name, found in types.items()
        if found is not None and name not in declared
    )


def _wanted(model: ModelProto, has_lowering: Callable[[str], bool]) -> set[tuple[str, str]]:
    opsets = opset_versions(model.opset_import)
    used = {(node.domain, node.op_type) for node in _nodes(model.graph)}
    for function in model.functions:
        used.update((node.domain, node.op_type) for node in function.node)
    wanted = set()
    for domain, op_type in used:
        plain = "" if domain == "ai.onnx" else domain
        name = short_name(plain, op_type)
        if name is None or has_lowering(name) or plain not in opsets:
            continue
        schema = schema_at(plain, op_type, opsets[plain])
        if schema is not None and has_body(schema):
            wanted.add((domain, op_type))
    return wanted


def has_body(schema: defs.OpSchema) -> bool:
    """Whether ONNX defines the operator by others."""
    return bool(schema.function_opset_versions or schema.context_dependent_function_opset_versions)


def _nodes(graph: GraphProto) -> Iterator[NodeProto]:
    """The nodes of a graph and of the graphs in it."""
    return (node for nodes in node_lists(graph) for node in nodes)


def _count(graph: GraphProto, wanted: set[tuple[str, str]]) -> int:
    return sum((node.domain, node.op_type) in wanted for node in _nodes(graph))
