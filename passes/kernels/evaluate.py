"""Evaluating a fused group at a point: the element (or a vector of them) of any value at an index.

A kernel asks for the value that it stores; operands are loaded, element-wise ops computed, moves re-indexed, each once
a point. So every kernel kind can have fused producers (prologue) and consumers (epilogue) without knowing them.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from mlir import ir
from mlir.dialects import vector

from onnxc.dialects.onnx import OnnxOp
from onnxc.dialects.types import Tensor
from onnxc.passes.kernels import index_math as im
from onnxc.passes.kernels import scalars
from onnxc.passes.kernels.builder import Buffer, KernelBuilder
from onnxc.passes.kernels.kernel_function import operand_values
from onnxc.passes.lowering.registry import ELEMENTWISE, MOVES, evaluated


@dataclass(frozen=True)
class Lanes:
    """How many elements one evaluation gives: `width` consecutive ones along `axis`; lanes off in `mask` are junk."""

    width: int = 1
    axis: int | None = None
    mask: ir.Value | None = None


SCALAR = Lanes()
Point = tuple[im.Index, ...]


class Evaluator:
    """Evaluates the ops of one kernel. `seed` tells the values that the kernel itself computes (its root's result)."""

    def __init__(self, builder: KernelBuilder):
        self.builder = builder
        self.buffers: dict[ir.Value, Buffer] = dict(builder.inputs)
        self.positions = {op.op: i for i, op in enumerate(builder.kernel.ops)}
        self._tensors: dict[ir.Value, Tensor] = {}
        self._known: list[dict[tuple, ir.Value]] = [{}]

    @contextmanager
    def scope(self):
        """Values evaluated inside a nested block are forgotten with it (they don't dominate what follows)."""
        self._known.append({})
        try:
            yield
        finally:
            self._known.pop()

    def seed(self, v: ir.Value, point: Sequence[im.Index], lanes: Lanes, element: ir.Value) -> None:
        self._known[-1][_key(v, point, lanes)] = element

    def tensor(self, v: ir.Value) -> Tensor:
        if v not in self._tensors:
            self._tensors[v] = Tensor.of(v.type)
        return self._tensors[v]

    def at(self, v: ir.Value, point: Sequence[im.Index], lanes: Lanes = SCALAR) -> ir.Value:
        """The element of `v` at `point`; a vector of lanes.width elements where lanes has a width."""
        key = _key(v, point, lanes)
        for known in reversed(self._known):
            if key in known:
                return known[key]
        element = self._evaluate(v, tuple(point), lanes)
        self._known[-1][key] = element
        return element

    def _evaluate(self, v: ir.Value, point: Point, lanes: Lanes) -> ir.Value:
        if v in self.buffers:
            return self._load(self.buffers[v], point, lanes)
        op = OnnxOp(v.owner)
        if op.name in ELEMENTWISE:
            reads = [None if o is None else self.aligned(o, v, point, lanes) for o in op.operands]
            if any(o is not None and read is None for o, read in zip(op.operands, reads, strict=True)):
                return self._by_lane(v, point, lanes)
            operands = [None if o is None else self.at(o, *read) for o, read in zip(op.operands, reads, strict=True)]
            while operands and operands[-1] is None:
                operands.pop()
            return evaluated(op, operands)
        if op.name == "Constant":
            return self._constant(op, lanes)
        if lanes.width > 1:
            return self._by_lane(v, point, lanes)
        return MOVES[op.name](self, op, point)

    def aligned(self, operand: ir.Value, result: ir.Value, point: Point, lanes: Lanes) -> tuple[Point, Lanes] | None:
        """Where `operand`, broadcast to `result`'s shape, is read for the result's element at `point`.

        None where it is not known before run time whether the operand is broadcast along the lanes.
        """
        have, want = self.tensor(operand).shape, self.tensor(result).shape
        skip = len(want) - len(have)
        axis = lanes.axis - skip if lanes.axis is not None else None
        read: list[im.Index] = []
        for i, d in enumerate(have):
            if d == want[skip + i]:
                read.append(point[skip + i])
            elif d == 1:
                read.append(0)
                axis = None if axis == i else axis
            elif axis == i:
                return None
            else:
                read.append(im.select(im.compare(self.builder.dim(d), "==", 1), 0, point[skip + i]))
        if lanes.width == 1:
            return tuple(read), SCALAR
        return tuple(read), Lanes(lanes.width, axis if axis is not None and axis >= 0 else None, lanes.mask)

    def _load(self, buffer: Buffer, point: Point, lanes: Lanes) -> ir.Value:
        if lanes.width == 1:
            return buffer.load(point)
        if lanes.axis is None:
            return scalars.splat(buffer.load(point), lanes.width)
        stride = buffer.strides[lanes.axis]
        if isinstance(stride, int) and stride == 1:
            return buffer.load_vector(buffer.offset(point), lanes.width, lanes.mask)
        elements = [buffer.load(_lane(point, lanes, i, buffer.shape[lanes.axis])) for i in range(lanes.width)]
        return vector.from_elements(scalars.vector_of(elements[0].type, lanes.width), elements)

    def _by_lane(self, v: ir.Value, point: Point, lanes: Lanes) -> ir.Value:
        if lanes.axis is None:
            return scalars.splat(self.at(v, point), lanes.width)
        extent = self.builder.shape(v)[lanes.axis]
        elements = [self.at(v, _lane(point, lanes, i, extent)) for i in range(lanes.width)]
        return vector.from_elements(scalars.vector_of(elements[0].type, lanes.width), elements)

    def _constant(self, op: OnnxOp, lanes: Lanes) -> ir.Value:
        """A constant inside a kernel has one element (others are operands)."""
        tensor = self.tensor(op.results[0])
        element = splat_element(op)
        return scalars.constant(element, scalars.vector_of(scalars.element_type(tensor.elem), lanes.width))

    def values(self, op: OnnxOp, position: int) -> list[im.Index]:
        """The elements of an operand that shape inference resolved, as indices."""
        return [self.builder.dim(d) for d in operand_values(op)[position]]

    def fail(self, op: OnnxOp) -> None:
        self.builder.fail(self.positions[op.op])


def _key(v: ir.Value, point: Sequence[im.Index], lanes: Lanes) -> tuple:
    return v, tuple(point), SCALAR if lanes.width == 1 else lanes


def _lane(point: Point, lanes: Lanes, i: int, extent: im.Index) -> list[im.Index]:
    """The point of lane `i`; lanes beyond the end, which a mask has switched off, are kept inside."""
    place = list(point)
    place[lanes.axis] = im.add(place[lanes.axis], i)
    if lanes.mask is not None:
        place[lanes.axis] = im.minimum(place[lanes.axis], im.sub(extent, 1))
    return place


def splat_element(op: OnnxOp) -> int | float | bool:
    """The only element of an inline Constant."""
    value = ir.DenseElementsAttr(op.op.attributes["value"]).get_splat_value()
    if isinstance(value, ir.FloatAttr):
        return value.value
    if isinstance(value, ir.BoolAttr):
        return value.value
    number = ir.IntegerAttr(value)
    return int(number)
