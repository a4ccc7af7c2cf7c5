"""This file writes what sizes must satisfy at run time into the module, where it cannot be proved at compile time.

"kernel.require"() {kind = "==", dims = ["K", 512], what = "the axis that is summed over"} stands before the node that
needs it and has its location. Kinds are those of `Requirement`. A requirement that holds already is not written again
in the same or an inner block.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from mlir import ir

from onnxc.dialects.onnx import node_name
from onnxc.dialects.shapes.requirements import Requirement
from onnxc.dialects.types import attribute_dims, dims_attribute

NAME = "kernel.require"


class Requirements:
    """The requirements that hold at the present place of a walk."""

    def __init__(self) -> None:
        self._known: set[tuple] = set()

    @contextmanager
    def scope(self) -> Iterator[None]:
        """What is required inside does not hold behind it."""
        outer = self._known
        self._known = set(outer)
        try:
            yield
        finally:
            self._known = outer

    def visit(self, op: ir.Operation) -> None:
        """Takes note of a kernel.require; one that has become provable goes."""
        requirement = read(op)
        if requirement.holds() or _key(requirement) in self._known:
            op.erase()
        else:
            self._known.add(_key(requirement))

    def write(self, requirements: Iterable[Requirement], at: ir.InsertionPoint, location: ir.Location) -> None:
        """Inserts those that are new here."""
        for requirement in requirements:
            if _key(requirement) in self._known:
                continue
            self._known.add(_key(requirement))
            context = location.context
            attributes = {
                "kind": ir.StringAttr.get(requirement.kind, context),
                "dims": dims_attribute([requirement.a, requirement.b], context),
                "what": ir.StringAttr.get(requirement.what, context),
            }
            ir.Operation.create(NAME, attributes=attributes, loc=location, ip=at)


def read(op: ir.Operation) -> Requirement:
    """The requirement that a kernel.require states."""
    a, b = attribute_dims(op.attributes["dims"])
    kind, what = (ir.StringAttr(op.attributes[name]).value for name in ("kind", "what"))
    return Requirement(kind, a, b, what)


def _key(requirement: Requirement) -> tuple:
    a, b = requirement.a, requirement.b
    return requirement.kind, *((a, b) if requirement.kind in (">=", "size") else sorted((a, b), key=str))


def ruled_out_branches(module: ir.Module) -> list[str]:
    """What everybody should read of branches that cannot run: a line each."""
    found = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name == NAME and (requirement := read(op)).kind == "branch":
            found.append(f"node '{node_name(op.location)}': {requirement}")
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found
