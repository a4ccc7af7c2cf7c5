"""Compiled variants: which of them runs, what it gives, and what is told."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto

import onnxc
from onnxc.errors import OnnxcError
from onnxc.runtime import InferenceSession, InputError, ModelError
from tests.variants import models

SPECS = ["batch=1,seq=1", "batch=1,seq=8", "batch=1", "batch=2..4,seq%4=0", "seq%8=0", "seq=1..5", "seq=1..16"]


def rows(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape, dtype=np.float32)


@pytest.fixture(scope="module")
def folder(once) -> Path:
    return once("picked variants", compile_all)


def compile_all(folder: Path) -> None:
    onnxc.compile(models.tokens(), folder / "plain.so", mcpu="native")
    onnxc.compile(models.tokens(), folder / "tokens.so", mcpu="native", variants=SPECS)
    onnxc.compile(models.tokens(), folder / "fixed.so", mcpu="native", variants=SPECS[:2], generic=False)
    onnxc.compile(models.tokens(), folder / "isa.so", variants=["batch=1"], isa=("x86-64-v2", "x86-64-v3"))


PICKS = {
    (1, 1): "batch=1,seq=1", (1, 8): "batch=1,seq=8", (1, 5): "batch=1", (1, 16): "batch=1", (2, 4): "batch=2..4,seq%4=0",
    (3, 16): "seq%8=0", (5, 16): "seq%8=0", (5, 5): "seq=1..5", (5, 6): "seq=1..16", (5, 17): "generic",
}  # fmt: skip


def test_precedence(folder: Path) -> None:
    """Exact before multiple (the larger first) before the narrower range; more conditions before fewer."""
    session = InferenceSession(folder / "tokens.so")
    reference = InferenceSession(folder / "plain.so")
    for shape, name in [*PICKS.items(), *reversed(PICKS.items())]:  # in one context, there and back
        x = rows(*shape, 48)
        (y,), (expected,) = session.run(None, {"x": x}), reference.run(None, {"x": x})
        assert session.variant is not None and session.variant.name == name
        np.testing.assert_array_equal(y, expected)


def test_signature_stays_generic(folder: Path) -> None:
    for name in ("plain", "tokens", "fixed"):
        session = InferenceSession(folder / f"{name}.so")
        assert session.get_inputs()[0].shape == ["batch", "seq", 48]
        assert session.get_outputs()[0].shape == ["batch", "seq", 40]


def test_names_of_dims(tmp_path: Path) -> None:
    """What is no identifier, and no name at all."""
    model = models.tokens(width=8, dims=("a=b", None))
    onnxc.compile(model, tmp_path / "m.so", variants=["a=b=2,x.1=3", "x.0=1..4", "x.1%4=0"])
    session = InferenceSession(tmp_path / "m.so")
    assert session.get_inputs()[0].shape == ["a=b", None, 8] and session.get_outputs()[0].shape == ["a=b", None, 40]
    assert [v.guards for v in session.library.variants] == [("a=b=2", "x.1=3"), ("x.1%4=0",), ("a=b=1..4",), ()]
    for shape, name in (((2, 3), "a=b=2,x.1=3"), ((4, 8), "x.1%4=0"), ((4, 3), "a=b=1..4"), ((5, 3), "generic")):
        session.run(None, {"x": rows(*shape, 8)})
        assert session.variant is not None and session.variant.name == name


def test_facts_of_variants(folder: Path) -> None:
    session = InferenceSession(folder / "tokens.so")
    assert [v.name for v in session.library.variants] == [
        "batch=1,seq=1", "batch=1,seq=8", "batch=1", "seq%8=0", "batch=2..4,seq%4=0", "seq=1..5", "seq=1..16", "generic",
    ]  # fmt: skip
    one = session.library.variants[0]
    assert one.guards == ("batch=1", "seq=1") and one.kernels and one.workspace_bytes is not None
    assert session.library.variants[-1].guards == () and session.library.variants[-1].workspace_bytes is None


def test_trace(folder: Path) -> None:
    lines: list[str] = []
    session = InferenceSession(folder / "tokens.so", trace=lines.append)
    session.run(None, {"x": rows(2, 4, 48)})
    target = session.library.variants[0].target
    assert lines == [
        f"batch=2,seq=4: 'batch=2..4,seq%4=0' for {target}; not 'batch=1,seq=1' for {target}: batch is 2; "
        f"not 'batch=1,seq=8' for {target}: batch is 2; not 'batch=1' for {target}: batch is 2; "
        f"not 'seq%8=0' for {target}: seq is 4"
    ]


def test_no_generic(folder: Path) -> None:
    session = InferenceSession(folder / "fixed.so")
    session.run(None, {"x": rows(1, 8, 48)})
    message = "no variant of model 'fixed' takes batch=2,seq=8; it takes batch=1,seq=1; batch=1,seq=8"
    with pytest.raises(InputError, match=re.escape(message)):
        session.run(None, {"x": rows(2, 8, 48)})
    session.run(None, {"x": rows(1, 1, 48)})


def test_no_generic_tells_each_shape_once(tmp_path: Path) -> None:
    specs = ["batch=1,seq=1", "batch=2,seq=2", "batch=3"]
    options = {"variants": specs, "generic": False, "isa": ("x86-64-v3", "x86-64-v2")}
    onnxc.compile(models.tokens(width=8), tmp_path / "m.so", **options)
    session = InferenceSession(tmp_path / "m.so")
    avx2 = 1 << session.library.feature_names.index("avx2")
    for mask in (None, ~avx2):
        with pytest.raises(InputError) as caught:
            InferenceSession(tmp_path / "m.so", isa_mask=mask).run(None, {"x": rows(4, 2, 8)})
        assert str(caught.value).endswith("takes batch=4,seq=2; it takes batch=1,seq=1; batch=2,seq=2; batch=3")


def test_dims_of_a_name_that_says_nothing(tmp_path: Path) -> None:
    """`?` is what some exporters call each dim that they do not know."""
    model = models.tokens(width=8, dims=("?", "?"))
    onnxc.compile(model, tmp_path / "m.so", variants=["x.0=2,x.1=3"])
    session = InferenceSession(tmp_path / "m.so")
    for shape, name in (((2, 3), "x.0=2,x.1=3"), ((3, 3), "generic")):
        (y,) = session.run(None, {"x": rows(*shape, 8)})
        assert y.shape == (*shape, 40) and session.variant is not None and session.variant.name == name
    onnxc.compile(model, tmp_path / "fixed.so", dims={"x.0": 2, "x.1": 3})
    assert InferenceSession(tmp_path / "fixed.so").get_inputs()[0].shape == [2, 3, 8]


def test_isa(folder: Path) -> None:
    session = InferenceSession(folder / "isa.so")
    bits = {name: 1 << bit for bit, name in enumerate(session.library.feature_names)}
    x = {"x": rows(1, 3, 48)}
    results = []
    lines: list[str] = []
    for mask, target in ((None, "x86-64-v3"), (~bits["fma"], "x86-64-v2"), (~bits["avx2"], "x86-64-v2")):
        session = InferenceSession(folder / "isa.so", isa_mask=mask, trace=lines.append)
        results += session.run(None, x)
        assert session.variant is not None
        assert (session.variant.name, session.variant.target) == ("batch=1", f"x86_64 {target}")
    assert lines[-1].endswith("not 'batch=1' for x86_64 x86-64-v3: this CPU lacks avx2")
    np.testing.assert_allclose(results[1], results[0], rtol=1e-5, atol=1e-6)
    with pytest.raises(onnxc.runtime.CpuError, match=re.escape("but this CPU lacks sse4.2")):
        InferenceSession(folder / "isa.so", isa_mask=~bits["sse4.2"])


def test_same_errors(tmp_path: Path) -> None:
    onnxc.compile(models.reshaping(), tmp_path / "r.so", variants=["m=6", "m=1..3"])
    session = InferenceSession(tmp_path / "r.so")
    messages = set()
    for shape in ((1, 6), (1, 3), (1, 5)):
        with pytest.raises(ModelError) as caught:
            session.run(None, {"x": rows(*shape)})
        messages.add(re.sub(r" [^ ]* elements.*", "", str(caught.value)))
    assert messages == {"node 'rows':"}
    assert session.run(None, {"x": rows(2, 6)})[0].shape == (3, 4)


@pytest.mark.parametrize(("dims", "names"), [(("n", "m"), ("n", "m")), ((None, None), ("x.0", "x.1"))])
def test_errors_name_dims_as_the_model_does(tmp_path: Path, dims: models.Dims, names: tuple[str, str]) -> None:
    """Not as a variant's facts spell them: `3*'m/3':1..4`, or `x_1` for a dim without a name."""
    onnxc.compile(models.reshaping(dims), tmp_path / "r.so", variants=["x.0=1..9,x.1%3=0,x.1=3..12"])
    session = InferenceSession(tmp_path / "r.so")
    for shape in ((1, 3), (1, 5)):
        with pytest.raises(ModelError, match=" elements in parts of 4: ") as caught:
            session.run(None, {"x": rows(*shape)})
        told = str(caught.value).removeprefix("node 'rows': ")
        assert set(re.findall(r"[a-z][\w.']*", told)) == {*names, "elements", "in", "parts", "of", "and", "differ"}
        assert "'" not in told
    n, m = names
    with pytest.raises(OnnxcError, match=rf"f32\[{n}, {m}\], .*: {m} and 5 differ"):
        onnxc.compile(models.product(dims), tmp_path / "p.so", variants=["x.1%8=0,x.1=8..96"])


def test_a_shape_that_the_model_refuses(tmp_path: Path) -> None:
    with pytest.raises(OnnxcError, match=r"node 'rows'.*\(in variant 'n=3,m=3' for x86-64-v3\)") as caught:
        onnxc.compile(models.reshaping(), tmp_path / "r.so", variants=["n=3,m=3"])
    assert caught.value.exit_code == 1
    assert not (tmp_path / "r.so").exists()


@pytest.mark.parametrize(
    ("model", "specs"), [(models.tokens(), SPECS), (models.image(), ["batch=1,h=16,w=16", "h%8=0"])]
)
def test_deterministic(tmp_path: Path, model: ModelProto, specs: list[str]) -> None:
    made = []
    for cache, jobs in ((True, 1), (False, 2)):
        onnxc.compile(model, tmp_path / "m.so", variants=specs, cache=cache, jobs=jobs)
        made.append((tmp_path / "m.so").read_bytes())
    assert made[0] == made[1]
