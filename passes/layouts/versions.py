"""This file keeps, for every tensor, the orders of axes in which it exists; it converts between them when asked.

A version with order `p` of tensor `x` is the tensor whose axis `i` is axis `p[i]` of `x`. "Native" is the order of the
model, (0, 1, 2, …); a tensor that exists in another order only is "moved". Nothing is transposed before someone asks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence

import numpy as np
from mlir import ir

from onnxc.dialects import dims
from onnxc.dialects.onnx import OnnxOp
from onnxc.dialects.types import Tensor, is_tensor
from onnxc.passes.graph_builder import GraphBuilder

Order = tuple[int, ...]
Carrier = Callable[[OnnxOp, "Layouts"], bool]

CARRIERS: dict[str, Carrier] = {}

TYPICAL = 1024  # what a size known at run time counts, where numbers of elements are compared
SMALL = 1 << 14  # elements of a constant that is permuted here; bigger ones become a Transpose for fold_constants


def carries(*names: str) -> Callable[[Carrier], Carrier]:
    """Registers how these ops run on moved operands: build that form, `define` the results, return True; or False."""

    def register(function: Carrier) -> Carrier:
        CARRIERS.update(dict.fromkeys(names, function))
        return function

    return register


def native(rank: int) -> Order:
    return tuple(range(rank))


def channels_last(rank: int) -> Order:
    return (0, *range(2, rank), 1)


class Layouts(GraphBuilder):
    """The versions of every tensor, and the builder with which carriers make new ones."""

    def __init__(self, weights) -> None:
        super().__init__(weights)
        self._versions: dict[ir.Value, dict[Order, ir.Value]] = {}
        self._moved: dict[ir.Value, Order] = {}
        self._converted: list[ir.Operation] = []

    def order(self, value: ir.Value | None) -> Order | None:
        """The order in which a moved tensor was made; None for a native one."""
        return None if value is None else self._moved.get(value)

    def define(self, value: ir.Value, order: Order, version: ir.Value) -> None:
        """`value`'s op is converted: the tensor now exists as `version`."""
        if order == native(len(order)):
            value.replace_all_uses_with(version)
        else:
            self._versions[value] = {order: version}
            self._moved[value] = order

    def offer(self, value: ir.Value, order: Order, version: ir.Value) -> None:
        """`value` stays as it is, but `version` exists beside it."""
        self._versions.setdefault(value, {}).setdefault(order, version)

    def offers(self, value: ir.Value) -> dict[Order, ir.Value]:
        """All versions that exist, the native one included."""
        found = dict(self._versions.get(value, {}))
        if value not in self._moved and is_tensor(value.type):
            found.setdefault(native(len(Tensor.of(value.type).dims)), value)
        return found

    def missing(self, value: ir.Value, order: Order) -> int:
        """About how many elements must move to have `value` in this order."""
        if order in self.offers(value) or self.is_constant(value):
            return 0
        numel = Tensor.of(value.type).numel
        return int(dims.evaluate(numel, defaultdict(lambda: TYPICAL)))

    def want(self, value: ir.Value, order: Order) -> ir.Value:
        """`value` in this order; if it does not exist, it is made right behind a version that does."""
        offers = self.offers(value)
        found = offers.get(order)
        if found is None:
            found = self._convert(value, offers, order)
            self._versions.setdefault(value, {})[order] = found
        return found

    def _convert(self, value: ir.Value, offers: dict[Order, ir.Value], order: Order) -> ir.Value:
        if self.is_constant(value):
            array = self.array(value, limit=SMALL)
            if array is not None:
                with self.behind(value):
                    return self.constant(array.transpose(order))
        shape = Tensor.of(value.type).dims
        big = [axis for axis in order if shape[axis] != 1]
        for have, version in offers.items():
            if [axis for axis in have if shape[axis] != 1] == big:  # only dims of size 1 move
                with self.behind(version):
                    return self.reshape(version, [shape[axis] for axis in order])
        have, version = next(iter(offers.items()))
        with self.behind(version):
            return self.transpose(version, [have.index(axis) for axis in order])

    def best(self, values: Iterable[ir.Value], rank: int) -> Order:
        """The order that moves the fewest elements when an op reads `values`, all of that rank."""
        values = list(values)
        candidates = [*dict.fromkeys(order for v in values if (order := self.order(v)) is not None), native(rank)]
        return min(candidates, key=lambda order: sum(self.missing(value, order) for value in values))

    def lift(self, value: ir.Value, order: Order) -> ir.Value:
        """An operand that broadcasts against a tensor in this order: of lower rank too, single elements as they are."""
        shape, rank = Tensor.of(value.type).dims, len(order)
        if len(shape) == rank:
            return self.want(value, order)
        if all(dim == 1 for dim in shape):
            return self.want(value, native(len(shape)))
        missing = rank - len(shape)
        array = self.array(value, limit=SMALL)
        if array is not None:
            return self.constant(array.reshape([1] * missing + list(array.shape)).transpose(order))
        lifted = [1] * missing + list(shape)
        source = self.want(value, native(len(shape)))
        moved = [lifted[axis] for axis in order]
        if [axis for axis in order if lifted[axis] != 1] == [axis for axis in range(rank) if lifted[axis] != 1]:
            return self.reshape(source, moved)
        return self.transpose(self.reshape(source, lifted), list(order))

    def convert(self, op: ir.Operation) -> None:
        """Notes that `op` was converted: it goes at the end."""
        self._converted.append(op)

    def finish(self) -> None:
        for op in reversed(self._converted):
            op.erase()


def permute(order: Sequence[int], entries: Sequence) -> list:
    """Entries of axes, one an axis, for a tensor in this order."""
    return [entries[axis] for axis in order]


def permuted(tensor: Tensor, order: Order) -> Tensor:
    return tensor.of_shape(permute(order, tensor.dims))


def dropped(order: Order, gone: Iterable[int]) -> Order:
    """The order that is left when axes go."""
    removed = set(gone)
    kept = [axis for axis in range(len(order)) if axis not in removed]
    return tuple(kept.index(axis) for axis in order if axis not in removed)


def constant_of(values: Sequence[int]) -> np.ndarray:
    return np.array(values, np.int64)
