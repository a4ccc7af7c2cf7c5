"""The report in the artefact: what was chosen and why, copies of weights, memory against its lower bound."""

from __future__ import annotations

import json

import numpy as np
import pytest

from onnxc.dialects.weights import WeightStore
from onnxc.driver import compile_model
from onnxc.inspection import as_text, inspect_artefact
from onnxc.options import Options
from onnxc.report import LARGEST, describe_weights, write_report

from .models import convnet


@pytest.fixture(scope="module")
def facts(tmp_path_factory: pytest.TempPathFactory) -> dict:
    artefact = tmp_path_factory.mktemp("report") / "m.so"
    compile_model(convnet(), artefact, Options(mcpu="x86-64-v3", threads=1))
    return inspect_artefact(artefact)


def test_kernels(facts: dict) -> None:
    (variant,) = facts["report"]["variants"]
    kinds = {kernel["kind"]: kernel for kernel in variant["kernels"]}
    fc = kinds["matmul"]
    assert fc["calls"] == [["fc"]] and fc["source"] == "heuristic" and fc["schedule"]["rows"] == 1
    assert any(kernel.get("algorithm") == "winograd4" for kernel in variant["kernels"])
    assert variant["memory"]["static"] >= variant["memory"]["lower_bound"] > 0


def test_copies(facts: dict) -> None:
    weights = facts["report"]["weights"]
    assert {copy["weight"] for copy in weights["copies"]} <= {"w1.1", "w2.1"}  # channels last
    for copy in weights["copies"]:
        assert copy["bytes"] == 4 * copy["plain"] and "winograd4" in copy["layouts"][0]
    assert facts["report"]["variants"][0]["model_bytes"] == 4 * (32 * 32 * 9 + 24 * 32 * 9 + 24 * 144 * 10)
    shipped = weights["plain"] + weights["padding"] + sum(c["bytes"] - c["plain"] for c in weights["copies"])
    assert weights["bytes"] == shipped


def test_text(facts: dict) -> None:
    text = as_text(facts)
    assert "of the lower bound" in text and "matmul (heuristic)" in text and "  copy    w1.1: winograd4:" in text


def test_a_weight_in_two_layouts_is_a_copy() -> None:
    store = WeightStore()
    key = store.add(np.zeros((64, 64), np.float32), "a:b")
    for layout in ("panels64", "panels32"):
        store.add_lazy(f"{key}:{layout}", (64, 64), np.dtype(np.float32), lambda: store.get(key))
    weights = describe_weights([("a:b:panels64", 0), ("a:b:panels32", 0), (np.zeros(4, np.int8), 0)], store)
    copies = [{"weight": "a:b", "layouts": ["panels32", "panels64"], "bytes": 1 << 15, "plain": 1 << 14}]
    assert weights == {"bytes": (1 << 15) + 4, "plain": (1 << 14) + 4, "padding": 0, "copies": copies}


def test_a_long_report_is_cut() -> None:
    kernel = {"kind": "map", "calls": [["first", "x" * 1000]] * (LARGEST // 1000)}
    text = write_report([{"name": "generic", "memory": {}, "kernels": [kernel]}], {})
    assert len(text) < LARGEST and json.loads(text)["variants"][0]["kernels"][0]["calls"][0] == ["first"]
