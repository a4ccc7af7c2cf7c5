"""This file turns a TensorProto into an array: from the mapped model file, the message, or an external data file.

Data is not copied where the file's layout allows it. Nothing outside the model's folder is ever opened.
"""

from __future__ import annotations

import mmap
import os
import stat
from pathlib import Path

import numpy as np
from onnx import SparseTensorProto, TensorProto, numpy_helper

from onnxc.dialects.errors import UNREADABLE, OnnxcError
from onnxc.dialects.types import ONNX_ELEMENTS
from onnxc.dialects.weights import dtype_of
from onnxc.importer.wire import read_marker

_BITS: dict[int, int] = {
    TensorProto.UINT4: 4,
    TensorProto.INT4: 4,
    TensorProto.FLOAT4E2M1: 4,
    TensorProto.UINT2: 2,
    TensorProto.INT2: 2,
}
_MAX_ELEMENTS = 1 << 48


class TensorReader:
    """Reads tensors of one model. `data` is the model file's contents, `folder` where its external data must lie."""

    def __init__(self, folder: Path | None, data: memoryview | None, nonce: bytes = b"") -> None:
        self._folder = folder
        self._data = data
        self._nonce = nonce
        self._files: dict[str, memoryview] = {}

    def array(self, tensor: TensorProto) -> np.ndarray:
        """The tensor's value, read-only where it is mapped. Raises OnnxcError (exit code 2) for malformed ones."""
        element = ONNX_ELEMENTS.get(tensor.data_type)
        if element is None:
            raise _malformed(tensor, f"element type {tensor.data_type} is not one of ONNX's")
        shape = tuple(tensor.dims)
        count = _count(tensor, shape)
        dtype = np.dtype(dtype_of(element))
        if tensor.data_location == TensorProto.EXTERNAL:
            return self._from_buffer(tensor, self._external(tensor), dtype, shape, count)
        if tensor.HasField("raw_data"):
            return self._from_buffer(tensor, self._raw(tensor), dtype, shape, count)
        if element == "!onnx.string":
            return _strings(tensor, shape, count)
        try:
            return numpy_helper.to_array(tensor)
        except (ValueError, TypeError) as error:
            raise _malformed(tensor, str(error)) from error

    def sparse(self, tensor: SparseTensorProto) -> np.ndarray:
        """The dense value of a sparse tensor."""
        values, indices = self.array(tensor.values), self.array(tensor.indices)
        shape = tuple(tensor.dims)
        count = _count(tensor.values, shape)
        if count > max(1 << 28, 64 * values.size):
            raise _malformed(tensor.values, f"a sparse tensor of shape {list(shape)} is too large to be made dense")
        dense = np.zeros(count, values.dtype)
        if indices.ndim == 2:
            if indices.shape != (values.size, len(shape)):
                raise _malformed(tensor.values, "its indices do not fit its values")
            if indices.size and ((indices < 0) | (indices >= np.array(shape))).any():
                raise _malformed(tensor.values, "an index is out of range")
            indices = np.ravel_multi_index(tuple(indices.T), shape) if indices.size else indices.reshape(-1)
        if indices.shape != (values.size,) or (indices.size and (indices.min() < 0 or indices.max() >= count)):
            raise _malformed(tensor.values, "its indices do not fit its shape")
        dense[indices] = values.reshape(-1)
        return dense.reshape(shape)

    def _raw(self, tensor: TensorProto) -> memoryview:
        raw = tensor.raw_data
        place = read_marker(self._nonce, raw) if self._data is not None else None
        return memoryview(raw) if place is None else self._data[place[0] : place[0] + place[1]]

    def _from_buffer(
        self, tensor: TensorProto, data: memoryview, dtype: np.dtype, shape: tuple[int, ...], count: int
    ) -> np.ndarray:
        bits = _BITS.get(tensor.data_type, 8 * dtype.itemsize)
        if dtype == np.object_:
            raise _malformed(tensor, "strings cannot be raw data")
        if len(data) != (count * bits + 7) // 8:
            raise _malformed(
                tensor,
                f"it holds {len(data)} bytes of data, where its shape {list(shape)} asks for {(count * bits + 7) // 8}",
            )
        if bits < 8:
            return _unpack(data, bits, dtype, count).reshape(shape)
        return np.frombuffer(data, dtype, count).reshape(shape)

    def _external(self, tensor: TensorProto) -> memoryview:
        """The bytes of a tensor that lies in a file beside the model."""
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        try:
            offset = int(entries.get("offset") or 0)
            length = int(entries["length"]) if entries.get("length") else None
        except ValueError as error:
            raise _malformed(tensor, "offset and length of its external data must be numbers") from error
        data = self._files.get(location)
        if data is None:
            data = self._files[location] = self._open(tensor, location)
        end = len(data) if length is None else offset + length
        if offset < 0 or end < offset or end > len(data):
            raise _malformed(
                tensor, f"its data is at bytes {offset} to {end} of '{location}', which has {len(data)} bytes"
            )
        return data[offset:end]

    def _open(self, tensor: TensorProto, location: str) -> memoryview:
        if self._folder is None:
            raise _malformed(
                tensor, f"its data is in the file '{location}', and a model in memory has no folder",
                hint="give the model's path",
            )  # fmt: skip
        parts = location.split("/")
        if not location or "\0" in location or location.startswith("/") or ".." in parts:
            raise _malformed(tensor, f"its data is in {location!r}, which is not inside the model's folder")
        folder = os.path.realpath(self._folder)
        path = os.path.realpath(os.path.join(folder, location))
        if os.path.commonpath([folder, path]) != folder:
            raise _malformed(tensor, f"its data is in '{location}', which leads out of the model's folder")
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        except OSError as error:
            why = (error.strerror or str(error)).lower()
            raise _malformed(tensor, f"cannot read its data in '{location}' beside the model: {why}") from error
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise _malformed(tensor, f"its data is in '{location}', which is not a file")
            if status.st_size == 0:
                return memoryview(b"")
            return memoryview(mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ))
        finally:
            os.close(descriptor)


def _count(tensor: TensorProto, shape: tuple[int, ...]) -> int:
    count = 1
    for dim in shape:
        if dim < 0:
            raise _malformed(tensor, f"its shape {list(shape)} has a negative dim")
        count *= dim
    if count > _MAX_ELEMENTS:
        raise _malformed(tensor, f"its shape {list(shape)} is absurdly large")
    return count


def _strings(tensor: TensorProto, shape: tuple[int, ...], count: int) -> np.ndarray:
    if len(tensor.string_data) != count:
        raise _malformed(tensor, f"it holds {len(tensor.string_data)} strings, and its shape is {list(shape)}")
    array = np.empty(count, np.object_)
    array[:] = [s.decode("utf-8", "surrogateescape") for s in tensor.string_data]
    return array.reshape(shape)


def _unpack(data: memoryview, bits: int, dtype: np.dtype, count: int) -> np.ndarray:
    """Elements of less than a byte, lowest bits first, one to a byte as ml_dtypes holds them."""
    packed = np.frombuffer(data, np.uint8)
    shifts = np.arange(0, 8, bits, dtype=np.uint8)
    fields = ((packed[:, None] >> shifts) & ((1 << bits) - 1)).astype(np.uint8).reshape(-1)[:count]
    if dtype.name.startswith("float"):
        return fields.view(dtype)
    if dtype.name.startswith("int"):
        sign = 1 << (bits - 1)
        return ((fields ^ sign).astype(np.int8) - sign).astype(dtype)
    return fields.astype(dtype)


def _malformed(tensor: TensorProto, why: str, hint: str | None = None) -> OnnxcError:
    return OnnxcError(f"tensor '{tensor.name}' is malformed", why=why, hint=hint, exit_code=UNREADABLE)
