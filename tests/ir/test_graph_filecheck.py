"""This file runs the `.mlir` tests of the graph-level passes: RUN lines name the passes, CHECK lines the result.

Every function in them is also interpreted before and after the passes, on random inputs: the results must agree.
"""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import numpy as np
import pytest
from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import Options
from filecheck.parser import Parser
from mlir import ir

from onnxc.dialects import dims
from onnxc.dialects.onnx import new_context
from onnxc.dialects.types import Tensor
from onnxc.dialects.weights import dtype_of
from onnxc.passes.contract import Program

from .interpret import interpret

FILES = sorted((Path(__file__).parent / "graph").glob("*.mlir"))


def passes(text: str) -> list[str]:
    return re.search(r"^// RUN: onnxc-opt %s (.*) \| filecheck %s$", text, re.MULTILINE).group(1).split()


def transform(program: Program, names: list[str]) -> None:
    for name in names:
        getattr(importlib.import_module(f"onnxc.passes.{name}"), name)(program)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_filecheck(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = path.read_text()
    with new_context(), ir.Location.unknown():
        program = Program(ir.Module.parse(text))
        transform(program, passes(text))
        result = str(program.module)
    options = Options(match_filename=str(path))
    code = Matcher(options, FInput(path.name, result), Parser.from_opts(options)).run()
    assert code == 0, capsys.readouterr().out + capsys.readouterr().err + result


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_values(path: Path) -> None:
    text = path.read_text()
    rng = np.random.default_rng(0)
    with new_context(), ir.Location.unknown():
        before, program = ir.Module.parse(text), Program(ir.Module.parse(text))
        transform(program, passes(text))
        for view in before.body.operations:
            if "onnx.Random" in str(view):
                continue
            name = view.operation.attributes["sym_name"].value
            inputs = random_inputs(view.operation, rng)
            wanted = interpret(before, program.weights, inputs, name)
            for found, right in zip(interpret(program.module, program.weights, inputs, name), wanted, strict=True):
                np.testing.assert_allclose(found, right, rtol=2e-5, atol=2e-5, err_msg=name)


def random_inputs(function: ir.Operation, rng: np.random.Generator) -> list[np.ndarray]:
    """Arrays for the function's arguments; a symbol gets the same small size everywhere."""
    symbols: dict[str, int] = {}
    inputs = []
    for argument in function.regions[0].blocks[0].arguments:
        tensor = Tensor.of(argument.type)
        for dim in tensor.dims:
            symbols |= {name: int(rng.integers(2, 6)) for name in sorted(dims.symbols(dim)) if name not in symbols}
        shape = [dims.evaluate(dim, symbols) for dim in tensor.dims]
        dtype = dtype_of(tensor.elem)
        values = (
            rng.standard_normal(shape) if dtype.kind == "f" else rng.integers(0, 2 if dtype.kind == "b" else 4, shape)
        )
        inputs.append(np.asarray(values, dtype))
    return inputs
