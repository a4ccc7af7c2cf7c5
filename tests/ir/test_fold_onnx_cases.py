"""This file folds onnx's own test cases, their inputs given as constants: the results must be what onnx expects."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import numpy as np
import onnx
from onnx.backend.test.case.node import collect_testcases
from onnx.backend.test.case.test_case import TestCase

from onnxc.errors import OnnxcError
from onnxc.importer import import_model
from onnxc.passes.fold_constants import fold_constants
from onnxc.passes.infer_shapes import infer_shapes
from onnxc.passes.remove_dead import remove_dead
from onnxc.passes.simplify import simplify

from .interpret import interpret

FOLDED_AT_LEAST = 700  # of the cases: an evaluator that stops working shows


def cases() -> Iterator[TestCase]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = collect_testcases(None)
    for case in found:
        inputs, outputs = case.data_sets[0]
        numeric = all(isinstance(a, np.ndarray) and a.dtype != object for a in (*inputs, *outputs))
        if numeric and len(case.model.graph.node) <= 8:
            yield case


def with_constants(case: TestCase) -> onnx.ModelProto:
    """The case's model without inputs."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    for value, array in zip(case.model.graph.input, case.data_sets[0][0], strict=True):
        model.graph.initializer.append(onnx.numpy_helper.from_array(array, value.name))
    del model.graph.input[:]
    return model


def folded(case: TestCase) -> list[np.ndarray] | None:
    """The results, if all of them are constants in the end; None if something is left to compute, or is refused."""
    try:
        program = import_model(with_constants(case))
        for transform in (infer_shapes, fold_constants, simplify, infer_shapes, fold_constants, remove_dead):
            transform(program)
    except OnnxcError:
        return None
    block = program.module.body.operations[0].operation.regions[0].blocks[0]
    names = {view.operation.name for view in block.operations}
    if not names <= {"onnx.Constant", "onnx.None", "func.return"}:
        return None
    return interpret(program.module, program.weights, [])


def test_folded_cases() -> None:
    wrong, count = [], 0
    for case in cases():
        results = folded(case)
        if results is None:
            continue
        count += 1
        for found, right in zip(results, case.data_sets[0][1], strict=True):
            same = found.shape == right.shape and found.dtype == right.dtype
            wide = [array.astype(np.float64) for array in (found, right)] if same else [np.zeros(()), np.ones(())]
            if not np.allclose(*wide, rtol=max(case.rtol, 1e-3), atol=max(case.atol, 1e-5), equal_nan=True):
                wrong.append(case.name)
    assert wrong == []
    assert count >= FOLDED_AT_LEAST
