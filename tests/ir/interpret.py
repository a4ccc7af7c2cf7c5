"""This file evaluates graph-level IR, op by op, so that a pass can be checked by running the IR before and after it.

Each onnx op runs as a one-node model in onnxruntime (onnx's ReferenceEvaluator where that refuses); regions are
interpreted here. Internal `kernel` ops are spelt out with the onnx ops they stand for, in `channels_last_reference`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx
import onnxruntime
from mlir import ir
from onnx import helper
from onnx.reference import ReferenceEvaluator

from onnxc.dialects import dims
from onnxc.dialects.onnx import OnnxOp, python_value
from onnxc.dialects.shapes.requirements import Requirement
from onnxc.dialects.signatures import signature
from onnxc.dialects.types import Tensor, attribute_dims
from onnxc.dialects.weights import WeightStore, constant_array, dtype_of
from onnxc.passes.shape_requirements import read as requirement

from . import channels_last_reference

DOMAINS = {"ml": "ai.onnx.ml", "microsoft": "com.microsoft"}
SCALAR_OPERANDS = {("onnx.Range", 0), ("onnx.Range", 1), ("onnx.Range", 2), ("onnx.Trilu", 1), ("onnx.CumSum", 1)}


def interpret(
    module: ir.Module, weights: WeightStore, inputs: Sequence[np.ndarray], function: str = "main"
) -> list[np.ndarray]:
    """The results of a function of the module for these inputs."""
    with module.context:
        for view in module.body.operations:
            op = view.operation
            if op.name == "func.func" and op.attributes["sym_name"].value == function:
                return _Frame(weights, {}, {}).block(op.regions[0].blocks[0], inputs)
    raise KeyError(function)


class _Frame:
    """Values and symbols visible in a block; a nested block gets copies, so what it binds ends with it."""

    def __init__(
        self, weights: WeightStore, values: dict[ir.Value, np.ndarray | None], symbols: dict[str, int]
    ) -> None:
        self.weights, self.values, self.symbols = weights, values, symbols

    def block(self, block: ir.Block, inputs: Sequence[np.ndarray | None]) -> list[np.ndarray]:
        for argument, array in zip(block.arguments, inputs, strict=True):
            self.define(argument, array)
        for view in block.operations:
            op = view.operation
            if op.name in ("func.return", "onnx.Yield"):
                return [self.values[value] for value in op.operands]
            results = self.run(op)
            for result, array in zip(op.results, results, strict=True):
                self.define(result, array, op)
        raise ValueError("a block without terminator")

    def inner(self, op: ir.Operation, region: int, inputs: Sequence[np.ndarray | None] = ()) -> list[np.ndarray]:
        return _Frame(self.weights, dict(self.values), dict(self.symbols)).block(op.regions[region].blocks[0], inputs)

    def define(self, value: ir.Value, array: np.ndarray | None, op: ir.Operation | None = None) -> None:
        """Stores the value, after a check of what its type promises; a symbol alone in a dim is bound here first."""
        self.values[value] = array
        if array is None or not str(value.type).startswith("tensor<"):
            return
        tensor = Tensor.of(value.type)
        if tensor.elem == "!onnx.any":
            return
        where = f"{op.name} at {op.location}" if op is not None else "argument"
        assert array.dtype == dtype_of(tensor.elem), f"{where}: {array.dtype}, type {tensor}"
        if tensor.shape is None:
            return
        assert array.ndim == len(tensor.shape), f"{where}: shape {array.shape}, type {tensor}"
        for dim, size in zip(tensor.shape, array.shape, strict=True):
            if not isinstance(dim, int) and str(dim) in dims.symbols(dim):
                self.symbols.setdefault(str(dim), size)
        for dim, size in zip(tensor.shape, array.shape, strict=True):
            assert dims.evaluate(dim, self.symbols) == size, (
                f"{where}: shape {array.shape}, type {tensor}, {self.symbols}"
            )

    def run(self, op: ir.Operation) -> list[np.ndarray | None]:
        match op.name:
            case "onnx.None":
                return [None]
            case "onnx.Constant":
                return [constant_array(op, self.weights)]
            case "onnx.If":
                return self.inner(op, 0 if self.values[op.operands[0]].item() else 1)
            case "onnx.Loop":
                return self.loop(op)
            case "onnx.Scan":
                return self.scan(op)
            case "kernel.bind_dims":
                elements = self.values[op.operands[0]].reshape(-1)
                for name, value in zip(op.attributes["symbols"], elements, strict=True):
                    self.symbols[ir.StringAttr(name).value] = int(value)
                return []
            case "kernel.require":
                wanted = requirement(op)
                a, b = (dims.evaluate(dim, self.symbols) for dim in (wanted.a, wanted.b))
                assert Requirement(wanted.kind, a, b, wanted.what).holds(), f"{op.location}: {wanted}"
                return []
            case "kernel.nms":
                operands = [self.values[value] for value in op.operands]
                (rows,) = run_node("onnx.NonMaxSuppression", attributes(op), operands)
                most = dims.evaluate(Tensor.of(op.results[0].type).dims[0], self.symbols)
                buffer = np.zeros((most, 3), np.int64)
                buffer[: len(rows)] = rows
                places = -(-operands[1].shape[2] // 16) * 16
                return [buffer, np.array([len(rows)]), np.zeros(places, np.int64), np.zeros((6, places), np.float32)]
            case "kernel.attention":
                attrs = attributes(op)
                heads = {"q_num_heads": attrs["heads"], "kv_num_heads": attrs["kv_heads"]}
                operands = [self.values[value] for value in op.operands]
                given = {"scale": attrs["scale"], **(heads if operands[0].ndim == 3 else {})}
                return run_node("onnx.Attention", given, operands)
            case "kernel.nonzero_count":
                return [np.array([np.count_nonzero(self.values[op.operands[0]])])]
        operands = [self.values[value] for value in op.operands]
        if "operand_values" in op.attributes:
            for key, array in self.recorded(op).items():
                operands += [None] * (key + 1 - len(operands))
                if op.name == "onnx.Resize" and key == 3 and operands[2] is not None:
                    continue  # the sizes only say what the scales give
                operands[key] = array if (op.name, key) not in SCALAR_OPERANDS else array.reshape(())
        if op.name.startswith("kernel."):
            return channels_last_reference.run(op.name, attributes(op), operands, run_node)
        return run_node(op.name, attributes(op), operands, len(op.results))

    def recorded(self, op: ir.Operation) -> dict[int, np.ndarray]:
        """The operands that inference replaced by what it knew of their elements."""
        table = op.attributes["operand_values"]
        return {
            int(entry.name): np.array([dims.evaluate(d, self.symbols) for d in attribute_dims(entry.attr)], np.int64)
            for entry in (table[position] for position in range(len(table)))
        }

    def loop(self, op: ir.Operation) -> list[np.ndarray]:
        trips, condition, *carried = [self.values[value] for value in op.operands]
        scans: list[list[np.ndarray]] = []
        trip, go = 0, condition is None or bool(condition.item())
        while go and (trips is None or trip < trips.item()):
            again, *rest = self.inner(op, 0, [np.array(trip), np.array(go), *carried])
            carried, scan = rest[: len(carried)], rest[len(carried) :]
            scans.append(scan)
            go, trip = bool(again.item()), trip + 1
        stacked = [np.stack(column) for column in zip(*scans, strict=True)]
        if not scans:
            types = [Tensor.of(result.type) for result in list(op.results)[len(carried) :]]
            stacked = [
                np.zeros([0, *(d if isinstance(d, int) else 0 for d in t.shape[1:])], dtype_of(t.elem)) for t in types
            ]
        return [*carried, *stacked]

    def scan(self, op: ir.Operation) -> list[np.ndarray]:
        view = OnnxOp(op)
        values = [self.values[value] for value in op.operands]
        count = view.attr("num_scan_inputs")
        states, inputs = values[: len(values) - count], values[len(values) - count :]
        axes = view.attr("scan_input_axes", [0] * count)
        backward = view.attr("scan_input_directions", [0] * count)
        length = inputs[0].shape[axes[0]]
        rows: list[list[np.ndarray]] = []
        for step in range(length):
            slices = [
                np.take(a, length - 1 - step if back else step, axis)
                for a, axis, back in zip(inputs, axes, backward, strict=True)
            ]
            results = self.inner(op, 0, [*states, *slices])
            states = results[: len(states)]
            rows.append(results[len(states) :])
        columns = list(zip(*rows, strict=True))
        to = view.attr("scan_output_axes", [0] * len(columns))
        reverse = view.attr("scan_output_directions", [0] * len(columns))
        stacked = [
            np.stack(column[::-1] if back else column, axis)
            for column, axis, back in zip(columns, to, reverse, strict=True)
        ]
        return [*states, *stacked]


def attributes(op: ir.Operation) -> dict[str, object]:
    """The ONNX attributes of an op as Python values."""
    found: dict[str, object] = {}
    for name in op.attributes:
        attribute = op.attributes[name]
        if isinstance(attribute, ir.DictAttr):
            continue  # notes of passes
        value = python_value(attribute)
        found[name] = onnx.numpy_helper.from_array(value) if isinstance(value, np.ndarray) else value
    return found


_SESSIONS: dict[object, object] = {}


def run_node(
    name: str, attrs: dict[str, object], operands: Sequence[np.ndarray | None], results: int = 1
) -> list[np.ndarray]:
    """One onnx op (`onnx.Relu`, `onnx.ml.Scaler`) on arrays."""
    key = (
        name,
        repr(sorted(attrs.items())),
        tuple(None if a is None else (a.dtype.str, a.dtype.name, a.ndim) for a in operands),
        results,
    )
    feeds = {f"i{i}": a for i, a in enumerate(operands) if a is not None}
    session = _SESSIONS.get(key)
    if session is None:
        session = _SESSIONS[key] = _session(name, attrs, operands, results)
    return session.run(None, feeds)


def _session(name: str, attrs: dict[str, object], operands: Sequence[np.ndarray | None], results: int) -> object:
    domain, _, kind = name.removeprefix("onnx.").rpartition(".")
    domain = DOMAINS.get(domain, domain)
    outputs = [f"o{i}" for i in range(results)]
    node = helper.make_node(
        kind, [f"i{i}" if a is not None else "" for i, a in enumerate(operands)], outputs, domain=domain, **attrs
    )
    inputs = [
        helper.make_tensor_value_info(f"i{i}", helper.np_dtype_to_tensor_dtype(a.dtype), [None] * a.ndim)
        for i, a in enumerate(operands)
        if a is not None
    ]
    graph = helper.make_graph([node], "one", inputs, [onnx.ValueInfoProto(name=o) for o in outputs])
    version = signature(name.removeprefix("onnx.")).since
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    for opset in sorted({version, version if domain else min(version, 23)}, reverse=True):
        opsets = [helper.make_opsetid(domain, opset)] + ([helper.make_opsetid("", 21)] if domain else [])
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        try:
            return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        except Exception:  # no kernel for this version or these types; its error classes derive from Exception alone
            continue
    return ReferenceEvaluator(model)
