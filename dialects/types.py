"""This file is the graph level's tensor type in Python: element spelling and symbolic shape, to and from MLIR.

`tensor<?x4xf32, ["N", 4]>`: an encoding with one entry a dim is there exactly when some dim is symbolic.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from math import prod

from mlir import ir

from onnxc.dialects import dims
from onnxc.dialects.dims import Dim

#: MLIR's spelling of each of ONNX's element types (TensorProto.DataType).
ONNX_ELEMENTS = {
    1: "f32", 2: "ui8", 3: "i8", 4: "ui16", 5: "i16", 6: "i32", 7: "i64", 8: "!onnx.string", 9: "i1", 10: "f16",
    11: "f64", 12: "ui32", 13: "ui64", 14: "complex<f32>", 15: "complex<f64>", 16: "bf16", 17: "f8E4M3FN",
    18: "f8E4M3FNUZ", 19: "f8E5M2", 20: "f8E5M2FNUZ", 21: "ui4", 22: "i4", 23: "f4E2M1FN", 24: "f8E8M0FNU",
    25: "ui2", 26: "i2",
}  # fmt: skip


#: No address space holds a tensor with more.
MOST_ELEMENTS = 1 << 47


@dataclass(frozen=True)
class Tensor:
    """Element type in MLIR's spelling (`f32`, `i64`, `ui8`, `i1`, `!onnx.string`) and shape; None: rank unknown."""

    elem: str
    shape: tuple[Dim, ...] | None

    @staticmethod
    def of(type_: ir.Type) -> Tensor:
        """The tensor that an MLIR tensor type describes; a dynamic dim must have its expression in the encoding."""
        cache = _cache(type_.context)
        known = cache.read.get(type_)
        if known is None:
            known = cache.read[type_] = _read(type_)
        return known

    def type(self, context: ir.Context | None = None) -> ir.Type:
        """The MLIR type of this tensor, in `context` or the current one."""
        cache = _cache(context or ir.Context.current)
        known = cache.built.get(self)
        if known is None:
            known = cache.built[self] = _build(self, cache.context)
        return known

    @property
    def rank(self) -> int | None:
        """The number of dims; None if unknown."""
        return None if self.shape is None else len(self.shape)

    @property
    def is_absurd(self) -> bool:
        """Whether no memory could hold it, or one of its dims: such sizes overflow in what is computed from them."""
        sizes = [abs(_at_one(dim)) for dim in self.shape or ()]
        return max(sizes, default=0) > MOST_ELEMENTS or prod(sizes) > MOST_ELEMENTS

    @property
    def dims(self) -> tuple[Dim, ...]:
        """The shape of a tensor whose rank is known."""
        if self.shape is None:
            raise ValueError("the rank of this tensor is not known")
        return self.shape

    @property
    def numel(self) -> Dim:
        """The number of elements."""
        return dims.product(self.dims)

    @property
    def is_static(self) -> bool:
        """Whether all dims are numbers."""
        return self.shape is not None and all(isinstance(dim, int) for dim in self.shape)

    def of_elem(self, elem: str) -> Tensor:
        """The same shape with another element type."""
        return replace(self, elem=elem)

    def of_shape(self, shape: tuple[Dim, ...] | list[Dim] | None) -> Tensor:
        """The same element type with another shape."""
        return replace(self, shape=None if shape is None else tuple(shape))

    def __str__(self) -> str:
        if self.shape is None:
            return f"{self.elem}[rank unknown]"
        return f"{self.elem}[{', '.join(map(str, self.shape))}]"


class _Cache:
    """Types of one context, both ways."""

    def __init__(self, context: ir.Context | None) -> None:
        self.context = context
        self.read: dict[ir.Type, Tensor] = {}
        self.built: dict[Tensor, ir.Type] = {}


_current = _Cache(None)


def _cache(context: ir.Context) -> _Cache:
    """The cache of `context`. Only the last context is remembered: types keep their context alive."""
    global _current
    if _current.context is not context:
        _current = _Cache(context)
    return _current


def is_tensor(type_: ir.Type) -> bool:
    """Whether `type_` is a tensor, of known rank or not."""
    return isinstance(type_, (ir.RankedTensorType, ir.UnrankedTensorType))


def dims_attribute(values: tuple[Dim, ...] | list[Dim], context: ir.Context) -> ir.ArrayAttr:
    """The attribute that spells dims: an i64 for a number, a string for an expression."""
    i64 = ir.IntegerType.get_signless(64, context=context)
    entries = [
        ir.IntegerAttr.get(i64, value) if isinstance(value, int) else ir.StringAttr.get(str(value), context=context)
        for value in values
    ]
    return ir.ArrayAttr.get(entries, context=context)


def attribute_dims(attribute: ir.Attribute) -> tuple[Dim, ...]:
    """The dims that such an attribute spells."""
    return tuple(
        dims.parse(entry.value) if isinstance(entry, ir.StringAttr) else ir.IntegerAttr(entry).value
        for entry in ir.ArrayAttr(attribute)
    )


def _read(type_: ir.Type) -> Tensor:
    if isinstance(type_, ir.UnrankedTensorType):
        return Tensor(str(type_.element_type), None)
    ranked = ir.RankedTensorType(type_)
    encoding = ranked.encoding
    shape = tuple(ranked.shape) if encoding is None else attribute_dims(encoding)
    if encoding is None and not ranked.has_static_shape:
        raise ValueError(f"{type_}: a dynamic dim needs its name in the encoding")
    return Tensor(str(ranked.element_type), shape)


def _build(tensor: Tensor, context: ir.Context) -> ir.Type:
    elem = ir.Type.parse(tensor.elem, context)
    with ir.Location.unknown(context):
        if tensor.shape is None:
            return ir.UnrankedTensorType.get(elem)
        if tensor.is_static:
            return ir.RankedTensorType.get(list(tensor.shape), elem)
        dynamic = ir.ShapedType.get_dynamic_size()
        sizes = [dim if isinstance(dim, int) else dynamic for dim in tensor.shape]
        return ir.RankedTensorType.get(sizes, elem, encoding=dims_attribute(tensor.shape, context))


@functools.lru_cache(maxsize=4096)
def _at_one(dim: Dim) -> int:
    """The size where all symbols are 1; 0 where there is none."""
    try:
        return dim if isinstance(dim, int) else dims.evaluate(dim, dict.fromkeys(dims.symbols(dim), 1))
    except ZeroDivisionError:
        return 0
