"""This file creates and reads graph-level ops for passes: constants, and the usual ops with their result types.

New ops appear at the builder's place, which a pass moves with `at` and `behind`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
from mlir import ir
from onnx import helper

from onnxc.dialects.dims import Dim
from onnxc.dialects.onnx import OnnxOp, absent, attribute, build, is_onnx
from onnxc.dialects.types import Tensor
from onnxc.dialects.weights import WeightStore, build_constant, constant_array, dtype_of
from onnxc.passes.recorded_values import ATTRIBUTE, values_attribute


class GraphBuilder:
    """Knows what defines each value (`value.owner` costs 20 µs a call), as far as it was told by `note`."""

    def __init__(self, weights: WeightStore) -> None:
        self.weights = weights
        self._defs: dict[ir.Value, ir.Operation] = {}
        self._ip: ir.InsertionPoint | None = None
        self._location: ir.Location | None = None

    def note(self, op: ir.Operation) -> None:
        for result in op.results:
            self._defs[result] = op

    def at(self, op: ir.Operation) -> None:
        """New ops come just before `op` and have its location."""
        self._ip, self._location = ir.InsertionPoint(op), op.location

    @contextmanager
    def behind(self, value: ir.Value) -> Iterator[None]:
        """For a while, new ops come right behind the definition of `value`: whoever may read it may read them."""
        before, op = (self._ip, self._location), self._defs.get(value)
        if op is None:  # a block argument
            self._ip = ir.InsertionPoint.at_block_begin(value.owner)
        else:
            self._ip, self._location = ir.InsertionPoint.after(op), op.location
        yield
        self._ip, self._location = before

    # -- reading

    def producer(self, value: ir.Value | None, *names: str) -> OnnxOp | None:
        """The onnx op that computes `value`, if it is one of `names` (any, when none are given)."""
        op = None if value is None else self._defs.get(value)
        if op is None or not is_onnx(op):
            return None
        return OnnxOp(op) if not names or op.name[len("onnx.") :] in names else None

    def array(self, value: ir.Value | None, limit: int | None = None) -> np.ndarray | None:
        """The elements of a constant (None: not one, or of more than `limit` elements)."""
        op = None if value is None else self._defs.get(value)
        if op is None or op.name != "onnx.Constant":
            return None
        if limit is not None:
            numel = Tensor.of(value.type).numel
            if not isinstance(numel, int) or numel > limit:
                return None
        return constant_array(op, self.weights)

    def scalar(self, value: ir.Value | None) -> float | int | bool | None:
        """The one element of a constant with exactly one element, as a Python number."""
        array = self.array(value, limit=1)
        return array.reshape(()).item() if array is not None and array.size == 1 else None

    def is_constant(self, value: ir.Value | None) -> bool:
        op = None if value is None else self._defs.get(value)
        return op is not None and op.name == "onnx.Constant"

    def single_use(self, value: ir.Value) -> bool:
        return sum(1 for _ in value.uses) == 1

    # -- creating

    def build(
        self,
        name: str,
        operands: Sequence[ir.Value | None],
        types: Sequence[ir.Type],
        attrs: Mapping[str, object] = {},
        regions: int = 0,
    ) -> ir.Operation:
        op = build(name, operands, types, dict(attrs), loc=self._location, ip=self._ip, regions=regions)
        self.note(op)
        return op

    def again(self, op: OnnxOp, operands: Sequence[ir.Value | None], attrs: Mapping[str, object] = {}) -> ir.Value:
        """`op` with other operands and some other attributes, under its own name (location)."""
        before, self._location = self._location, op.op.location
        made = self.one(op.name, operands, op.op.results[0].type, self.attributes(op) | dict(attrs))
        self._location = before
        return made

    def one(
        self, name: str, operands: Sequence[ir.Value | None], type: ir.Type | Tensor, attrs: Mapping[str, object] = {}
    ) -> ir.Value:
        """`build` for an op of one result."""
        return self.build(name, operands, [type.type() if isinstance(type, Tensor) else type], attrs).results[0]

    def internal(
        self, name: str, operands: Sequence[ir.Value], result: Tensor, attrs: Mapping[str, object] = {}
    ) -> ir.Value:
        """An op of the `kernel` dialect, of one result."""
        context = self._location.context
        attributes = {key: attribute(value, context) for key, value in attrs.items()}
        op = ir.Operation.create(
            f"kernel.{name}", results=[result.type()], operands=list(operands), attributes=attributes,
            loc=self._location, ip=self._ip,
        )  # fmt: skip
        self.note(op)
        return op.results[0]

    def constant(self, array: np.ndarray) -> ir.Value:
        value = build_constant(np.asarray(array, order="C"), self.weights, loc=self._location, ip=self._ip)
        self._defs[value] = value.owner
        return value

    def constant_of(self, array: np.ndarray, elem: str) -> ir.Value:
        """A constant of these numbers in another element type."""
        return self.constant(np.asarray(array).astype(dtype_of(elem)))

    def attributes(self, op: OnnxOp) -> dict[str, ir.Attribute]:
        """All attributes of the op, to build another like it."""
        return {name: op.op.attributes[name] for name in op.op.attributes}

    def absent(self) -> ir.Value:
        """A value for an operand that is not there, or whose elements are recorded on the op."""
        value = absent(self._location, self._ip)
        self._defs[value] = value.owner
        return value

    def reshape(self, x: ir.Value, shape: Sequence[Dim]) -> ir.Value:
        """The normal form of every op that only changes the shape: the dims are recorded, and exact (0 means 0)."""
        result = Tensor.of(x.type).of_shape(tuple(shape))
        attrs = {"allowzero": 1, ATTRIBUTE: values_attribute({1: list(shape)}, result.type().context)}
        return self.one("Reshape", [x, self.absent()], result, attrs)

    def transpose(self, x: ir.Value, perm: Sequence[int]) -> ir.Value:
        tensor = Tensor.of(x.type)
        return self.one("Transpose", [x], tensor.of_shape([tensor.dims[p] for p in perm]), {"perm": list(perm)})

    def cast(self, x: ir.Value, elem: str) -> ir.Value:
        to = helper.np_dtype_to_tensor_dtype(dtype_of(elem))
        return self.one("Cast", [x], Tensor.of(x.type).of_elem(elem), {"to": int(to)})

    def expand(self, x: ir.Value, shape: Sequence[Dim]) -> ir.Value:
        result = Tensor.of(x.type).of_shape(tuple(shape))
        return self.one(
            "Expand", [x, self.absent()], result, {ATTRIBUTE: values_attribute({1: list(shape)}, x.context)}
        )

    def reduce(self, name: str, x: ir.Value, axes: Sequence[int]) -> ir.Value:
        """A reduction that keeps the axes it reduces."""
        tensor = Tensor.of(x.type)
        result = tensor.of_shape([1 if axis in axes else dim for axis, dim in enumerate(tensor.dims)])
        attrs = {"keepdims": 1, ATTRIBUTE: values_attribute({1: list(axes)}, x.context)}
        return self.one(name, [x, self.absent()], result, attrs)

    def iota(self, count: Dim) -> ir.Value:
        """0, 1 … count - 1."""
        attrs = {ATTRIBUTE: values_attribute({0: [0], 1: [count], 2: [1]}, self._location.context)}
        return self.one("Range", [self.absent(), self.absent(), self.absent()], Tensor("i64", (count,)), attrs)

    def slice(self, x: ir.Value, bounds: Mapping[int, tuple[Dim, Dim]]) -> ir.Value:
        """Along each axis given, (start, size); bounds must lie inside the tensor."""
        tensor = Tensor.of(x.type)
        bounds = {axis: b for axis, b in bounds.items() if b != (0, tensor.dims[axis])}
        if not bounds:
            return x
        shape = [bounds[axis][1] if axis in bounds else dim for axis, dim in enumerate(tensor.dims)]
        starts, sizes = [b[0] for b in bounds.values()], [b[1] for b in bounds.values()]
        ends = [start + size for start, size in zip(starts, sizes, strict=True)]
        values = {1: starts, 2: ends, 3: list(bounds), 4: [1] * len(bounds)}
        attrs = {ATTRIBUTE: values_attribute(values, x.context)}
        return self.one("Slice", [x, *[self.absent()] * len(values)], tensor.of_shape(shape), attrs)
