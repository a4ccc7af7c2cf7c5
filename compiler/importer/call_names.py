"""This file names the nodes of unfolded functions by the calls in whose place they stand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, MutableSequence

from onnx import FunctionProto, GraphProto, ModelProto, NodeProto, helper

from onnxc.importer.upgrade import opset_versions

_MARK = "onnxc.call"  # the overload of nodes that stand around a call, and the key of a name in metadata
_ANY = helper.make_attribute("value_int", 0)


def named_by_calls(
    model: ModelProto, calls: set[tuple[str, str]], unfold: Callable[[ModelProto], ModelProto]
) -> ModelProto:
    """`unfold(model)`, in which the nodes that took the place of `calls` (domain, operator) are named CALL/NODE.

    onnx's inliner tells nothing of where nodes come from, but leaves order and metadata alone: nodes of no effect stand
    around each call meanwhile, and every node's name stands in its metadata, since those of functions are changed.
    `model` is changed.
    """
    for nodes in (n for body in _bodies(model) for n in node_lists(body)):
        _mark(nodes, calls)
    found = unfold(model)
    for nodes in (n for body in (found.graph, *found.functions) for n in node_lists(body)):
        _take_names(nodes)
    return found


def _bodies(model: ModelProto) -> list[GraphProto | FunctionProto]:
    """The graph, and the functions in which a mark is known."""
    return [model.graph, *(f for f in model.functions if "" in opset_versions(f.opset_import))]


def node_lists(graph: GraphProto | FunctionProto) -> Iterator[MutableSequence[NodeProto]]:
    """The nodes of a graph and of the graphs in it."""
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from node_lists(attribute.g)
    yield graph.node


def _mark(nodes: MutableSequence[NodeProto], calls: set[tuple[str, str]]) -> None:
    """Notes every node's name where the inliner, which gives others in functions, leaves it, and where calls stand."""
    marked = []
    for index, node in enumerate(nodes):
        _taken(node)
        node.metadata_props.add(key=_MARK, value=node.name or f"{node.op_type}_{index}")
        call = (node.domain, node.op_type) in calls
        marked += [_mark_of(node, "begin"), node, _mark_of(node, "end")] if call else [node]
    _replace(nodes, marked)


def _taken(node: NodeProto) -> str | None:
    """The name that was noted of a node."""
    notes = [entry for entry in node.metadata_props if entry.key == _MARK]
    for entry in notes:
        node.metadata_props.remove(entry)
    return notes[0].value if notes else None


def _mark_of(call: NodeProto, side: str) -> NodeProto:
    """A node that the inliner takes for granted."""
    output = f"{_MARK} {side} {next(filter(None, call.output), '')}"
    mark = NodeProto(op_type="Constant", overload=_MARK, output=[output], attribute=[_ANY])
    if side == "begin":
        mark.metadata_props.extend(call.metadata_props)
    return mark


def _take_names(nodes: MutableSequence[NodeProto]) -> None:
    calls, kept = [], []  # names of the calls that stood here, and how many nodes stand before what they became
    for node in nodes:
        own = _taken(node)
        if node.overload == _MARK:
            if own is None and calls:
                calls.pop()
            elif own is not None:
                calls.append((f"{calls[-1][0]}/{own}" if calls else own, len(kept)))
            continue
        if calls:
            call, first = calls[-1]
            unfolded = own is None or not f"/{call}".endswith(f"/{own}")
            node.name = f"{call}/{own or f'{node.op_type}_{len(kept) - first}'}" if unfolded else call
        elif own is not None:  # else of a graph inside an unfolded body, whose node is named by the call
            node.name = own
        kept.append(node)
    _replace(nodes, kept)


def _replace(nodes: MutableSequence[NodeProto], others: list[NodeProto]) -> None:
    if len(others) != len(nodes):
        copies = [NodeProto.FromString(node.SerializeToString()) for node in others]  # the originals go with `nodes`
        del nodes[:]
        nodes.extend(copies)
