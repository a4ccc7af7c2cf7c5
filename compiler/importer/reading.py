"""This file opens an ONNX file: from a path, whatever lies there, to a ModelProto and a reader of its tensors."""

from __future__ import annotations

import mmap
import os
from dataclasses import dataclass
from pathlib import Path

from google.protobuf.message import DecodeError
from onnx import ModelProto

from onnxc.dialects.errors import UNREADABLE, OnnxcError
from onnxc.importer.tensors import TensorReader
from onnxc.importer.wire import WireError, without_data

READ_BELOW = 16 << 20
"""Smaller files are read, larger ones mapped (a mapped file must not be cut short while it is in use)."""


@dataclass
class Source:
    """A parsed model; `model` lacks the big tensor data, which `tensors` finds. `file` names it in messages."""

    model: ModelProto
    tensors: TensorReader
    file: str | None


def read_model(model: str | os.PathLike[str] | bytes | ModelProto) -> Source:
    """Read a file, the bytes of one, or a ModelProto. Raises OnnxcError with exit code 2 where that cannot be done."""
    if isinstance(model, ModelProto):
        return Source(_checked(model, None), TensorReader(None, None), None)
    if isinstance(model, bytes):
        return _parse(memoryview(model), None, None)
    path = Path(model)
    return _parse(_contents(path), str(path), path.parent)


def _contents(path: Path) -> memoryview:
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size < READ_BELOW:
                return memoryview(file.read())
            return memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ))
    except OSError as error:
        raise OnnxcError(
            "cannot read the model", file=str(path), why=(error.strerror or str(error)).lower(), exit_code=UNREADABLE
        ) from error
    except ValueError as error:  # a path with a NUL in it
        raise OnnxcError("cannot read the model", file=repr(str(path)), why=str(error), exit_code=UNREADABLE) from error


def _parse(data: memoryview, file: str | None, folder: Path | None) -> Source:
    if not len(data):
        raise OnnxcError("the file is empty", file=file, exit_code=UNREADABLE)
    nonce = os.urandom(16)
    model = ModelProto()
    try:
        model.ParseFromString(without_data(data, nonce))
    except (WireError, DecodeError) as error:
        raise _not_onnx(file, data, error) from error
    return Source(_checked(model, file), TensorReader(folder, data, nonce), file)


def _not_onnx(file: str | None, data: memoryview, error: Exception) -> OnnxcError:
    """Truncated, or something else altogether; ONNX files begin with the ir_version field (tag 8)."""
    if isinstance(error, WireError) and error.truncated and data[0] == 8:
        return OnnxcError(
            "the file ends before the model does", file=file, hint="fetch the file again", exit_code=UNREADABLE
        )
    return OnnxcError("this is not an ONNX model", file=file, why="it does not parse as one", exit_code=UNREADABLE)


def _checked(model: ModelProto, file: str | None) -> ModelProto:
    """`model` if it has what every model has; random bytes parse as protobuf now and then."""
    if not model.HasField("graph") or not (model.ir_version or model.opset_import):
        raise OnnxcError("this is not an ONNX model", file=file, why="it holds no graph", exit_code=UNREADABLE)
    return model
