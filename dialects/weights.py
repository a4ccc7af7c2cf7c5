"""This file is the weight store: constant tensors as arrays beside the IR, which only holds their keys.

Small numeric constants stand in the IR itself; `build_constant` decides, `constant_array` reads either kind.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator

import ml_dtypes
import numpy as np
from mlir import ir

INLINE_LIMIT = 64
"""Constants of at most so many elements stand in the IR."""

_CHUNK = 1 << 24  # bytes compared at once: a comparison of whole weights would need as much memory again

_ELEMENTS: dict[np.dtype, str] = {
    np.dtype(dtype): element
    for element, dtype in {
        "f16": np.float16,
        "bf16": ml_dtypes.bfloat16,
        "f32": np.float32,
        "f64": np.float64,
        "i1": np.bool_,
        "i8": np.int8,
        "i16": np.int16,
        "i32": np.int32,
        "i64": np.int64,
        "ui8": np.uint8,
        "ui16": np.uint16,
        "ui32": np.uint32,
        "ui64": np.uint64,
        "i4": ml_dtypes.int4,
        "ui4": ml_dtypes.uint4,
        "i2": ml_dtypes.int2,
        "ui2": ml_dtypes.uint2,
        "f8E4M3FN": ml_dtypes.float8_e4m3fn,
        "f8E4M3FNUZ": ml_dtypes.float8_e4m3fnuz,
        "f8E5M2": ml_dtypes.float8_e5m2,
        "f8E5M2FNUZ": ml_dtypes.float8_e5m2fnuz,
        "f8E8M0FNU": ml_dtypes.float8_e8m0fnu,
        "f4E2M1FN": ml_dtypes.float4_e2m1fn,
        "complex<f32>": np.complex64,
        "complex<f64>": np.complex128,
        "!onnx.string": np.object_,
    }.items()
}
_DTYPES = {element: dtype for dtype, element in _ELEMENTS.items()}
INLINE_ELEMENTS = {"i1", "i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64", "f32", "f64"}


def element_of(dtype: np.dtype) -> str:
    """The dialect's element type of a numpy dtype; strings are object arrays."""
    return _ELEMENTS[np.dtype(dtype)]


def dtype_of(element: str) -> np.dtype:
    """The numpy dtype of an element type."""
    return _DTYPES[element]


class WeightStore:
    """Arrays by key. Equal content has one key; keys depend only on hints, contents and the order of adding.

    Arrays are read-only and may be memory-mapped. A lazy entry is made when asked for and not kept by the store.
    """

    def __init__(self) -> None:
        self._arrays: dict[str, np.ndarray] = {}
        self._lazy: dict[str, tuple[tuple[int, ...], np.dtype, Callable[[], np.ndarray]]] = {}
        self._alive: weakref.WeakValueDictionary[str, np.ndarray] = weakref.WeakValueDictionary()
        self._by_sample: dict[tuple, list[str]] = {}

    def add(self, array: np.ndarray, hint: str) -> str:
        """Keep `array` (not a copy: nobody may change it afterwards) and return its key, which starts with `hint`,
        or the key of an equal array."""
        sample = _sample(array)
        twins = self._by_sample.setdefault(sample, [])
        for key in twins:
            if _same(self._arrays[key], array):
                return key
        key = self._free(hint)
        frozen = array.view()
        frozen.flags.writeable = False
        self._arrays[key] = frozen
        twins.append(key)
        return key

    def add_lazy(self, key: str, shape: tuple[int, ...], dtype: np.dtype, make: Callable[[], np.ndarray]) -> str:
        """Register an entry that `make` produces; an entry of that key already there is the same and stays."""
        if key not in self:
            self._lazy[key] = (tuple(shape), np.dtype(dtype), make)
        return key

    def get(self, key: str) -> np.ndarray:
        """The array of `key`, read-only."""
        if key in self._arrays:
            return self._arrays[key]
        alive = self._alive.get(key)
        if alive is None:
            shape, dtype, make = self._lazy[key]
            alive = np.ascontiguousarray(make(), dtype).reshape(shape)
            alive.flags.writeable = False
            self._alive[key] = alive
        return alive

    def shape(self, key: str) -> tuple[int, ...]:
        return self._arrays[key].shape if key in self._arrays else self._lazy[key][0]

    def dtype(self, key: str) -> np.dtype:
        return self._arrays[key].dtype if key in self._arrays else self._lazy[key][1]

    def nbytes(self, key: str) -> int:
        """The size of the entry, without making it."""
        return int(np.prod(self.shape(key), dtype=np.int64)) * self.dtype(key).itemsize

    def drop(self, key: str) -> None:
        """Forget an entry that nothing refers to any more (weights before packing, for one)."""
        array = self._arrays.pop(key, None)
        if array is not None:
            self._by_sample[_sample(array)].remove(key)
        self._lazy.pop(key, None)

    def __contains__(self, key: object) -> bool:
        return key in self._arrays or key in self._lazy

    def __iter__(self) -> Iterator[str]:
        yield from self._arrays
        yield from self._lazy

    def __len__(self) -> int:
        return len(self._arrays) + len(self._lazy)

    def _free(self, hint: str) -> str:
        key, count = hint, 0
        while key in self:
            count += 1
            key = f"{hint}.{count}"
        return key


class SharedWeights(WeightStore):
    """One program's entries of a store that several programs fill: content that is equal has one key in all of them.

    It lists its own entries only, so that what a program reads of its weights does not depend on the others.
    """

    def __init__(self, store: WeightStore) -> None:
        self._store = store
        self._keys: dict[str, None] = {}

    def add(self, array: np.ndarray, hint: str) -> str:
        return self._own(self._store.add(array, hint))

    def add_lazy(self, key: str, shape: tuple[int, ...], dtype: np.dtype, make: Callable[[], np.ndarray]) -> str:
        return self._own(self._store.add_lazy(key, shape, dtype, make))

    def get(self, key: str) -> np.ndarray:
        return self._store.get(key)

    def shape(self, key: str) -> tuple[int, ...]:
        return self._store.shape(key)

    def dtype(self, key: str) -> np.dtype:
        return self._store.dtype(key)

    def drop(self, key: str) -> None:
        """Forgets it here: other programs may still refer to it."""
        self._keys.pop(key, None)

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)

    def _own(self, key: str) -> str:
        self._keys[key] = None
        return key


def _sample(array: np.ndarray) -> tuple:
    """A cheap fingerprint that equal arrays share: shape, type and a few elements, so mapped pages stay unread."""
    flat = array.reshape(-1)
    if array.dtype == np.object_:
        return array.shape, "O", tuple(flat[:8])
    step = max(1, flat.size // 16)
    return array.shape, array.dtype.str, array.dtype.name, flat[::step][:17].tobytes()


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    """Equality of bits (NaN included)."""
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    if a is b or a.dtype == np.object_:
        return a is b or a.tolist() == b.tolist()
    if a.ctypes.data == b.ctypes.data and a.strides == b.strides:  # one map of the model's file
        return True
    left, right = _bytes(a), _bytes(b)
    return all(np.array_equal(left[i : i + _CHUNK], right[i : i + _CHUNK]) for i in range(0, len(left), _CHUNK))


def _bytes(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def weight_key(constant: ir.Operation) -> str | None:
    """The key of an `onnx.Constant` in the weight store; None for one in the IR, and for any other operation."""
    return ir.StringAttr(constant.attributes["weight"]).value if "weight" in constant.attributes else None


def constant_array(op: ir.Operation, weights: WeightStore) -> np.ndarray | None:
    """The value of an `onnx.Constant`, inline or stored; None for any other operation."""
    op = op.operation
    if op.name != "onnx.Constant":
        return None
    attributes = op.attributes
    if "weight" in attributes:
        return weights.get(attributes["weight"].value)
    return dense_array(attributes["value"])


def dense_array(dense: ir.DenseElementsAttr) -> np.ndarray:
    """The value of an inline constant."""
    shaped = ir.ShapedType(dense.type)
    if str(shaped.element_type) != "i1":
        return np.array(dense)  # through the buffer protocol: a tenth of the time of reading element by element
    shape = tuple(shaped.shape)  # bits: the bindings' buffer is wrong beyond eight of them
    if dense.is_splat:
        return np.full(shape, dense.get_splat_value().value, np.bool_)
    return np.array(list(dense), np.bool_).reshape(shape)


def tensor_attribute(array: np.ndarray, weights: WeightStore, hint: str, context: ir.Context) -> ir.Attribute:
    """A tensor attribute of an operator other than Constant: inline like a constant, or a weight's key."""
    element = _ELEMENTS[array.dtype]
    if array.size > INLINE_LIMIT or element not in INLINE_ELEMENTS:
        return ir.StringAttr.get(weights.add(array, hint), context)
    with ir.Location.unknown(context):
        return _dense(array, element, ir.RankedTensorType.get(array.shape, ir.Type.parse(element)))


def build_constant(
    array: np.ndarray, weights: WeightStore, *, loc: ir.Location, ip: ir.InsertionPoint | None = None
) -> ir.Value:
    """An `onnx.Constant` of `array`; its location's name is the hint for the key of a stored one."""
    array = np.asarray(array)
    context = loc.context
    element = _ELEMENTS[array.dtype]
    with context:
        tensor = ir.RankedTensorType.get(array.shape, ir.Type.parse(element), loc=loc)
        if array.size <= INLINE_LIMIT and element in INLINE_ELEMENTS:
            attributes = {"value": _dense(array, element, tensor)}
        else:
            hint = loc.name_str if loc.is_a_name() else "constant"
            attributes = {"weight": ir.StringAttr.get(weights.add(array, hint))}
        return ir.Operation.create("onnx.Constant", results=[tensor], attributes=attributes, loc=loc, ip=ip).result


def _dense(array: np.ndarray, element: str, tensor: ir.Type) -> ir.Attribute:
    data = np.ascontiguousarray(array)
    if element != "i1":
        return ir.DenseElementsAttr.get(data, type=tensor).maybe_downcast()
    bits = np.packbits(data.reshape(-1), bitorder="little") if data.size else data
    shape = list(ir.ShapedType(tensor).shape)
    return ir.DenseElementsAttr.get(bits, type=ir.IntegerType.get_signless(1), shape=shape).maybe_downcast()
