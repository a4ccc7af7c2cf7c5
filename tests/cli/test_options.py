"""Options are checked when they are made, and every wrong one is told by name."""

from __future__ import annotations

from pathlib import Path

import numpy as np
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
        ({"mcpu": 3}, "mcpu is set to 3: it is a text or None"),
        ({"dims": 3}, "dims is set to 3: it is a mapping"),
        ({"dims": {"batch": True}}, "dim 'batch' is set to True"),
        ({"variants": None}, "variants is set to None: it is a sequence of texts"),
        ({"variants": {"batch": 1}}, "variants is set to {'batch': 1}: it is a sequence of texts"),
        ({"variants": iter(["batch=1"])}, "it is a sequence of texts"),
        ({"isa": None}, "isa is set to None: it is a sequence of texts"),
        ({"tuning": 3}, "tuning is set to 3: it is a path"),
        ({"override": {"conv1": {"algorithm": "direct"}}}, "override is set to .*: it is a path"),
        ({"strict": "no"}, "strict is set to 'no': it is True or False"),
        ({"cache": None}, "cache is set to None: it is True or False"),
    ],
)
def test_wrong_options_are_named(wrong: dict[str, object], told: str) -> None:
    with pytest.raises(OnnxcError, match=told) as caught:
        Options.of(**wrong)
    assert caught.value.exit_code == 2


def test_integers_of_numpy_are_integers() -> None:
    made = Options.of(dims={"batch": np.int64(2)}, threads=np.int32(3))
    assert made.dims == {"batch": 2} and made.threads == 3
    assert type(made.threads) is type(made.dims["batch"]) is int


@pytest.mark.parametrize(
    ("output", "symbol"), [("m.so", "m"), ("a/b-c.d.so", "b_c"), ("3d.so", "m3d"), ("é.o", "m_"), (".so", "model")]
)
def test_symbols_are_made_from_the_output(output: str, symbol: str) -> None:
    assert Options().symbol(Path(output)) == symbol
    assert Options(name="own").symbol(Path(output)) == "own"
