"""This file sorts the nodes of a graph that is not in topological order, as ONNX asks but not every exporter does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush

from onnx import GraphProto, NodeProto

from onnxc.dialects.errors import UNREADABLE, OnnxcError


def in_order(nodes: Sequence[NodeProto], known: Callable[[str], bool]) -> bool:
    """Whether every node reads only what is `known` or an earlier node makes."""
    made: set[str] = set()
    for node in nodes:
        for name in _reads(node):
            if name and name not in made and not known(name):
                return False
        made.update(node.output)
    return True


def sorted_nodes(nodes: Sequence[NodeProto], known: Callable[[str], bool]) -> list[NodeProto]:
    """The nodes so that producers come first, otherwise in their order.

    Raises OnnxcError that names a value which nothing makes, or a cycle.
    """
    maker = {name: i for i, node in enumerate(nodes) for name in node.output if name}
    waiting, users = [0] * len(nodes), [[] for _ in nodes]
    for i, node in enumerate(nodes):
        for name in sorted({n for n in _reads(node) if n}):
            if name in maker:
                waiting[i] += 1
                users[maker[name]].append(i)
            elif not known(name):
                raise undefined(node, i, name)
    ready: list[int] = [i for i, count in enumerate(waiting) if count == 0]
    order: list[NodeProto] = []
    while ready:
        done = heappop(ready)
        order.append(nodes[done])
        for user in users[done]:
            waiting[user] -= 1
            if waiting[user] == 0:
                heappush(ready, user)
    if len(order) < len(nodes):
        stuck = next(i for i, count in enumerate(waiting) if count)
        raise OnnxcError(
            "the graph has a cycle through this node", node=nodes[stuck].name or f"{nodes[stuck].op_type}_{stuck}",
            op=nodes[stuck].op_type, exit_code=UNREADABLE,
        )  # fmt: skip
    return order


def undefined(node: NodeProto, index: int, name: str) -> OnnxcError:
    """The error for a value that is read but never made."""
    return OnnxcError(
        f"input '{name}' is not defined by any node, input or initializer",
        node=node.name or f"{node.op_type}_{index}", op=node.op_type, exit_code=UNREADABLE,
    )  # fmt: skip


def _reads(node: NodeProto) -> list[str]:
    """What a node reads, its sub-graphs' captures included."""
    names = list(node.input)
    for attribute in node.attribute:
        if attribute.HasField("g"):
            names += _captures(attribute.g)
    return names


def _captures(graph: GraphProto) -> list[str]:
    own = {i.name for i in graph.input} | {t.name for t in graph.initializer}
    own |= {t.values.name for t in graph.sparse_initializer}
    own |= {name for node in graph.node for name in node.output}
    names = [name for node in graph.node for name in _reads(node)] + [o.name for o in graph.output]
    return [name for name in names if name and name not in own]
