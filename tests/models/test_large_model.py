"""A model of 2.3 GB: its weights go into a file beside the artefact, and compiling needs under 2 × weights + 1 GB."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper

import onnxc

SIZE, LAYERS = 4096, 35
BYTES = LAYERS * SIZE * SIZE * 4


@pytest.fixture
def large(tmp_path: Path):
    """The model, its weights in one external file; removed again, since pytest would keep it."""
    random = np.random.default_rng(0)
    weights = tmp_path / "large.weights"
    nodes, initializers = [], []
    with weights.open("wb") as file:
        for layer in range(LAYERS):
            weight = TensorProto(name=f"w{layer}", data_type=TensorProto.FLOAT, dims=[SIZE, SIZE])
            weight.data_location = TensorProto.EXTERNAL
            for key, value in (("location", weights.name), ("offset", file.tell()), ("length", SIZE * SIZE * 4)):
                weight.external_data.add(key=key, value=str(value))
            file.write((random.standard_normal((SIZE, SIZE), dtype=np.float32) / np.float32(SIZE**0.5)).tobytes())
            initializers.append(weight)
            names = ["x" if layer == 0 else f"h{layer - 1}", f"w{layer}"]
            nodes.append(helper.make_node("MatMul", names, ["y" if layer == LAYERS - 1 else f"h{layer}"], f"m{layer}"))
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", SIZE]) for name in "xy")
    model = helper.make_model(
        helper.make_graph(nodes, "large", [x], [y], initializers), opset_imports=[helper.make_opsetid("", 21)]
    )
    (tmp_path / "large.onnx").write_bytes(model.SerializeToString())
    yield tmp_path / "large.onnx"
    for file in tmp_path.iterdir():
        file.unlink()


@pytest.mark.nightly
def test_memory_and_result(large: Path) -> None:
    artefact = large.with_suffix(".so")
    command = [sys.executable, "-m", "onnxc", "compile", str(large), "-o", str(artefact), "--no-cache"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    assert peak < 2 * BYTES + 2**30
    assert artefact.stat().st_size < 2**20
    (beside,) = large.parent.glob("large.so.*")
    assert BYTES <= beside.stat().st_size < BYTES * 1.01

    x = np.random.default_rng(1).standard_normal((2, SIZE), dtype=np.float32)
    want = x
    for weight in np.memmap(large.with_name("large.weights"), np.float32, "r", shape=(LAYERS, SIZE, SIZE)):
        want = want @ weight
    (got,) = onnxc.InferenceSession(artefact).run(None, {"x": x})
    np.testing.assert_allclose(got, want, rtol=0, atol=1e-4 * np.abs(want).max())
