"""What InferenceSession takes and gives."""

from __future__ import annotations

import array
import re
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from onnxc import runtime
from onnxc.manifest import Manifest, Value
from onnxc.runtime import InferenceSession
from onnxc.runtime.arrays import address
from tests.runtime import handmade
from tests.runtime.handmade import BFLOAT16, FLOAT, INT64, STRING, Workshop

X = np.arange(12, dtype=np.float32).reshape(3, 4)


def test_describes_itself(workshop: Workshop) -> None:
    metadata = {"model.graph_name": "g", "model.version": "7", "author": "né"}
    path = workshop.library(handmade.add("described", metadata=metadata, producer="onnxc 9", report='{"a": 1}'))
    session = InferenceSession(path, threads=2)
    (x,), (y,) = session.get_inputs(), session.get_outputs()
    assert (x.name, x.shape, x.type) == ("x", ["N", 4], "tensor(float)")
    assert (y.name, y.shape, y.type) == ("y", ["N", 4], "tensor(float)")
    meta = session.get_modelmeta()
    assert (meta.graph_name, meta.version, meta.custom_metadata_map) == ("g", 7, {"author": "né"})
    assert (session.library.producer, session.library.report, session.threads) == ("onnxc 9", '{"a": 1}', 2)


@pytest.mark.parametrize("rows", [0, 1, 3, 1000])
def test_runs_any_size(add: Path, rows: int) -> None:
    session = InferenceSession(add)
    x = np.random.default_rng(0).random((rows, 4), np.float32)
    for _ in range(3):
        (y,) = session.run(None, {"x": x})
        np.testing.assert_array_equal(y, x + 1)
    assert session.variant is not None and session.variant.name == "generic"


def test_outputs_are_not_overwritten(add: Path, positive: Path) -> None:
    session = InferenceSession(add)
    (first,) = session.run(["y"], {"x": X})
    session.run(["y"], {"x": X + 5})
    np.testing.assert_array_equal(first, X + 1)
    counting = InferenceSession(positive)
    (first,) = counting.run(None, {"x": np.array([3, -1, 4])})
    counting.run(None, {"x": np.array([1, 1, 1])})
    assert first.tolist() == [3, 4] and first.flags.owndata


@pytest.mark.parametrize("rows", [1, 512, 513, 100_000])
def test_large_outputs_begin_with_a_cache_line(add: Path, rows: int) -> None:
    session = InferenceSession(add)
    x = np.random.default_rng(0).random((rows, 4), np.float32)
    kept = [session.run(None, {"x": x + i})[0] for i in range(5)]
    if x.nbytes >= 8192:
        assert [y.__array_interface__["data"][0] % 64 for y in kept] == [0] * 5
    for i, y in enumerate(kept):
        np.testing.assert_array_equal(y, x + i + 1)


@pytest.mark.parametrize(
    "array",
    [np.empty((0, 4)), np.array(3.0), np.arange(6)[::-2], np.frombuffer(b"12345678"), np.array(["a"], object),
     np.zeros((2, 3), ml_dtypes.bfloat16)],
)  # fmt: skip
def test_addresses_are_those_that_numpy_states(array: np.ndarray) -> None:
    assert address(array) == array.__array_interface__["data"][0]


def test_memory_of_outputs_let_go_is_used_again(add: Path) -> None:
    session = InferenceSession(add)
    x = np.random.default_rng(0).random((20_000, 4), np.float32)

    def place(array: np.ndarray) -> int:
        return array.__array_interface__["data"][0]

    (first,) = session.run(None, {"x": x})
    at, part, copy = place(first), first[5:9, 1], first.copy()
    del first
    (second,) = session.run(None, {"x": x + 1})  # a view of the first one lives
    assert place(second) != at
    np.testing.assert_array_equal(part, copy[5:9, 1])
    del part
    (third,) = session.run(None, {"x": second})  # an input of the run is in use as well
    assert place(third) == at
    np.testing.assert_array_equal(second, x + 2)
    np.testing.assert_array_equal(third, x + 3)
    results = [session.run(None, {"x": x + i})[0] for i in range(6)]  # more than are kept
    assert len({place(result) for result in [second, third, *results]}) == 8
    (other,) = session.run(None, {"x": x[:19_000]})  # another size
    del session
    np.testing.assert_array_equal(other, x[:19_000] + 1)
    for i, result in enumerate(results):
        np.testing.assert_array_equal(result, x + i + 1)


@pytest.mark.parametrize(
    "value",
    [
        X.tolist(),
        X[::1].T.copy().T,
        np.arange(24, dtype=np.float32).reshape(3, 8)[:, ::2] / 2,
        X.astype(">f4"),
        memoryview(X),
        np.require(X, requirements=["C"]).view(),
    ],
    ids=["list", "fortran", "strided", "big-endian", "memoryview", "view"],
)
def test_takes(add: Path, value: object) -> None:
    (y,) = InferenceSession(add).run(None, {"x": value})
    np.testing.assert_array_equal(y, np.asarray(value, np.float32) + 1)


class Dlpack:
    """Any library's array."""

    def __init__(self, data: np.ndarray) -> None:
        self.data = data

    def __dlpack__(self, **options: object) -> object:
        return self.data.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.data.__dlpack_device__()


def test_takes_dlpack_read_only_and_buffers(add: Path, positive: Path) -> None:
    session = InferenceSession(add)
    frozen = X.copy()
    frozen.flags.writeable = False
    for value in (Dlpack(X.copy()), frozen):
        np.testing.assert_array_equal(session.run(None, {"x": value})[0], X + 1)
    assert InferenceSession(positive).run(None, {"x": array.array("q", [-1, 2])})[0].tolist() == [2]


def test_scalar_input(workshop: Workshop) -> None:
    manifest = handmade.simple("arena", INT64, (), (), errors=())
    session = InferenceSession(workshop.library(manifest))
    for rounds in (np.int64(40), 40, np.array(40)):
        (bad,) = session.run(None, {"x": rounds})
        assert bad.shape == () and bad == 0


def test_caller_owned_outputs(add: Path, positive: Path) -> None:
    session = InferenceSession(add)
    y = np.zeros((3, 4), np.float32)
    (result,) = session.run(None, {"x": X}, out={"y": y})
    assert result is y
    np.testing.assert_array_equal(y, X + 1)
    room = np.zeros(10, np.int64)
    (kept,) = InferenceSession(positive).run(None, {"x": np.array([5, -5, 6])}, out={"y": room})
    assert kept.tolist() == [5, 6] and np.shares_memory(kept, room)


@pytest.mark.parametrize(
    ("out", "kind", "message"),
    [
        (np.zeros((2, 4), np.float32), ValueError, "output 'y' is [3, 4], the array for it is [2, 4]"),
        (np.zeros((3, 4)), TypeError, "output 'y' is tensor(float), not tensor(double)"),
        (np.zeros((4, 3), np.float32).T, ValueError, "not C-contiguous"),
        ([1.0], TypeError, "cannot be written into this list"),
        (X, ValueError, "overlaps an input"),
    ],
)
def test_bad_caller_owned_output(add: Path, out: object, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=re.escape(message)):
        InferenceSession(add).run(None, {"x": X}, out={"y": out})  # type: ignore[dict-item]


def test_caller_owned_output_too_small_for_the_data(positive: Path) -> None:
    session = InferenceSession(positive)
    with pytest.raises(runtime.InputError, match="output 'y' needs 16 bytes, its buffer has 8"):
        session.run(None, {"x": np.array([5, 6])}, out={"y": np.zeros(1, np.int64)})
    assert session.run(None, {"x": np.array([5, 6])})[0].tolist() == [5, 6]


@pytest.mark.parametrize(
    ("feeds", "kind", "message"),
    [
        ({}, ValueError, "input 'x' is missing; the model's inputs: 'x' tensor(float) ['N', 4]"),
        ({"z": X}, ValueError, "no input is named 'z'"),
        ({"x": X, "z": X}, ValueError, "no input is named 'z'"),
        ({"x": X.astype(np.float64)}, TypeError, "input 'x' is tensor(double), not tensor(float)"),
        ({"x": np.array(["a"])}, TypeError, "not tensor(float)"),
        ({"x": X[0]}, ValueError, "input 'x' has 1 dims [4], not 2 (the model takes ['N', 4])"),
        ({"x": X[:, :3]}, ValueError, "input 'x': dim 1 is 3, not 4 (the model takes ['N', 4])"),
        ({"x": [[1, 2], [3]]}, ValueError, "input 'x' cannot be made of this list"),
        ({"x": object()}, ValueError, "input 'x' cannot be made of this object"),
        ({"x": None}, ValueError, "input 'x' cannot be made of this NoneType"),
        ([X], TypeError, "in a dict, not in a list"),
        ({"x": np.lib.stride_tricks.as_strided(X, (1 << 40, 4), (0, 4))}, MemoryError, "allocate"),
    ],
)
def test_bad_input(add: Path, feeds: object, kind: type[Exception], message: str) -> None:
    session = InferenceSession(add)
    with pytest.raises(kind, match=re.escape(message)):
        session.run(None, feeds)  # type: ignore[arg-type]
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], X + 1)


def test_an_output_may_be_named_twice(add: Path) -> None:
    session, place = InferenceSession(add), np.empty_like(X)
    for found in (session.run(["y", "y"], {"x": X}), session.run(["y", "y"], {"x": X}, out={"y": place})):
        assert [np.array_equal(y, X + 1) for y in found] == [True, True]


def test_bad_output_name(add: Path) -> None:
    session = InferenceSession(add)
    with pytest.raises(runtime.InputError, match="no output is named 'q'; the model's outputs: 'y'"):
        session.run(["q"], {"x": X})
    with pytest.raises(runtime.InputError, match="no output is named 'q'"):
        session.run(None, {"x": X}, out={"q": X.copy()})
    with pytest.raises(runtime.InputError, match=re.escape("no output is named ['y']")):
        session.run([["y"]], {"x": X})  # type: ignore[list-item]


def test_dims_of_one_name_agree(workshop: Workshop) -> None:
    values = [Value(name, FLOAT, ("N", "M")) for name in ("a", "b")]
    manifest = Manifest("sum", tuple(values), (Value("y", FLOAT, ("N", "M")),), (handmade.variant("sum"),))
    session = InferenceSession(workshop.library(manifest))
    a, b = np.ones((2, 3), np.float32), np.ones((2, 5), np.float32)
    message = "input 'b': dim 1 ('M') is 5, but in dim 1 of input 'a' it is 3"
    for _ in range(2):
        with pytest.raises(ValueError, match=re.escape(message)):
            session.run(None, {"a": a, "b": b})
    np.testing.assert_array_equal(session.run(None, {"b": a, "a": a * 2})[0], a * 3)


def test_model_error_names_the_node(gather: Path) -> None:
    for threads in (1, 4):
        session = InferenceSession(gather, threads=threads)
        with pytest.raises(runtime.ModelError, match=re.escape("node 'Gather_3' (Gather): index out of range")):
            session.run(None, {"x": np.array([1, 2, 11, 3])})
        assert session.run(None, {"x": np.array([1, 2, 9])})[0].tolist() == [1, 4, 81]


def test_strings(workshop: Workshop) -> None:
    session = InferenceSession(workshop.library(handmade.simple("twice", STRING, ("N",), ("N",))))
    (y,) = session.run(None, {"x": np.array(["ab", "", "né\0x"], object)})
    assert y.tolist() == ["abab", "", "né\0xné\0x"]
    assert session.run(None, {"x": ["q"]})[0].tolist() == ["qq"]
    assert session.run(None, {"x": np.array([], object)})[0].shape == (0,)
    with pytest.raises(TypeError, match="not tensor\\(string\\)"):
        session.run(None, {"x": np.array([1.0])})


def test_bfloat16(workshop: Workshop) -> None:
    manifest = handmade.simple("copy", BFLOAT16, ("N",), ("N",), variants=(handmade.variant("copy", prepare="gather"),))
    session = InferenceSession(workshop.library(manifest))
    x = np.array([1.5, -2, 3e38], ml_dtypes.bfloat16)
    (y,) = session.run(None, {"x": x})
    assert y.dtype == ml_dtypes.bfloat16
    np.testing.assert_array_equal(y, x)
    assert session.run(None, {"x": [1.5, 2]})[0].tolist() == [1.5, 2]
    with pytest.raises(TypeError, match=r"tensor\(float16\), not tensor\(bfloat16\)"):
        session.run(None, {"x": np.zeros(3, np.float16)})


def test_names_of_any_kind(workshop: Workshop) -> None:
    names = ['"\\', "a/b:c.d", '{"json": [1]}', "né*/%s%n??/\n\t", ""]
    values = tuple(Value(name, FLOAT, ("N", 4) if i == 0 else ()) for i, name in enumerate(names))
    y = Value(names[3], FLOAT, (f"2*{names[0]}", 4))
    manifest = Manifest("9 hostile-näme", values, (y,), (handmade.variant("add"),), metadata={'"': "\\"})
    session = InferenceSession(workshop.library(manifest))
    assert [arg.name for arg in session.get_inputs()] == names
    feeds = {name: X if i == 0 else np.float32(0) for i, name in enumerate(names)}
    np.testing.assert_array_equal(session.run([names[3]], feeds)[0], X + 1)
    with pytest.raises(ValueError, match=re.escape("input 'né*/%s%n??/\n\t' has 1 dims")):
        session.run(None, feeds | {names[3]: np.zeros(1, np.float32)})
