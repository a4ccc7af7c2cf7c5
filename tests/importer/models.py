"""Small models for the importer's tests, and their values: as onnxruntime gives them, and as the imported IR does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnxruntime
import pytest
from mlir import ir
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper, numpy_helper

from onnxc.dialects.errors import OnnxcError
from onnxc.importer import import_model
from onnxc.passes.contract import Options, Program

from ..ir.interpret import interpret

FLOAT, INT64, BOOL = TensorProto.FLOAT, TensorProto.INT64, TensorProto.BOOL
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def info(name: str, shape: Sequence[int | str | None] | None, kind: int = FLOAT):
    return helper.make_tensor_value_info(name, kind, shape)


def graph(
    nodes: list[NodeProto],
    inputs: dict[str, Sequence[int | str | None]],
    outputs: Sequence[str] = ("y",),
    constants: dict[str, np.ndarray] | None = None,
    kinds: dict[str, int] | None = None,
) -> GraphProto:
    kinds = kinds or {}
    return helper.make_graph(
        nodes,
        "g",
        [info(name, shape, kinds.get(name, FLOAT)) for name, shape in inputs.items()],
        [info(name, None, kinds[name]) if name in kinds else ValueInfoProto(name=name) for name in outputs],
        [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()],
    )


def model(graph_: GraphProto, opset: int = 17, ir_version: int = 8, functions=(), **domains: int) -> ModelProto:
    """A model; further domains with _ for the dots: `ai_onnx_ml=3`."""
    opsets = [helper.make_opsetid("", opset)]
    opsets += [helper.make_opsetid(name.replace("_", "."), version) for name, version in domains.items()]
    return helper.make_model(graph_, opset_imports=opsets, ir_version=ir_version, functions=functions)


def imported(model_: ModelProto | bytes | str, has_lowering=None, **dims: int) -> Program:
    return import_model(model_, Options(dims=dims), has_lowering=has_lowering)


def names(program: Program) -> list[str]:
    """The names of main's operations, in order."""
    return [op.operation.name for op in program.module.body.operations[0].regions[0].blocks[0].operations]


def run(program: Program, *inputs: np.ndarray) -> list[np.ndarray]:
    with program.context, ir.Location.unknown():
        return interpret(program.module, program.weights, inputs)


def run_reference(model_: ModelProto, feeds: dict[str, np.ndarray]) -> list[np.ndarray]:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(model_.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def agree(model_: ModelProto, *inputs: np.ndarray, tolerance: float = 1e-5) -> Program:
    """Check that the imported model gives what onnxruntime gives for the model itself."""
    constants = {t.name for t in model_.graph.initializer}
    feeds = dict(zip([i.name for i in model_.graph.input if i.name not in constants], inputs, strict=True))
    program = imported(model_)
    for got, want in zip(run(program, *inputs), run_reference(model_, feeds), strict=True):
        assert got.dtype == want.dtype and got.shape == want.shape
        np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
    return program


def node(op: str, inputs: str, outputs: str = "y", **attrs):
    return helper.make_node(op, inputs.split(), outputs.split(), **attrs)


def main(program) -> ir.Operation:
    return program.module.body.operations[0].operation


def refused(model_: ModelProto, match: str, code: int = 2, **dims: int) -> OnnxcError:
    with pytest.raises(OnnxcError, match=match) as caught:
        imported(model_, **dims)
    assert caught.value.exit_code == code
    return caught.value
