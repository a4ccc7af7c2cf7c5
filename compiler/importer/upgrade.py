"""This file brings nodes of any operator version to the one version inside (opset 28), a step at a time.

A step is a small function registered for (operator, version it takes): it rewrites the node in place, or returns the
nodes that stand for it. Versions without a step differ only in types or defaults that change nothing: a test compares
the schemas. Steps live in `steps_*.py`; each says which rule of ONNX changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache

import numpy as np
from onnx import OperatorSetIdProto, defs

from onnxc.dialects.errors import OnnxcError
from onnxc.dialects.signatures import OPSET
from onnxc.importer.nodes import Name, Node


class Surroundings:
    """What a step may ask and make: constants, fresh names, ranks and values known without inference of our own."""

    def constant(self, array: np.ndarray) -> Name:
        """The name of a new constant."""
        raise NotImplementedError

    def fresh(self) -> Name:
        """A name that no value has."""
        raise NotImplementedError

    def rank(self, name: Name) -> int | None:
        """The rank of a value of this graph, if it can be told."""
        raise NotImplementedError

    def dtype(self, name: Name) -> np.dtype | None:
        """The element type of a value of this graph, if it can be told."""
        raise NotImplementedError

    def array(self, name: Name) -> np.ndarray | None:
        """The value of a constant; None for anything else."""
        raise NotImplementedError


Step = Callable[[Node, Surroundings], "list[Node] | None"]
STEPS: dict[tuple[str, str, int], Step] = {}
"""(domain, operator, version) -> the step to the operator's next version."""


def upgrades(*ops: str, since: int, domain: str = "") -> Callable[[Step], Step]:
    """Register a step for operators as they were at version `since`."""

    def register(step: Step) -> Step:
        for op in ops:
            STEPS[domain, op, since] = step
        return step

    return register


def made(op_type: str, inputs: list[Name], outputs: list[Name], attrs: dict | None = None, *, like: Node) -> Node:
    """A node of the newest version that a step adds for node `like`."""
    return Node(op_type, "", OPSET, inputs, outputs, attrs or {}, like.name)


def opset_versions(imports: Iterable[OperatorSetIdProto]) -> dict[str, int]:
    """domain -> version; "ai.onnx" is another name of ""."""
    return {"" if i.domain == "ai.onnx" else i.domain: i.version for i in imports}


@cache
def versions(domain: str, op_type: str) -> tuple[int, ...]:
    """The versions of an operator, oldest first."""
    return _histories().get((domain, op_type), ())


@cache
def _histories() -> dict[tuple[str, str], tuple[int, ...]]:
    found: dict[tuple[str, str], list[int]] = {}
    for schema in defs.get_all_schemas_with_history():
        found.setdefault((schema.domain, schema.name), []).append(schema.since_version)
    return {key: tuple(sorted(numbers)) for key, numbers in found.items()}


@cache
def since_version(domain: str, op_type: str, opset: int) -> int | None:
    """The version of an operator that `opset` means; None if it had none yet."""
    return max((v for v in versions(domain, op_type) if v <= opset), default=None)


def schema_at(domain: str, op_type: str, opset: int) -> defs.OpSchema | None:
    """The schema of an operator that `opset` means."""
    version = since_version(domain, op_type, opset)
    return None if version is None else defs.get_schema(op_type, version, domain)


@cache
def needs_steps(domain: str, op_type: str, version: int) -> bool:
    """Whether any step lies between `version` and today."""
    return any(v >= version and (domain, op_type, v) in STEPS for v in versions(domain, op_type))


def upgrade(node: Node, around: Surroundings) -> Iterator[Node]:
    """The nodes of today's version that mean what `node` means. Raises OnnxcError where a step refuses."""
    work = [node]
    while work:
        current = work.pop()
        key = (current.domain, current.op_type, current.version)
        if not needs_steps(*key):
            yield current
            continue
        step = STEPS.get(key)
        following = next((v for v in versions(current.domain, current.op_type) if v > current.version), OPSET)
        try:
            result = step(current, around) if step else None
        except (KeyError, IndexError, TypeError, ValueError) as error:
            raise current.malformed(f"its attributes or inputs are not those of {current.op_type}") from error
        if result is None:
            current.version = following
            work.append(current)
        else:
            work.extend(reversed(result))


def rank_of(node: Node, name: Name, around: Surroundings) -> int:
    """The rank of `name`, which the old rule of `node` depends on."""
    rank = around.rank(name)
    if rank is None:
        raise OnnxcError(
            f"the rank of input '{name}' is not known", node=node.name, op=node.op_type,
            why=f"version {node.version} of the operator depends on it", hint="convert the model to a newer opset",
        )  # fmt: skip
    return rank
