"""Models compiled for sizes of which something is known, against the same models compiled for any size."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnxc
from onnxc.compilation import Compilation
from onnxc.dialects.dims import Facts
from onnxc.driver import compile_model
from onnxc.options import Options
from onnxc.progress import SILENT


def compiled(model, path: Path, facts: Facts | None = None):
    """A session of `model` under `facts`, which guard its only variant, and the program that such a variant is made of."""
    facts = facts or Facts()
    run = Compilation(Options(mcpu="native"), SILENT)
    program = run.import_model(model, path.stem)
    program.facts = facts
    run.run_passes(program, "loops")
    conditions = [f"{name}={low}..{high}" for name, (low, high) in facts.ranges.items()]
    conditions += [f"{name}%{multiple}=0" for name, multiple in facts.multiples.items()]
    variants = (",".join(conditions),) if conditions else ()
    compile_model(model, path, Options(mcpu="native", variants=variants, generic=not variants))
    return onnxc.InferenceSession(path), program


def weights(name: str, *shape: int) -> TensorProto:
    rng = np.random.default_rng(len(name))
    return numpy_helper.from_array((rng.standard_normal(shape) / 4).astype(np.float32), name)


def pyramid():
    """Convolutions down by 4, pools that round up, and the way back up, added to what was there."""
    nodes = [
        helper.make_node("Conv", ["x", "w0", "b0"], ["c0"], pads=[1] * 4, strides=[2, 2]),
        helper.make_node("Relu", ["c0"], ["r0"]),
        helper.make_node("Conv", ["r0", "w1"], ["c1"], pads=[1] * 4),
        helper.make_node("MaxPool", ["c1"], ["p1"], kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
        helper.make_node("Conv", ["p1", "w2"], ["c2"], group=16, pads=[1] * 4),
        helper.make_node("Resize", ["c2", "", "two"], ["u"], mode="nearest"),
        helper.make_node("Add", ["u", "c1"], ["s"]),
        helper.make_node("Conv", ["s", "w3"], ["y"]),
    ]
    initializers = [
        weights("w0", 16, 3, 3, 3), weights("b0", 16), weights("w1", 16, 16, 3, 3), weights("w2", 16, 1, 3, 3),
        weights("w3", 24, 16, 1, 1), numpy_helper.from_array(np.array([1, 1, 2, 2], np.float32), "two"),
    ]  # fmt: skip
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3, "h", "w"])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "pyramid", [x], [y], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def test_multiples_leave_nothing_to_check_and_nothing_over(tmp_path):
    free, any_size = compiled(pyramid(), tmp_path / "free.so")
    known, program = compiled(pyramid(), tmp_path / "known.so", Facts({"n": (1, 2)}, {"h": 32, "w": 32}))
    assert any("differ" in text or "broadcast" in text for text in any_size.parts.errors)
    assert not any("differ" in text or "broadcast" in text for text in program.parts.errors)
    assert program.notes["outputs"][0].dims == ("n", 24, "16*(h//32)", "16*(w//32)")
    rng = np.random.default_rng(0)
    for shape in ((1, 3, 32, 32), (2, 3, 64, 32), (1, 3, 96, 160)):
        x = rng.standard_normal(shape).astype(np.float32)
        a, b = (session.run(None, {"x": x})[0] for session in (free, known))
        assert a.shape == b.shape
        np.testing.assert_array_equal(a, b)


def padded_to_eight():
    """Pads the rows to a multiple of 8, as exporters of detectors do."""
    nodes = [
        helper.make_node("Shape", ["x"], ["shape"], start=0, end=1),
        helper.make_node("Mod", ["shape", "eight"], ["over"]),
        helper.make_node("Sub", ["eight", "over"], ["less"]),
        helper.make_node("Mod", ["less", "eight"], ["missing"]),
        helper.make_node("Concat", ["zeros", "missing", "zero"], ["pads"], axis=0),
        helper.make_node("Pad", ["x", "pads"], ["p"]),
        helper.make_node("Relu", ["p"], ["y"]),
    ]
    constants = {"eight": [8], "zeros": [0, 0], "zero": [0]}
    initializers = [numpy_helper.from_array(np.array(v, np.int64), name) for name, v in constants.items()]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 5])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "padded", [x], [y], initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def test_padding_to_a_multiple_that_is_there_already_goes(tmp_path):
    _, free = compiled(padded_to_eight(), tmp_path / "free.so")
    session, known = compiled(padded_to_eight(), tmp_path / "known.so", Facts({}, {"rows": 16}))
    assert any('"pad"' in text for text in free.notes["kernels"].values())
    assert not any('"pad"' in text for text in known.notes["kernels"].values())
    x = np.random.default_rng(0).standard_normal((48, 5)).astype(np.float32)
    np.testing.assert_array_equal(session.run(None, {"x": x})[0], np.maximum(x, 0))


@pytest.mark.parametrize("length", [1, 2, 31, 512])
def test_a_range_gives_the_workspace_a_size(tmp_path, length):
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Softmax", ["a"], ["b"]),
        helper.make_node("MatMul", ["b", "v"], ["c"]),
        helper.make_node("Softmax", ["c"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 24])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    graph = helper.make_graph(nodes, "chain", [x], [y], [weights("w", 24, 40), weights("v", 40, 24)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)
    free, _ = compiled(model, tmp_path / "free.so")
    known, program = compiled(model, tmp_path / "known.so", Facts({"n": (1, 512)}))
    assert isinstance(program.notes["workspace"], int)
    x = np.random.default_rng(0).standard_normal((length, 24)).astype(np.float32)
    np.testing.assert_array_equal(free.run(None, {"x": x})[0], known.run(None, {"x": x})[0])
