"""This file builds IR from graphs: nodes become `onnx` operations, sub-graphs regions, function calls their bodies.

Types of results are left open (`tensor<*x!onnx.any>`); shape inference settles them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from mlir import ir
from onnx import FunctionProto, GraphProto, NodeProto, TypeProto

from onnxc.dialects.errors import UNREADABLE, OnnxcError
from onnxc.dialects.onnx import absent, attribute, region_names
from onnxc.dialects.signatures import PREFIX_OF_DOMAIN, Signature, short_name, signature
from onnxc.dialects.weights import WeightStore, build_constant, tensor_attribute
from onnxc.importer.checks import check_node
from onnxc.importer.constants import constant_of
from onnxc.importer.inference import Inference
from onnxc.importer.nodes import AttributeReader, Name, Node
from onnxc.importer.order import in_order, sorted_nodes
from onnxc.importer.scope import ABSENT, Constant, Scope, fresh_names
from onnxc.importer.signature_types import UNKNOWN, value_type
from onnxc.importer.tensors import TensorReader
from onnxc.importer.upgrade import Surroundings, needs_steps, opset_versions, since_version, upgrade, versions

MAX_NODES = 400_000
"""A model whose functions unfold into more nodes is refused (a small file can ask for any number)."""

_MAX_DEPTH = 64


class Builder(Surroundings):
    """Builds the operations of one model. Nodes that cannot be taken are collected in `refused`."""

    def __init__(
        self, context: ir.Context, tensors: TensorReader, weights: WeightStore, functions: Sequence[FunctionProto],
        inference: Inference,
    ) -> None:  # fmt: skip
        self.context = context
        self.tensors = tensors
        self.weights = weights
        self.refused: list[OnnxcError] = []
        self._attributes = AttributeReader(tensors)
        self._functions = {(f.domain, f.name, f.overload): f for f in functions}
        self._inference = inference
        self._unknown = ir.Type.parse(UNKNOWN, context)
        self._fresh = fresh_names()
        self._scope = Scope()
        self._opsets: Mapping[str, int] = {}
        self._given: dict[str, Any] | None = None
        self._prefix = ""
        self._depth = 0
        self._count = 0

    # -- what upgrade steps ask

    def constant(self, array: np.ndarray) -> Name:
        name = self.fresh()
        self._scope.meanings[name] = Constant(lambda: array, "constant")
        return name

    def fresh(self) -> Name:
        return next(self._fresh)

    def rank(self, name: Name) -> int | None:
        array = self.array(name)
        if array is not None:
            return array.ndim
        return self._inference.rank(name) if self._given is None else None

    def dtype(self, name: Name) -> np.dtype | None:
        array = self.array(name)
        if array is not None:
            return array.dtype
        return self._inference.dtype(name) if self._given is None else None

    def array(self, name: Name) -> np.ndarray | None:
        meaning = self._scope.find(name)
        return meaning.read() if isinstance(meaning, Constant) else None

    # -- graphs

    def add_graph(
        self, graph: GraphProto, opsets: Mapping[str, int], arguments: Mapping[str, ir.Value]
    ) -> list[ir.Value]:
        """Build a whole model's graph at the current insertion point; the values of its outputs."""
        self._opsets = opsets
        self._scope = Scope()
        self._scope.meanings.update(arguments)
        return self._body(graph)

    def _body(self, graph: GraphProto) -> list[ir.Value]:
        """The nodes of `graph`, in the current scope; the values of its outputs."""
        self._add_initializers(graph)
        self._add_nodes(graph.node)
        results = []
        for output in graph.output:
            if output.name not in self._scope:
                raise OnnxcError(f"output '{output.name}' of the graph is not defined", exit_code=UNREADABLE)
            results.append(self._value(output.name))
        return results

    def _add_initializers(self, graph: GraphProto) -> None:
        meanings, tensors = self._scope.meanings, self.tensors
        for tensor in graph.initializer:
            meanings[tensor.name] = Constant(lambda t=tensor: tensors.array(t), self._prefix + tensor.name)
        for sparse in graph.sparse_initializer:
            name = sparse.values.name
            meanings[name] = Constant(lambda s=sparse: tensors.sparse(s), self._prefix + name)

    def _add_nodes(self, nodes: Sequence[NodeProto]) -> None:
        scope = self._scope
        nodes = nodes if in_order(nodes, scope.__contains__) else sorted_nodes(nodes, scope.__contains__)
        self._count += len(nodes)
        if self._count > MAX_NODES:
            raise OnnxcError(f"the model's functions unfold into more than {MAX_NODES} nodes", exit_code=UNREADABLE)
        for index, node in enumerate(nodes):
            name = self._prefix + (node.name or f"{node.op_type}_{index}")
            try:
                self._add_node(node, name)
            except OnnxcError as error:
                error.at(node=name, op=node.op_type)
                if error.exit_code == UNREADABLE:
                    raise
                self.refused.append(error)
                self._stand_in(node, name)

    def _stand_in(self, node: NodeProto, name: str) -> None:
        """Give a refused node's results a meaning, so that the nodes after it can be looked at too."""
        loc = ir.Location.name(name, context=self.context)
        for output in node.output:
            if output and output not in self._scope.meanings:
                self._scope.meanings[output] = absent(loc)

    def _add_node(self, proto: NodeProto, name: str) -> None:
        domain = proto.domain if proto.domain != "ai.onnx" else ""
        if self._functions:
            function = self._functions.get((proto.domain, proto.op_type, proto.overload))
            if function is not None:
                self._call(proto, name, function)
                return
        if proto.op_type == "Constant" and domain == "":
            value = constant_of(self._attributes.read(proto, self._given), name)
            for output in proto.output:
                self._define(output, Constant(lambda: value, name), proto.op_type)
            return
        version = self._version(domain, proto.op_type)
        outputs: list[Name] = list(proto.output)
        while outputs and not outputs[-1]:
            outputs.pop()
        inputs: list[Name] = list(proto.input)
        if self._given is not None:
            inputs = ["" if self._scope.find(i) is ABSENT else i for i in inputs]
        attrs = self._attributes.read(proto, self._given) if proto.attribute else {}
        node = Node(proto.op_type, domain, version, inputs, outputs, attrs, name)
        if needs_steps(domain, node.op_type, version):
            for upgraded in upgrade(node, self):
                self._emit(upgraded)
        else:
            self._emit(node)

    def _version(self, domain: str, op_type: str) -> int:
        """The version of an operator that the model means; raises OnnxcError where there is no such operator."""
        if domain not in PREFIX_OF_DOMAIN:
            raise OnnxcError(f"operator {domain}::{op_type} is of a domain that is not supported", op=op_type)
        if signature(short_name(domain, op_type)) is None and not versions(domain, op_type):
            raise OnnxcError(f"there is no operator {domain + '::' if domain else ''}{op_type}", op=op_type)
        opset = self._opsets.get(domain)
        if opset is None:
            if domain not in ("", "com.microsoft"):
                raise OnnxcError(
                    f"the model uses domain {domain} and does not say which version", op=op_type, exit_code=UNREADABLE
                )
            opset = 1
        if not versions(domain, op_type):
            return opset
        version = since_version(domain, op_type, opset)
        if version is None:
            raise OnnxcError(f"there is no operator {op_type} in version {opset} of its domain", op=op_type)
        return version

    # -- operations

    def _emit(self, node: Node) -> None:
        """One operation from a node of today's version."""
        name = short_name(node.domain, node.op_type)
        known = signature(name) if name else None
        if known is None:
            raise node.refuse(f"there is no operator {node.op_type}")
        loc = ir.Location.name(node.name, context=self.context)
        inputs = node.inputs
        while inputs and inputs[-1] == "":
            inputs.pop()
        check_node(node, known)
        operands = [self._value(i) if i != "" else absent(loc) for i in inputs]
        attributes = {key: self._attribute(node, key, value, known) for key, value in node.attrs.items()
                      if not isinstance(value, GraphProto)}  # fmt: skip
        graphs = [node.attrs.get(key) for key in region_names(known.name)]
        op = ir.Operation.create(
            "onnx." + known.name, results=[self._unknown] * max(len(node.outputs), known.results[0]),
            operands=operands, attributes=attributes or None, regions=len(graphs), loc=loc,
        )  # fmt: skip
        for region, graph in zip(op.regions, graphs, strict=True):
            if graph is not None:  # an optional graph that is absent leaves its region empty
                self._region(region, graph, node, loc)
        if len(node.outputs) == 1:
            self._define(node.outputs[0], op.results[0], node.op_type)
        else:
            for output, result in zip(node.outputs, op.results, strict=False):
                if output:
                    self._define(output, result, node.op_type)

    def _attribute(self, node: Node, key: str, value: Any, known: Signature) -> ir.Attribute:
        spec = known.attributes.get(key)
        if spec is None:
            raise node.malformed(f"{node.op_type} has no attribute '{key}'")
        if isinstance(value, np.ndarray):
            return tensor_attribute(value, self.weights, f"{node.name}.{key}", self.context)
        if isinstance(value, TypeProto):
            return ir.TypeAttr.get(value_type(key, value, None, self.context), self.context)
        try:
            if spec.kind in ("int", "ints") and any(isinstance(v, float) for v in np.atleast_1d(value).tolist()):
                raise TypeError("a fraction")
            return attribute(value, self.context, spec.kind)
        except (TypeError, ValueError, OverflowError) as error:
            raise node.malformed(f"attribute '{key}' is {value!r}, and should be of kind {spec.kind}") from error

    def _define(self, name: Name, meaning: ir.Value | Constant, op_type: str) -> None:
        meanings = self._scope.meanings
        if name in meanings:
            raise OnnxcError(f"output '{name}' is defined twice", op=op_type, exit_code=UNREADABLE)
        meanings[name] = meaning

    def _value(self, name: Name) -> ir.Value:
        """The IR value of `name`; a constant is built here, for this scope, the first time."""
        meaning = self._scope.find(name)
        if isinstance(meaning, Constant):
            loc = ir.Location.name(meaning.hint, context=self.context)
            meaning = self._scope.meanings[name] = build_constant(meaning.read(), self.weights, loc=loc)
        return meaning

    def _region(self, region: ir.Region, graph: GraphProto, node: Node, loc: ir.Location) -> None:
        """A sub-graph: its inputs are block arguments, names from outside are captured, outputs are yielded."""
        types = [value_type(info.name, info.type, None, self.context) for info in graph.input]
        block = ir.Block.create_at_start(region, types, [loc] * len(types))
        outer, prefix = self._scope, self._prefix
        self._scope, self._prefix = Scope(outer), f"{node.name}/"
        self._enter(node.op_type)
        try:
            self._scope.meanings.update(zip((i.name for i in graph.input), block.arguments, strict=True))
            with ir.InsertionPoint(block):
                values = self._body(graph)
                ir.Operation.create("onnx.Yield", operands=values, loc=loc)
        finally:
            self._scope, self._prefix = outer, prefix
            self._depth -= 1

    def _enter(self, op_type: str) -> None:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise OnnxcError(
                "graphs or function calls are nested too deeply", why="a function may call itself", op=op_type,
                exit_code=UNREADABLE,
            )  # fmt: skip

    def _call(self, proto: NodeProto, name: str, function: FunctionProto) -> None:
        """Build the body of a model-local function in place of its call."""
        given = {a.name: self._attributes.value(a) for a in function.attribute_proto}
        given.update(self._attributes.read(proto, self._given))
        saved = self._scope, self._prefix, self._opsets, self._given
        scope = Scope()
        scope.meanings.update((formal, ABSENT) for formal in function.input)
        scope.meanings.update(
            (formal, self._scope.find(actual))
            for formal, actual in zip(function.input, proto.input, strict=False)
            if actual
        )
        opsets = opset_versions(function.opset_import)
        self._scope, self._prefix, self._opsets, self._given = scope, f"{name}/", opsets, given
        self._enter(proto.op_type)
        try:
            self._add_nodes(function.node)
        finally:
            self._scope, self._prefix, self._opsets, self._given = saved
            self._depth -= 1
        for formal, actual in zip(function.output, proto.output, strict=False):
            meaning = scope.find(formal)
            if meaning is None:
                raise OnnxcError(f"output '{formal}' of function {function.name} is not defined", exit_code=UNREADABLE)
            if actual:
                self._define(actual, meaning, proto.op_type)
