"""This file runs the `.mlir` tests of the graph-level passes: RUN lines name the passes, CHECK lines the result."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest
from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import Options
from filecheck.parser import Parser
from mlir import ir

from onnxc.dialects.onnx import new_context
from onnxc.passes.contract import Program

FILES = sorted((Path(__file__).parent / "graph").glob("*.mlir"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_filecheck(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = path.read_text()
    names = re.search(r"^// RUN: onnxc-opt %s (.*) \| filecheck %s$", text, re.MULTILINE).group(1).split()
    with new_context(), ir.Location.unknown():
        program = Program(ir.Module.parse(text))
        for name in names:
            getattr(importlib.import_module(f"onnxc.passes.{name}"), name)(program)
        result = str(program.module)
    options = Options(match_filename=str(path))
    code = Matcher(options, FInput(path.name, result), Parser.from_opts(options)).run()
    assert code == 0, capsys.readouterr().out + capsys.readouterr().err + result
