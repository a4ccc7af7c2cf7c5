"""`--override`: what is asked of single nodes is done or refused by file, line and node."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from onnxc.driver import Compilation, compile_model
from onnxc.errors import OnnxcError
from onnxc.inspection import inspect_artefact
from onnxc.options import Options
from onnxc.override_file import read_overrides
from onnxc.runtime import InferenceSession

from .models import Told, convnet

FEED = {"x": np.random.default_rng(3).standard_normal((1, 32, 12, 12)).astype(np.float32)}


def kernels(path: Path, text: str) -> tuple[dict[str, dict], list[str]]:
    """What the report says of each node's kernel, and the warnings."""
    path.write_text(text)
    told = Told()
    run = Compilation(Options(mcpu="x86-64-v3", override=path), told)
    program = run.import_model(convnet(), "model")
    run.run_passes(program, "loops")
    run.tell(program)
    described = [kernel for kernel in program.notes["report"]["kernels"] if "source" in kernel]
    return {node: kernel for kernel in described for nodes in kernel["calls"] for node in nodes}, told.warnings


def refused(path: Path, text: str) -> OnnxcError:
    with pytest.raises(OnnxcError) as error:
        kernels(path, text)
    assert error.value.exit_code == 2
    return error.value


def test_what_is_asked_is_done(tmp_path: Path) -> None:
    found, warnings = kernels(
        tmp_path / "o.toml",
        """
["conv*"]
algorithm = "direct"

["conv2"]
algorithm = "winograd2"

["fc"]
schedule = { vectors = 1, prefetch = 4 }
""",
    )
    assert not warnings
    assert found["conv1"]["algorithm"] == "direct" and found["conv2"]["algorithm"] == "winograd2"
    assert found["conv2"]["algorithm_source"] == "override" and found["conv2"]["source"] == "heuristic"
    assert found["fc"]["source"] == "override"
    assert (found["fc"]["schedule"]["vectors"], found["fc"]["schedule"]["prefetch"]) == (1, 4)


def test_strict_and_precision(tmp_path: Path) -> None:
    (tmp_path / "o.toml").write_text('["conv?"]\nstrict = true\n["fc"]\nprecision = "f64"\n')
    compile_model(convnet(), tmp_path / "m.so", Options(mcpu="x86-64-v3", override=tmp_path / "o.toml", threads=1))
    report = inspect_artefact(tmp_path / "m.so")["report"]
    assert not report["weights"]["copies"] or "fc" in str(report["weights"]["copies"])
    (y,) = InferenceSession(tmp_path / "m.so").run(None, FEED)
    compile_model(convnet(), tmp_path / "strict.so", Options(mcpu="x86-64-v3", strict=True, threads=1))
    (strict,) = InferenceSession(tmp_path / "strict.so").run(None, FEED)
    np.testing.assert_allclose(y, strict, rtol=1e-5, atol=1e-5)
    assert y.tobytes() != strict.tobytes()  # the last product's sums are rounded once


def test_a_pattern_that_no_node_has(tmp_path: Path) -> None:
    _, (warning,) = kernels(tmp_path / "o.toml", '\n["conv9"]\nalgorithm = "direct"\n')
    assert warning == f"warning: {tmp_path / 'o.toml'}:2: no node is named 'conv9' (close: conv2, conv1)"


@pytest.mark.parametrize(
    ("text", "node", "why"),
    [
        ('["conv1"]\nalgorithm = "fft3"', "conv1", "this convolution can be done by direct"),
        ('["fc"]\nalgorithm = "direct"', "fc", "only convolutions"),
        ('["fc"]\nschedule = { rows = 99 }', "fc", "rows = 99|does not fit into 16 registers"),
        ('["fc"]\nschedule = { tiles = 2 }', "fc", "no entry 'tiles'"),
        ('["relu1"]\nschedule = { rows = 2 }', "relu1", "it is computed by no kernel that has one"),
        ('["flat"]\nprecision = "f64"\n["conv1"]\nprecision = "f16"', None, "precision = 'f16' cannot be honoured"),
        ('["conv1"]\nstrict = false', None, "strict = false cannot be honoured"),
        ('["conv1"]\ntiles = 3', None, "'tiles' cannot be overridden"),
        ('["conv1"]\nalgorithm = 3', None, "algorithm = 3 is not possible"),
        ('["conv1"]\nschedule = { rows = 1.5 }', None, "rows = 1.5 is neither"),
        ('["conv1"]\nschedule = { rows = 99999999999999999999 }', None, "rows is too large a number"),
        (f'["conv1"]\nschedule = {{ rows = 0x{"f" * 9000} }}', None, "rows is too large a number"),
        (f'["conv1"]\nalgorithm = 0x{"f" * 9000}', None, "algorithm = a number of that size is not possible"),
        ('["conv1"]\nalgorithm = ""', None, "algorithm = '' is not possible"),
        (f'["conv1"]\nschedule = {{ rows = {"9" * 9000} }}', None, "this is no TOML"),
        (f'x = {"[" * 3000}', None, "this is no TOML"),
        ("[a.b]\nstrict = true", None, "there is a table 'b' inside"),
        ('algorithm = "direct"', None, "this is an entry, not a table"),
        ("[conv1", None, "this is no TOML"),
    ],
)  # fmt: skip
def test_refusals(tmp_path: Path, text: str, node: str | None, why: str) -> None:
    error = refused(tmp_path / "o.toml", text)
    assert error.node == node and any(part in str(error) for part in why.split("|")), str(error)
    line = 3 if "f16" in text else 1
    assert error.file == (str(tmp_path / "o.toml") if "TOML" in why else f"{tmp_path / 'o.toml'}:{line}")


def test_a_file_as_some_editors_write_it(tmp_path: Path) -> None:
    (tmp_path / "o.toml").write_bytes(b'\xef\xbb\xbf["conv1"]\r\nstrict = true\r\n')
    assert [(o.pattern, o.strict) for o in read_overrides(tmp_path / "o.toml")] == [("conv1", True)]


def test_operators_without_f64(tmp_path: Path) -> None:
    import onnx

    model = onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 20]> g (float[2, 3] x) => (float[2, 3] z) '
        "{ [drawn] y = RandomNormalLike(x) [cast] i = Cast<to = 7>(x) [back] f = Cast<to = 1>(i) z = Add(f, x) }"
    )
    (tmp_path / "o.toml").write_text('["cast"]\nprecision = "f64"\n')
    run = Compilation(Options(mcpu="x86-64-v3", override=tmp_path / "o.toml"), Told())
    program = run.import_model(model, "model")
    with pytest.raises(OnnxcError, match="f64 is not possible") as error:
        run.run_passes(program, "loops")
    assert error.value.node == "cast" and error.value.why == "it has no results of floating point"


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(OnnxcError, match="overrides cannot be read"):
        read_overrides(tmp_path / "none.toml")
