"""This file runs the `.mlir` tests of the passes between the graph and LLVM: RUN lines name the passes, CHECK lines
the result. A file is one module, or several parted by `// -----`. Values are checked by tests/ops on compiled models."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import Options
from filecheck.parser import Parser

from onnxc.opt import apply_passes

HERE = Path(__file__).parent
FILES = sorted(path for level in ("tensor", "kernels", "loops") for path in (HERE / level).glob("*.mlir"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_filecheck(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = path.read_text()
    names = re.search(r"^// RUN: onnxc-opt %s (.*) \| filecheck %s$", text, re.MULTILINE).group(1).split()
    result = apply_passes(text, names, str(path))
    options = Options(match_filename=str(path))
    code = Matcher(options, FInput(path.name, result), Parser.from_opts(options)).run()
    shown = capsys.readouterr()
    assert code == 0, shown.out + shown.err + result
