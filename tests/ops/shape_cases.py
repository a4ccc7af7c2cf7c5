"""This file runs one-node and small models through shape inference and holds what it says against onnxruntime.

A model is inferred with fixed sizes, with one symbol for each size, and with a symbol for each axis. The inferred
module is then interpreted: the interpreter checks the type of every value, with the symbols' real values.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from onnxc.importer import import_model
from onnxc.passes.contract import Program
from onnxc.passes.infer_shapes import check_shapes, infer_shapes

from ..ir.interpret import interpret

OPSET = 21  # the newest that every onnxruntime of the tests knows

rng = np.random.default_rng(7)


@dataclass(frozen=True)
class K:
    """An operand that is a constant of the model."""

    array: np.ndarray


def f(*shape: int) -> np.ndarray:
    """Random floats of that shape."""
    return rng.standard_normal(shape).astype(np.float32)


def i(*values: int) -> np.ndarray:
    """A vector of integers."""
    return np.array(values, np.int64)


def node(
    op: str, operands: Sequence[np.ndarray | K | None], *, results: int = 1, domain: str = "", **attrs: object
) -> onnx.ModelProto:
    """A model of one node; operands that are arrays become inputs `i0`, `i1` …"""
    names, inputs, constants = [], {}, {}
    for index, operand in enumerate(operands):
        name = "" if operand is None else f"{'k' if isinstance(operand, K) else 'i'}{index}"
        names.append(name)
        if isinstance(operand, K):
            constants[name] = operand.array
        elif operand is not None:
            inputs[name] = operand
    outputs = [f"o{index}" for index in range(results)]
    made = helper.make_node(op, names, outputs, name=op.lower(), domain=domain, **attrs)
    return model([made], inputs, outputs, constants, domain)


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, np.ndarray],
    outputs: Sequence[str],
    constants: Mapping[str, np.ndarray] | None = None,
    domain: str = "",
) -> onnx.ModelProto:
    """A model; the arrays of `inputs` give the types."""
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape)
        for name, array in inputs.items()
    ]
    results = [onnx.ValueInfoProto(name=name) for name in outputs]
    tensors = [numpy_helper.from_array(array, name) for name, array in (constants or {}).items()]
    graph = helper.make_graph(nodes, "g", infos, results, tensors)
    opsets = [helper.make_opsetid("", OPSET)]
    if domain:
        opsets.append(helper.make_opsetid(domain, {"ai.onnx.ml": 3}.get(domain, 1)))
    return helper.make_model(graph, opset_imports=opsets, ir_version=10)


def named(proto: onnx.ModelProto, name: str, fixed: Container[str] = ()) -> onnx.ModelProto:
    """The model with symbols for the sizes of its inputs but `fixed`: `name` may hold {size}, {input} and {axis}."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    for info in copy.graph.input:
        if info.name in fixed:
            continue
        for axis, dim in enumerate(info.type.tensor_type.shape.dim):
            dim.dim_param = name.format(size=dim.dim_value, input=info.name, axis=axis)
    return copy


def inferred(proto: onnx.ModelProto) -> Program:
    """The model's module after inference, which must be idempotent and leave no rank unknown."""
    program = import_model(proto)
    infer_shapes(program)
    text = str(program.module)
    infer_shapes(program)
    again = str(program.module)
    assert again == text, f"inferred again:\n{again}"
    check_shapes(program)
    return program


def feeds_of(proto: onnx.ModelProto, feeds: Mapping[str, np.ndarray] | None = None) -> dict[str, np.ndarray]:
    """Random inputs of the types that the model gives, but for those that are given."""
    made = dict(feeds or {})
    for info in proto.graph.input:
        if info.name not in made:
            shape = [dim.dim_value for dim in info.type.tensor_type.shape.dim]
            dtype = helper.tensor_dtype_to_np_dtype(info.type.tensor_type.elem_type)
            values = rng.integers(0, 2, shape) if dtype.kind in "biu" else rng.standard_normal(shape)
            made[info.name] = np.asarray(values).astype(dtype)
    return made


def check(proto: onnx.ModelProto, feeds: Mapping[str, np.ndarray] | None = None) -> None:
    """Inference must agree with onnxruntime about shapes, element types and values in all three forms."""
    inputs = feeds_of(proto, feeds)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    wanted = session.run(None, inputs)
    fixed = feeds or {}
    for form in (proto, named(proto, "d{size}", fixed), named(proto, "{input}_{axis}", fixed)):
        program = inferred(form)
        found = interpret(program.module, program.weights, [inputs[info.name] for info in proto.graph.input])
        for a, b in zip(found, wanted, strict=True):
            assert a.shape == b.shape, program.module
            assert a.dtype == b.dtype
            if a.dtype.kind == "f":
                np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
