"""Files that are no models, or hide something: each gives one error of one paragraph and exit code 2."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, external_data_helper, helper, numpy_helper, save

from onnxc.dialects.errors import OnnxcError
from onnxc.importer import import_model, reading

from .models import graph, imported, model, run


def weighty(array: np.ndarray | None = None):
    """y = x + w with a w that is big enough to be mapped."""
    array = np.arange(4096, dtype=np.float32) if array is None else array
    return model(graph([helper.make_node("Add", ["x", "w"], ["y"])], {"x": [array.size]}, constants={"w": array}))


def refused(path, match: str, code: int = 2) -> None:
    with pytest.raises(OnnxcError, match=match) as caught:
        import_model(path)
    assert caught.value.exit_code == code
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_missing_file(tmp_path: Path) -> None:
    refused(tmp_path / "no.onnx", "no such file")


def test_folder(tmp_path: Path) -> None:
    refused(tmp_path, "directory")


@pytest.mark.parametrize(
    ("contents", "match"),
    [
        (b"", "empty"),
        (b"PK\x03\x04" + bytes(100), "not an ONNX model"),
        (b"hello, world", "not an ONNX model"),
        (b'{"graph": {}}', "not an ONNX model"),
        (b"\x08\x07", "holds no graph"),
        (b"\xff" * 64, "not an ONNX model"),
        (bytes(4096), "not an ONNX model"),
    ],
)
def test_not_onnx(tmp_path: Path, contents: bytes, match: str) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(contents)
    refused(path, match)


def test_truncated_at_any_byte(tmp_path: Path) -> None:
    whole = weighty().SerializeToString()
    path = tmp_path / "m.onnx"
    for size in [*range(1, 60), *range(60, len(whole), 997), len(whole) - 1]:
        path.write_bytes(whole[:size])
        with pytest.raises(OnnxcError) as caught:
            import_model(path)
        assert caught.value.exit_code == 2, size
    assert "ends before the model does" in str(caught.value)


def test_damaged_at_any_byte() -> None:
    """Whatever a changed byte does, it is an error of ours or another valid model."""
    whole = model(
        graph(
            [
                helper.make_node("Slice", ["x", "s", "e"], ["t"]),
                helper.make_node("Softmax", ["t"], ["y"], axis=1, name="soft"),
            ],
            {"x": ["n", 4]},
            constants={"s": np.array([0]), "e": np.array([2])},
        ),
        opset=11,
    ).SerializeToString()
    for at in range(len(whole)):
        for flip in (1, 0x80, 0xFF):
            damaged = bytearray(whole)
            damaged[at] ^= flip
            with contextlib.suppress(OnnxcError):
                import_model(bytes(damaged))


@pytest.mark.parametrize("mapped", [False, True])
def test_big_weights_stay_in_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mapped: bool) -> None:
    if mapped:
        monkeypatch.setattr(reading, "READ_BELOW", 0)
    path = tmp_path / "m.onnx"
    save(weighty(), path)
    program = import_model(path)
    (key,) = program.weights
    array = program.weights.get(key)
    np.testing.assert_array_equal(array, np.arange(4096, dtype=np.float32))
    assert key == "w" and not array.flags.writeable and not array.flags.owndata


def external(folder: Path, location: str, offset: int | None = 0, length: int | None = None) -> Path:
    """A model in `folder` whose weight is said to lie at `location`."""
    model_ = weighty()
    (tensor,) = model_.graph.initializer
    external_data_helper.set_external_data(tensor, location, offset, length)
    tensor.ClearField("raw_data")
    path = folder / "m.onnx"
    path.write_bytes(model_.SerializeToString())
    return path


def test_external_data(tmp_path: Path) -> None:
    array = np.arange(4096, dtype=np.float32)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "w.bin").write_bytes(bytes(64) + array.tobytes())
    program = import_model(external(tmp_path, "sub/w.bin", 64, array.nbytes))
    np.testing.assert_array_equal(run(program, array)[0], 2 * array)


@pytest.mark.parametrize(
    ("location", "match"),
    [
        ("../w.bin", "not inside the model's folder"),
        ("sub/../../w.bin", "not inside the model's folder"),
        ("/etc/passwd", "not inside the model's folder"),
        ("", "not inside the model's folder"),
        ("link.bin", "leads out of the model's folder"),
        ("linked/w.bin", "leads out of the model's folder"),
        ("gone.bin", "no such file"),
        (".", "not a file"),
        ("pipe", "not a file"),
        ("short.bin", "has 3 bytes"),
    ],
)
def test_external_data_stays_inside(tmp_path: Path, location: str, match: str) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (tmp_path / "w.bin").write_bytes(bytes(4 * 4096))
    (folder / "link.bin").symlink_to(tmp_path / "w.bin")
    (folder / "linked").symlink_to(tmp_path)
    (folder / "short.bin").write_bytes(b"abc")
    os.mkfifo(folder / "pipe")
    refused(external(folder, location, 0, 4 * 4096), match)


@pytest.mark.parametrize(("offset", "length"), [(-4, 16384), (0, 1 << 62), (1 << 62, 16384), (8, None), (0, 12)])
def test_external_data_of_wrong_size(tmp_path: Path, offset: int, length: int | None) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(4 * 4096))
    refused(external(tmp_path, "w.bin", offset, length), "tensor 'w' is malformed")


def test_external_data_of_a_model_in_memory(tmp_path: Path) -> None:
    with pytest.raises(OnnxcError, match="no folder.*give the model's path"):
        import_model(external(tmp_path, "w.bin").read_bytes())


@pytest.mark.parametrize(
    ("dims", "data_type", "match"),
    [
        ([4095], 1, "16384 bytes of data, where its shape"),
        ([-1], 1, "negative dim"),
        ([1 << 40, 1 << 40], 1, "absurdly large"),
        ([4096], 99, "element type 99"),
        ([4096], 8, "strings cannot be raw data"),
    ],
)
def test_malformed_tensor(dims: list[int], data_type: int, match: str) -> None:
    model_ = weighty()
    (tensor,) = model_.graph.initializer
    del tensor.dims[:]
    tensor.dims.extend(dims)
    tensor.data_type = data_type
    with pytest.raises(OnnxcError, match=match) as caught:
        imported(model_)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    "kind",
    [
        "FLOAT",
        "UINT8",
        "INT8",
        "UINT16",
        "INT16",
        "INT32",
        "INT64",
        "BOOL",
        "FLOAT16",
        "DOUBLE",
        "UINT32",
        "UINT64",
        "COMPLEX64",
        "COMPLEX128",
        "BFLOAT16",
        "FLOAT8E4M3FN",
        "FLOAT8E4M3FNUZ",
        "FLOAT8E5M2",
        "FLOAT8E5M2FNUZ",
        "UINT4",
        "INT4",
        "FLOAT4E2M1",
        "FLOAT8E8M0",
        "UINT2",
        "INT2",
    ],
)
@pytest.mark.parametrize("count", [3, 70, 20000])
def test_every_element_type(kind: str, count: int) -> None:
    """Inline, in the message and cut out of the file: the same elements as onnx reads."""
    number = TensorProto.DataType.Value(kind)
    dtype = helper.tensor_dtype_to_np_dtype(number)
    array = np.random.default_rng(0).integers(0, 2, count).astype(dtype)
    tensor = numpy_helper.from_array(array, "w")
    identity = model(graph([helper.make_node("Identity", ["w"], ["y"])], {}, kinds={"y": number}), opset=28)
    identity.graph.initializer.append(tensor)
    for given in (identity, identity.SerializeToString()):
        (result,) = _constants(imported(given))
        assert result.dtype == dtype and result.tobytes() == numpy_helper.to_array(tensor).tobytes()


def _constants(program) -> list[np.ndarray]:
    from onnxc.dialects.weights import constant_array

    block = program.module.body.operations[0].regions[0].blocks[0]
    values = [constant_array(op.operation, program.weights) for op in block.operations]
    return [v for v in values if v is not None]


def test_strings_in_every_form() -> None:
    texts = np.array([f"a{i}\u00e9" for i in range(70)], object)
    identity = model(graph([helper.make_node("Identity", ["w"], ["y"])], {}, kinds={"y": TensorProto.STRING}))
    identity.graph.initializer.append(helper.make_tensor("w", TensorProto.STRING, [70], [t.encode() for t in texts]))
    (result,) = _constants(imported(identity))
    assert result.tolist() == texts.tolist()
