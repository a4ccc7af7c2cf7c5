"""This file infers shapes of other people's models and checks every value's type on the corpus' inputs.

The interpreter holds each type, with the symbols' real values, against the array that the op gives.
"""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
from mlir import ir

from onnxc.errors import OnnxcError
from onnxc.importer import import_model
from onnxc.passes.infer_shapes import check_shapes, infer_shapes

from ..ir.interpret import interpret

LARGEST = 40_000_000  # bytes of a model that is interpreted


def generator(corpus: Path) -> Callable[[dict, int], dict[str, np.ndarray]]:
    """The corpus' own function that makes the inputs of a case."""
    spec = importlib.util.spec_from_file_location("corpus_gen", corpus / "corpus_gen.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.gen


def models(corpus: Path) -> list[tuple[dict, Path]]:
    """The models that are there, with what the corpus knows of them."""
    known = json.loads((corpus / "corpus.json").read_text())["models"]
    paths = [(model, corpus / "models" / f"{model['id'].replace('/', '__')}.onnx") for model in known]
    return [(model, path) for model, path in paths if path.exists() and model["size"] <= LARGEST]


def problem(model: dict, path: Path, gen: Callable[[dict, int], dict[str, np.ndarray]]) -> str | None:
    """What is wrong with the types of a model; None if nothing is, or if it is refused or cannot be interpreted."""
    try:
        program = import_model(path)
        infer_shapes(program)
        check_shapes(program)
    except OnnxcError:
        return None
    main = program.module.body.operations[0].operation
    names, outputs = (
        [ir.StringAttr(name).value for name in main.attributes[key]] for key in ("input_names", "output_names")
    )
    for case in model["cases"]:
        feeds = gen(case["spec"], case["seed"])
        try:
            found = interpret(program.module, program.weights, [np.asarray(feeds[name]) for name in names])
        except AssertionError as wrong:
            return str(wrong)
        except NotImplementedError:
            return None
        for name, array in zip(outputs, found, strict=True):
            if list(array.shape) != case["outputs"][name][1]:
                return f"{name} has shape {array.shape}"
    return None


def test_types_of_all_values(corpus: Path) -> None:
    gen = generator(corpus)
    found = {model["id"]: problem(model, path, gen) for model, path in models(corpus)}
    assert {name: wrong for name, wrong in found.items() if wrong} == {}
