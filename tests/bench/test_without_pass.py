"""Each model is compiled with and without the pass, and the pipeline is whole again; nothing is said of times."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest
from onnx import parser

from onnxc import pipeline

from .without_pass import left_out, main, workspace

MODEL = """<ir_version: 10, opset_import: ["" : 21]>
g (float[64, 64] x) => (float[64, 64] y) { a = Exp(x)  b = Softmax(a)  y = MatMul(a, b) }"""


def test_a_model_beside_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(parser.parse_model(MODEL), tmp_path / "small.onnx")
    arguments = ["group_operators_nicely", str(tmp_path / "small.onnx"), "--folder", str(tmp_path / "kept")]
    with pytest.raises(ValueError, match="there is no pass 'group_operators_nicely'"):
        main(arguments)
    arguments[0] = "recognise"
    main([*arguments, "--prepare"])
    assert capsys.readouterr().out == ""
    found = sorted((tmp_path / "kept").glob("*.so"))
    assert [path.name for path in found] == ["small.so", "small_without_recognise.so"]
    assert [workspace(path) for path in found] == [pytest.approx(0.033, rel=0.1)] * 2
    main([*arguments, "--rounds", "1"])
    assert capsys.readouterr().out.splitlines()[1].startswith("small")


def test_the_pipeline_is_whole_again() -> None:
    before = dict(pipeline.PIPELINE)
    with left_out("interleave_kernels"):
        assert sum(map(len, pipeline.PIPELINE.values())) == sum(map(len, before.values())) - 1
    assert before == pipeline.PIPELINE
