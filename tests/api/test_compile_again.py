"""A model compiled anew to the same path while the old one is in use."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import onnxc
from tests.ops.oracle import Batch, f32


def test_the_new_model_is_loaded(tmp_path: Path) -> None:
    path, x = tmp_path / "model.so", np.array([-1.0, 2.0], np.float32)
    sessions = []
    for op in ("Relu", "Neg", "Abs"):
        batch = Batch()
        batch.add(op, [f32(2)])
        onnxc.compile(batch.model(), path, mcpu="native")
        sessions.append(onnxc.InferenceSession(path))
    results = [session.run(None, {session.get_inputs()[0].name: x})[0].tolist() for session in sessions]
    assert results == [[0.0, 2.0], [1.0, -2.0], [1.0, 2.0]]
    assert onnxc.InferenceSession(path).run(None, {"n0_0": x})[0].tolist() == [1.0, 2.0]
