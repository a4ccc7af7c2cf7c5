"""This file takes the big tensor data out of an ONNX file before protobuf parses it.

Protobuf would copy every weight (and copy it again on access). `without_data` walks the wire format instead and
returns a small message in which each big `raw_data` is a marker; the data stays where it lies in the mapped file.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Union

KEEP_BELOW = 4096
"""Fields smaller than this are copied as they are; nothing is searched in them."""

_MAX_DEPTH = 100  # protobuf's own limit
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

Fields = Mapping[int, Union["Fields", str]]  # field number -> the message in it, or "data"

_TENSOR: dict = {9: "data"}
_SPARSE: dict = {1: _TENSOR, 2: _TENSOR}
_GRAPH: dict = {}
_ATTRIBUTE: dict = {5: _TENSOR, 6: _GRAPH, 10: _TENSOR, 11: _GRAPH, 22: _SPARSE, 23: _SPARSE}
_NODE: dict = {5: _ATTRIBUTE}
_GRAPH.update({1: _NODE, 5: _TENSOR, 15: _SPARSE})
_MODEL: dict = {7: _GRAPH, 25: {7: _NODE, 11: _ATTRIBUTE}}


class WireError(Exception):
    """The bytes are not a protobuf message, or end inside one (`truncated`)."""

    def __init__(self, message: str, *, truncated: bool = False) -> None:
        super().__init__(message)
        self.truncated = truncated


def without_data(data: memoryview, nonce: bytes) -> bytes:
    """The ModelProto in `data` with every big `raw_data` replaced by `marker(nonce, offset, size)`."""
    pieces, _ = _rewrite(data, 0, len(data), _MODEL, nonce, 0)
    return b"".join(pieces)


def marker(nonce: bytes, offset: int, size: int) -> bytes:
    """What stands for the data at `offset`; `nonce` is fresh for each load, so that no file can hold one."""
    return nonce + struct.pack("<QQ", offset, size)


def read_marker(nonce: bytes, raw: bytes) -> tuple[int, int] | None:
    """Offset and size if `raw` is a marker."""
    if len(raw) != len(nonce) + 16 or not raw.startswith(nonce):
        return None
    return struct.unpack("<QQ", raw[len(nonce) :])


def _rewrite(
    data: memoryview, start: int, end: int, fields: Fields, nonce: bytes, depth: int
) -> tuple[list[bytes | memoryview], int]:
    """The pieces of the message in data[start:end] with its big data replaced, and their total size."""
    if depth > _MAX_DEPTH:
        raise WireError("messages are nested too deeply")
    pieces: list[bytes | memoryview] = []
    size, copied, at = 0, start, start
    while at < end:
        field_start = at
        tag, at = _varint(data, at, end)
        begin, at = _payload(data, at, end, tag & 7)
        inner = fields.get(tag >> 3) if tag & 7 == _BYTES and at - begin >= KEEP_BELOW else None
        if inner is None:
            continue
        if isinstance(inner, str):
            body: list[bytes | memoryview] = [marker(nonce, begin, at - begin)]
            length = len(body[0])
        else:
            body, length = _rewrite(data, begin, at, inner, nonce, depth + 1)
        head = _encode(tag) + _encode(length)
        pieces += [data[copied:field_start], head, *body]
        size += field_start - copied + len(head) + length
        copied = at
    pieces.append(data[copied:end])
    return pieces, size + end - copied


def _payload(data: memoryview, at: int, end: int, kind: int) -> tuple[int, int]:
    """Where a field's contents begin and end."""
    begin = at
    if kind == _BYTES:
        length, begin = _varint(data, at, end)
        at = begin + length
    elif kind == _VARINT:
        at = _varint(data, at, end)[1]
    elif kind == _FIXED32:
        at += 4
    elif kind == _FIXED64:
        at += 8
    else:
        raise WireError(f"a field of unknown kind {kind}")
    if at > end:
        raise WireError("the data ends inside a field", truncated=True)
    return begin, at


def _varint(data: memoryview, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, at
        shift += 7
        if shift > 63:
            raise WireError("a number of more than 64 bits")
    raise WireError("the data ends inside a number", truncated=True)


def _encode(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)
