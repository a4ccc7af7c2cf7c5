"""Fixtures of the tests of tuning."""

from __future__ import annotations

from pathlib import Path

import pytest

from onnxc.tuning import tune
from onnxc.tuning.problems import kernel_tasks

from . import layers


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of each problem three candidates are enough to see what happens to them."""

    def fewer(lowered):
        tasks = kernel_tasks(lowered)
        for task in tasks:
            del task.candidates[3:]
        return tasks

    monkeypatch.setattr(tune, "kernel_tasks", fewer)


@pytest.fixture
def uncompared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model as a whole is not measured in the end."""
    monkeypatch.setattr(tune.Tuner, "_compare", lambda tuner, folder: None)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return layers.matmuls(tmp_path_factory.mktemp("model") / "m.onnx")
