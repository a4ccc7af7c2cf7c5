"""The program measures what it says: layers by the direct sum beside each other, chains with SiLU; not how fast."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import onnxc

from . import conv_layers
from .conv_layers import Layers, main, model

SMALL = (Layers(6, 8, 8, 3, 2), Layers(9, 4, 8, 5, 2, stride=2), Layers(6, 8, 8, 3, 2, silu=True))


SHAPES = [(1, 8, 6, 6)] * 2, [(1, 8, 5, 5)] * 2, [(1, 8, 6, 6)]


@pytest.mark.parametrize(("layers", "shapes"), list(zip(SMALL, SHAPES, strict=True)))
def test_models_have_layers_of_that_shape(layers: Layers, shapes: list[tuple[int, ...]]) -> None:
    session = onnxc.InferenceSession(model(layers))
    x = np.ones((1, layers.channels, layers.side, layers.side), np.float32)
    assert [y.shape for y in session.run(None, {"x": x})] == shapes


def test_two_versions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(conv_layers, "LAYERS", SMALL)
    for folder in ("new", "old"):
        main(["--folder", str(tmp_path / folder), "--prepare", "6²"])
    assert capsys.readouterr().out == ""
    main(["--folder", str(tmp_path / "new"), "--beside", str(tmp_path / "old"), "--rounds", "1", "6²"])
    _, *rows = capsys.readouterr().out.splitlines()
    assert [len(row.split()) for row in rows] == [7, 7]
    main(["--folder", str(tmp_path / "new"), "--rounds", "1", "SiLU"])
    assert capsys.readouterr().out.splitlines()[1].startswith("6² 8→8 3×3 SiLU")
