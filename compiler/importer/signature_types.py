"""This file turns the types of a model's inputs into MLIR types, and names and binds their symbolic dims."""

from __future__ import annotations

import re
from collections.abc import Mapping

from mlir import ir
from onnx import TensorShapeProto, TypeProto

from onnxc.dialects import dims
from onnxc.dialects.dims import Dim
from onnxc.dialects.errors import UNREADABLE, OnnxcError
from onnxc.dialects.types import ONNX_ELEMENTS, Tensor

UNKNOWN = "tensor<*x!onnx.any>"
"""The type of a value before shape inference."""

_NOT_LEGAL = re.compile(r"[^A-Za-z0-9_]")
# Names that mean something else in dim expressions; `s0`, `s1` … are the compiler's own symbols.
_TAKEN = re.compile(r"(s\d+|min|max|mod|broadcast|floordiv|ceildiv)\Z")


class DimNames:
    """Symbols of a model's dims. `bindings` maps dim names, or INPUT.AXIS, to numbers.

    `originals` maps every symbol to the model's own name of it, "" for a dim that the model leaves without one.
    """

    def __init__(self, bindings: Mapping[str, int]) -> None:
        self._bindings = dict(bindings)
        self._used: set[str] = set()
        self._symbols: dict[str, str] = {}
        self._numbers: dict[str, int] = {}
        self.originals: dict[str, str] = {}

    def shape(self, name: str, shape: TensorShapeProto) -> tuple[Dim, ...]:
        """The shape of input `name`. Dims of 0 or less in the model mean: any size."""
        return tuple(self._dim(name, axis, dim) for axis, dim in enumerate(shape.dim))

    def bind_named(self, shapes: list[tuple[str, TensorShapeProto]]) -> None:
        """Note what dims with a name are bound to, be it by that name or by INPUT.AXIS; call before `shape`."""
        for name, shape in shapes:
            for axis, dim in enumerate(shape.dim):
                for key in (dim.dim_param, f"{name}.{axis}") if _is_named(dim) else ():
                    if key in self._bindings:
                        self._used.add(key)
                        self._set(dim.dim_param, self._bindings[key], key)

    def check_all_used(self, names: list[str]) -> None:
        """Raise OnnxcError where a binding names nothing in the model."""
        unused = sorted(set(self._bindings) - self._used)
        if unused:
            known = [original or _place(symbol, names) for symbol, original in self.originals.items()]
            known += sorted(self._numbers)
            raise OnnxcError(
                f"the model has no dim '{unused[0]}' to set",
                hint=f"its dims are {', '.join(known)}" if known else "all its dims are fixed",
                exit_code=UNREADABLE,
            )

    def _set(self, param: str, value: int, place: str) -> None:
        if self._numbers.setdefault(param, value) != value:
            raise OnnxcError(
                f"dim '{param}' is set to {self._numbers[param]} and, by '{place}', to {value}", exit_code=UNREADABLE
            )

    def _dim(self, name: str, axis: int, dim: TensorShapeProto.Dimension) -> Dim:
        place = f"{name}.{axis}"
        if _is_named(dim):
            if dim.dim_param in self._numbers:
                return self._numbers[dim.dim_param]
            return dims.symbol(self._symbol(dim.dim_param, dim.dim_param, dim.dim_param))
        bound = self._bindings.get(place)
        if bound is not None:
            self._used.add(place)
        if dim.dim_value > 0:
            if bound is not None and bound != dim.dim_value:
                raise OnnxcError(
                    f"dim '{place}' cannot be {bound}", why=f"the model fixes it to {dim.dim_value}",
                    exit_code=UNREADABLE,
                )  # fmt: skip
            return dim.dim_value
        return bound if bound is not None else dims.symbol(self._symbol(place, f"{name}_{axis}", ""))

    def _symbol(self, key: str, wanted: str, original: str) -> str:
        symbol = self._symbols.get(key)
        if symbol is None:
            base = symbol = legal_symbol(wanted)
            count = 1
            while symbol in self.originals:
                count += 1
                symbol = f"{base}_{count}"
            self._symbols[key] = symbol
            self.originals[symbol] = original
        return symbol


def _is_named(dim: TensorShapeProto.Dimension) -> bool:
    """Some exporters write `?` for every dim that they know nothing of: these need not agree."""
    return dim.dim_param not in ("", "?")


def legal_symbol(name: str) -> str:
    """`name` as an identifier that dim expressions can hold."""
    symbol = _NOT_LEGAL.sub("_", name)
    if not symbol or not symbol[0].isalpha():
        symbol = "d" + symbol if symbol.startswith("_") else "d_" + symbol
    return f"dim_{symbol}" if _TAKEN.match(symbol) else symbol


def _place(symbol: str, names: list[str]) -> str:
    """INPUT.AXIS of an unnamed dim's symbol `INPUT_AXIS`."""
    stem, _, axis = symbol.rpartition("_")
    return next((f"{n}.{axis}" for n in names if legal_symbol(f"{n}_{axis}") == symbol), f"{stem}.{axis}")


def value_type(name: str, proto: TypeProto, names: DimNames | None, context: ir.Context) -> ir.Type:
    """The MLIR type of value `name`; without `names` (in sub-graphs) only the element type of a tensor is taken."""
    kind = proto.WhichOneof("value")
    if kind == "tensor_type":
        element = _element(proto.tensor_type.elem_type)
        shape = None
        if names is not None and proto.tensor_type.HasField("shape"):
            shape = names.shape(name, proto.tensor_type.shape)
        tensor = Tensor(element, shape)
        if tensor.is_absurd:
            raise OnnxcError(f"'{name}' is too large for any memory", types=[str(tensor)])
        return tensor.type(context)
    return ir.Type.parse(_text(name, proto), context)


def _text(name: str, proto: TypeProto) -> str:
    """Container types: `!onnx.seq<T>`, `!onnx.optional<T>`, `!onnx.map<K, V>`."""
    kind = proto.WhichOneof("value")
    if kind == "tensor_type":
        return f"tensor<*x{_element(proto.tensor_type.elem_type)}>"
    if kind == "sequence_type":
        return f"!onnx.seq<{_text(name, proto.sequence_type.elem_type)}>"
    if kind == "optional_type":
        return f"!onnx.optional<{_text(name, proto.optional_type.elem_type)}>"
    if kind == "map_type":
        return f"!onnx.map<{_element(proto.map_type.key_type)}, {_text(name, proto.map_type.value_type)}>"
    if kind is None:
        return UNKNOWN
    raise OnnxcError(f"'{name}' is of an unsupported type ({kind.removesuffix('_type').replace('_', ' ')})")


def _element(data_type: int) -> str:
    element = ONNX_ELEMENTS.get(data_type)
    if element is None:
        if data_type == 0:
            return "!onnx.any"
        raise OnnxcError(f"element type {data_type} is not one of ONNX's", exit_code=UNREADABLE)
    return element
