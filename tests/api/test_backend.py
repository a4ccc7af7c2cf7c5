"""onnxc as an ONNX backend, and the API's ways to give a model."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import onnxc
from onnxc import backend


def test_devices() -> None:
    assert backend.supports_device("CPU")
    assert backend.supports_device("CPU:0")
    assert not backend.supports_device("CUDA")
    assert not backend.supports_device("abacus")


def test_a_model_is_prepared_once_and_run_often(digits: Path) -> None:
    data = np.load(digits.with_suffix(".npz"))
    model = backend.prepare(onnx.load(digits))
    for given in ([data["images"]], {"image": data["images"]}, data["images"]):
        (probability,) = model.run(given)
        assert (probability.argmax(axis=1) == data["labels"]).all()


def test_too_many_inputs_are_refused(digits: Path) -> None:
    with pytest.raises(onnxc.OnnxcError, match="2 inputs are given, but the model has 1"):
        backend.prepare(onnx.load(digits)).run([np.zeros((1, 1, 8, 8), np.float32)] * 2)


def test_other_devices_are_refused(digits: Path) -> None:
    with pytest.raises(onnxc.OnnxcError, match="no device is named 'CUDA'"):
        backend.prepare(onnx.load(digits), "CUDA")


def test_a_node_alone() -> None:
    node = helper.make_node("Add", ["a", "b"], ["c"])
    a, b = np.arange(6, dtype=np.float32).reshape(2, 3), np.float32(2)
    (c,) = backend.run_node(node, [a, b])
    np.testing.assert_array_equal(c, a + 2)
    (c,) = backend.run_node(node, [a, b], outputs_info=[(np.float32, (2, 3))], opset_version=14)
    np.testing.assert_array_equal(c, a + 2)


A, B = np.array([1, 2, 3], np.float32), np.array([10, 20, 30], np.float32)


@pytest.mark.parametrize(
    ("node", "inputs", "expected"),
    [
        (("Sub", ["a", "b"]), {"b": B, "a": A}, A - B),
        (("Mul", ["a", "a"]), [A, A], A * A),
        (("Mul", ["a", "a"]), [A], A * A),
        (("Neg", ["a"]), A, -A),
        (("Clip", ["a", "", "b"]), [A, np.float32(2)], np.minimum(A, 2)),
        (("Gelu", ["a"], "com.microsoft"), [A], np.array([0.8413447, 1.9544997, 2.9959503])),
    ],
    ids=["by name, in another order", "twice", "twice, given once", "alone", "one left out", "domain"],
)
def test_inputs_of_a_node(node: tuple, inputs: object, expected: np.ndarray) -> None:
    op, names, *domain = node
    (found,) = backend.run_node(helper.make_node(op, names, ["c"], domain="".join(domain)), inputs)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_too_many_inputs_of_a_node_are_refused() -> None:
    with pytest.raises(onnxc.OnnxcError, match="2 inputs are given, but the node has 1"):
        backend.run_node(helper.make_node("Neg", ["a"], ["b"]), [A, B])


def test_every_way_to_give_a_model(digits: Path, tmp_path: Path) -> None:
    images = np.load(digits.with_suffix(".npz"))["images"]
    report = onnxc.compile(onnx.load(digits), tmp_path / "m.so", mcpu="native")
    assert str(tmp_path / "m.so") in report.summary()
    results = [
        onnxc.InferenceSession(given, threads=threads).run(None, {"image": images})[0]
        for given in (digits, str(digits), onnx.load(digits), tmp_path / "m.so")
        for threads in (1, 2)
    ]
    for result in results:
        np.testing.assert_array_equal(result, results[0])


def test_check(digits: Path) -> None:
    assert onnxc.check(digits) == []
    assert onnxc.check(onnx.load(digits)) == []


def test_names_are_found_lazily() -> None:
    assert "InferenceSession" in dir(onnxc)
    assert onnxc.runtime.InferenceSession in onnxc.InferenceSession.__mro__
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        onnxc.nonsense  # noqa: B018
