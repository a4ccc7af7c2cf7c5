"""Many nodes in one model, compiled and compared with onnxruntime: what all tests of operators stand on.

    batch = Batch()
    batch.add("Relu", [f32(3, 5)])
    batch.add("Clip", [Sym("N", 7, runs=[f32(4, 7), f32(0, 7)]), Const(low), None], label="…")
    batch.check()

Every node has inputs of its own, so nodes are compiled apart from each other; a model of many is built in one go.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

import onnxc

OPSET = 23
onnxruntime.set_default_logger_severity(4)


@dataclass
class Const:
    """An initialiser."""

    array: np.ndarray


@dataclass
class Sym:
    """An input whose dims are names or numbers; `runs` has an array for each run of the model."""

    dims: tuple[str | int | None, ...]
    runs: list[np.ndarray]


Operand = np.ndarray | Const | Sym | None


@dataclass
class Batch:
    """Nodes to be checked together. `tolerance` is relative, and absolute for elements below 1."""

    tolerance: float = 1e-5
    opset: int = OPSET
    nodes: list[onnx.NodeProto] = field(default_factory=list)
    inputs: list[onnx.ValueInfoProto] = field(default_factory=list)
    constants: list[onnx.TensorProto] = field(default_factory=list)
    outputs: list[onnx.ValueInfoProto] = field(default_factory=list)
    feeds: dict[str, list[np.ndarray]] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)

    def operand(self, name: str, operand: Operand, prefix: str) -> str:
        """Declares an operand and returns the name that a node reads it by. Dims' names get the prefix."""
        if operand is None:
            return ""
        if isinstance(operand, Const):
            self.constants.append(onnx.numpy_helper.from_array(operand.array, name))
            return name
        operand = operand if isinstance(operand, Sym) else Sym(np.shape(operand), [np.asarray(operand)])
        shape = [prefix + d if isinstance(d, str) else d for d in operand.dims]
        type_ = helper.np_dtype_to_tensor_dtype(operand.runs[0].dtype)
        self.inputs.append(helper.make_tensor_value_info(name, type_, shape))
        self.feeds[name] = operand.runs
        return name

    def add(
        self,
        op: str,
        operands: Sequence[Operand],
        *,
        outputs: int | Sequence[bool] = 1,
        label: str = "",
        domain: str = "",
        **attributes: object,
    ) -> None:
        """A node with inputs of its own; all its results are compared (`outputs`: which ones exist)."""
        at = len(self.nodes)
        names = [self.operand(f"n{at}_{i}", operand, f"n{at}_") for i, operand in enumerate(operands)]
        exist = [True] * outputs if isinstance(outputs, int) else outputs
        results = [f"n{at}_r{i}" if e else "" for i, e in enumerate(exist)]
        self.nodes.append(helper.make_node(op, names, results, name=f"{op}_{at}", domain=domain, **attributes))
        for result in filter(None, results):
            self.result(result, f"{label or op} {attributes or ''}")

    def chain(self, label: str, nodes: Sequence[onnx.NodeProto], results: Sequence[str], **operands: Operand) -> None:
        """Several nodes over named operands (names are the caller's: keep them apart by a prefix)."""
        for name, operand in operands.items():
            self.operand(name, operand, f"{len(self.nodes)}_")
        self.nodes += nodes
        for result in results:
            self.result(result, label)

    def result(self, name: str, label: str) -> None:
        self.outputs.append(onnx.ValueInfoProto(name=name))
        self.labels[name] = label

    def model(self) -> onnx.ModelProto:
        graph = helper.make_graph(self.nodes, "g", self.inputs, self.outputs, self.constants)
        opsets = [
            helper.make_opsetid("", self.opset),
            helper.make_opsetid("ai.onnx.ml", 4),
            helper.make_opsetid("com.microsoft", 1),
        ]
        model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        typed = {v.name: v for v in onnx.shape_inference.infer_shapes(model).graph.output}
        for output in graph.output:
            output.CopyFrom(typed[output.name])
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def check(self) -> None:
        """Compiles the model, runs it as often as its operands say, and compares every result."""
        model = self.model()
        runs = max([1, *(len(r) for r in self.feeds.values())])
        feeds = [{name: r[min(i, len(r) - 1)] for name, r in self.feeds.items()} for i in range(runs)]
        names = [o.name for o in model.graph.output]
        wrong = []
        for i, (ours, theirs) in enumerate(zip(run_compiled(model, feeds), run_reference(model, feeds), strict=True)):
            for name, got, want in zip(names, ours, theirs, strict=True):
                message = difference(got, want, self.tolerance)
                if message:
                    wrong.append(f"{name} {self.labels[name]}, run {i}: {message}")
        assert not wrong, "\n" + "\n".join(wrong)


def run_compiled(model: onnx.ModelProto, feeds: Sequence[dict], **options: object) -> list[list[np.ndarray]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ops.so"
        onnxc.compile(model, path, **{"mcpu": "native", **options})
        session = onnxc.InferenceSession(path)
        return [session.run(None, f) for f in feeds]


def run_reference(model: onnx.ModelProto, feeds: Sequence[dict]) -> list[list[np.ndarray]]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.intra_op_num_threads = 1
    exact = unsigned_weights(model).SerializeToString()
    session = onnxruntime.InferenceSession(exact, options, providers=["CPUExecutionProvider"])
    return [session.run(None, f) for f in feeds]


WEIGHTS = {"MatMulInteger": (1, 3), "ConvInteger": (1, 3), "QLinearMatMul": (3, 5), "QLinearConv": (3, 5)}


def unsigned_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """The same with int8 weights and their zero points, which WEIGHTS has the operands of, as uint8, 128 larger.

    onnxruntime saturates sums of two products of uint8 with int8 at 16 bits where the CPU has no VNNI.
    """
    made = onnx.ModelProto()
    made.CopyFrom(model)
    graph = made.graph
    types = {v.name: v.type.tensor_type.elem_type for v in graph.input} | {
        c.name: c.data_type for c in graph.initializer
    }
    more = [numpy_helper.from_array(np.array(128, t), f"{np.dtype(t)} 128") for t in (np.uint8, np.int16)]
    nodes: list[onnx.NodeProto] = []
    for node in graph.node:
        weights, zero = WEIGHTS.get(node.op_type, (0, 0))
        if weights and types[node.input[weights]] == onnx.TensorProto.INT8:
            node.input.extend([""] * (zero + 1 - len(node.input)))
            for i in (weights, zero):
                wide, moved, narrow = (f"{node.input[i]} of {node.name} {step}" for step in ("wide", "moved", "narrow"))
                if node.input[i]:
                    nodes += [
                        helper.make_node("Cast", [node.input[i]], [wide], to=onnx.TensorProto.INT16),
                        helper.make_node("Add", [wide, more[1].name], [moved]),
                        helper.make_node("Cast", [moved], [narrow], to=onnx.TensorProto.UINT8),
                    ]
                node.input[i] = narrow if node.input[i] else more[0].name
        nodes.append(node)
    rest = helper.make_graph(nodes, "unsigned", graph.input, graph.output, [*graph.initializer, *more])
    graph.CopyFrom(rest)
    return made


def difference(got: np.ndarray, want: np.ndarray, tolerance: float) -> str:
    """What is wrong with `got`; empty if nothing is."""
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"got {got.dtype}{list(got.shape)}, want {want.dtype}{list(want.shape)}"
    if want.size == 0:
        return ""
    if want.dtype.kind in "biuO" or want.dtype.kind == "S":
        bad = got != want
    else:
        g, w = got.astype(np.float64), want.astype(np.float64)
        with np.errstate(invalid="ignore"):
            near = np.abs(g - w) <= tolerance * np.maximum(1.0, np.abs(w))
        bad = ~(near | (g == w) | (np.isnan(g) & np.isnan(w)))
    if not bad.any():
        return ""
    at = tuple(int(i) for i in np.argwhere(bad)[0])
    return f"{int(bad.sum())} of {bad.size} differ, first at {list(at)}: got {got[at]!r}, want {want[at]!r}"


_random = np.random.default_rng(20240607)


def f32(*shape: int) -> np.ndarray:
    """Normally distributed numbers."""
    return _random.standard_normal(shape).astype(np.float32)


def ints(*shape: int, low: int = -9, high: int = 9, dtype: object = np.int64) -> np.ndarray:
    return _random.integers(low, high, shape).astype(dtype)


SPECIAL = np.array(
    [
        np.nan,
        np.inf,
        -np.inf,
        -0.0,
        0.0,
        1e-42,
        -1e-42,
        3.4e38,
        -3.4e38,
        1.0,
        -1.0,
        0.5,
        -0.5,
        1.5,
        -2.5,
        88.9,
        -104.0,
        7.0,
    ],
    np.float32,
)


def special(*shape: int) -> np.ndarray:
    """Numbers among which NaN, infinities, both zeros and denormals are."""
    values = f32(*shape)
    flat = values.reshape(-1)
    flat[: min(len(SPECIAL), flat.size)] = SPECIAL[: flat.size]
    return values
