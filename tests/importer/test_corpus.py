"""Models of other people: every node arrives, and with no more work than importing may take."""

from __future__ import annotations

import sys
from pathlib import Path
from types import FrameType

import pytest
from mlir import ir
from onnx import GraphProto, ModelProto

from onnxc.dialects.errors import Refusals
from onnxc.dialects.verifier import verify, verify_round_trip
from onnxc.importer import import_model
from onnxc.passes.contract import Program


def count(graph: GraphProto) -> int:
    """Nodes but constants, sub-graphs included."""
    inner = sum(count(a.g) for node in graph.node for a in node.attribute if a.HasField("g"))
    return inner + sum(node.op_type != "Constant" for node in graph.node)


def elements(graph: GraphProto) -> int:
    """Of attributes that are lists; trees have long ones."""
    attributes = [a for node in graph.node for a in node.attribute]
    return sum(len(a.ints) + len(a.floats) + len(a.strings) + elements(a.g) for a in attributes)


def imported(path: Path) -> tuple[Program, int]:
    """What importing gives, and how many calls of Python functions that took."""
    calls, before = 0, sys.getprofile()

    def note(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(note)
    try:
        return import_model(path), calls
    finally:
        sys.setprofile(before)


def operations(module: ir.Module) -> list[str]:
    found: list[str] = []

    def visit(op: ir.Operation) -> ir.WalkResult:
        if op.name.startswith("onnx.") and op.name not in ("onnx.Constant", "onnx.None", "onnx.Yield"):
            found.append(op.name)
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return found


def test_every_model(corpus: Path) -> None:
    """Nodes are as many as in the file, or more where an upgrade needs further ones."""
    paths = sorted((corpus / "models").glob("*.onnx"))
    assert paths
    for path in paths:
        if path.name == "superres__ppp.onnx":
            continue
        model = ModelProto.FromString(path.read_bytes())
        program, calls = imported(path)
        names, nodes = operations(program.module), count(model.graph)
        assert nodes <= len(names) <= nodes + 4 * sum(n.op_type == "Softmax" for n in model.graph.node), path.name
        # 40 to 110 a node, which take 50 to 100 µs; the rest is the context
        assert calls < 1000 + 150 * nodes + 2 * elements(model.graph), f"{path.name}: {calls} calls for {nodes} nodes"
        with program.context:
            verify(program.module)
            verify_round_trip(program.module)


def test_a_domain_that_nobody_else_knows(corpus: Path) -> None:
    path = corpus / "models" / "superres__ppp.onnx"
    if not path.exists():
        pytest.skip("superres__ppp.onnx is not there")
    with pytest.raises(Refusals, match="com.microsoft.extensions::DecodeImage") as caught:
        import_model(path)
    assert caught.value.exit_code == 1 and str(path) in str(caught.value)
