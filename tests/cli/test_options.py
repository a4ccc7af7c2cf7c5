"""Options are checked when they are made, and every wrong one is told by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from onnxc import OnnxcError, Options


@pytest.mark.parametrize(
    ("name", "kind"),
    [("m.so", "shared"), ("m.o", "object"), ("m.a", "archive"), ("m.ll", "llvm-ir"), ("m.s", "assembly")],
)
def test_suffix_decides(name: str, kind: str) -> None:
    assert Options().kind(Path(name)) == kind


def test_mlir_needs_a_level() -> None:
    assert Options(emit="loops").kind(Path("m.mlir")) == "mlir"
    with pytest.raises(OnnxcError, match=r"which level.*--emit graph"):
        Options().kind(Path("m.mlir"))
    with pytest.raises(OnnxcError, match=r"not as '\.so'"):
        Options(emit="loops").kind(Path("m.so"))


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"dims": {"batch": -1}}, "dim 'batch' is set to -1"),
        ({"dims": {"batch": "1"}}, "dim 'batch' is set to '1'"),
        ({"emit": "affine"}, "no level is named 'affine'.*graph, tensor"),
        ({"threads": 0}, "threads is set to 0"),
        ({"jobs": 0}, "jobs is set to 0"),
        ({"name": "a-b"}, "'a-b' cannot prefix C symbols"),
        ({"mcpus": "native"}, "no option is named 'mcpus'.*mcpu"),
    ],
)
def test_wrong_options_are_named(wrong: dict[str, object], told: str) -> None:
    with pytest.raises(OnnxcError, match=told) as caught:
        Options.of(**wrong)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("output", "symbol"), [("m.so", "m"), ("a/b-c.d.so", "b_c"), ("3d.so", "m3d"), ("é.o", "m_"), (".so", "model")]
)
def test_symbols_are_made_from_the_output(output: str, symbol: str) -> None:
    assert Options().symbol(Path(output)) == symbol
    assert Options(name="own").symbol(Path(output)) == "own"
