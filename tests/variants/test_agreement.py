"""Variants agree: with the generic code on any shape, with any number of threads, and C with Python."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import ModelProto, numpy_helper

import onnxc
from onnxc.runtime import InferenceSession, SessionError
from tests.runtime import handmade
from tests.runtime.handmade import Workshop
from tests.runtime.test_embedding import libc
from tests.variants import models

TOKENS = ["batch=1,seq=1", "batch=1", "batch=2..4,seq%4=0", "seq%8=0", "seq=2..12"]
SEQUENCES = ["batch=1,seq=7", "seq=1..64", "seq%32=0", "seq=65..128", "seq=150"]
IMAGES = ["batch=1,h=24,w=24", "batch=1,h=30..40", "h%8=0,w%8=0", "batch=2..3"]


def build(folder: Path, name: str, model: ModelProto, specs: list[str], **options: object) -> None:
    onnxc.compile(model, folder / f"{name}.so", mcpu="native", variants=specs, **options)
    onnxc.compile(model, folder / f"{name}_generic.so", mcpu="native", **options)


@pytest.fixture(scope="module")
def folder(once) -> Path:
    return once("agreement", build_all)


def build_all(folder: Path) -> None:
    build(folder, "tokens", models.tokens(), TOKENS)
    build(folder, "attention", models.attention(), SEQUENCES)
    build(folder, "strict", models.image(), IMAGES, strict=True)
    build(folder, "image", models.image(), IMAGES)


def results(folder: Path, name: str, shape: tuple[int, ...], threads: int) -> tuple[np.ndarray, np.ndarray]:
    x = np.random.default_rng(sum(shape)).standard_normal(shape, dtype=np.float32)
    (y,) = session(folder / f"{name}.so", threads).run(None, {"x": x})
    (expected,) = session(folder / f"{name}_generic.so", 1).run(None, {"x": x})
    return y, expected


def session(path: Path, threads: int, known: dict[tuple[Path, int], InferenceSession] = {}) -> InferenceSession:  # noqa: B006
    """One context for all examples, so that every run meets what another shape has left there."""
    if (path, threads) not in known:
        known[path, threads] = InferenceSession(path, threads=threads)
    return known[path, threads]


quick = settings(max_examples=60)


@given(batch=st.integers(0, 6), seq=st.integers(0, 20), threads=st.integers(1, 2))
@quick
def test_tokens(folder: Path, batch: int, seq: int, threads: int) -> None:
    y, expected = results(folder, "tokens", (batch, seq, 48), threads)
    np.testing.assert_array_equal(y, expected)


@given(batch=st.integers(1, 3), seq=st.integers(1, 160), threads=st.integers(1, 2))
@quick
def test_attention(folder: Path, batch: int, seq: int, threads: int) -> None:
    """Keys in one block or in several, known to be so or found at run time."""
    y, expected = results(folder, "attention", (batch, seq, 32), threads)
    np.testing.assert_array_equal(y, expected)
    x = np.random.default_rng(batch + seq + 32).standard_normal((batch, seq, 32), dtype=np.float32).astype(float)
    w = numpy_helper.to_array(models.attention().graph.initializer[0]).astype(float)
    q, k = (a.reshape(batch, seq, 2, 16).transpose(0, 2, 1, 3) for a in (x @ w, x))
    e = np.exp(q @ k.transpose(0, 1, 3, 2) / 4)
    wanted = (e / e.sum(-1, keepdims=True) @ k).transpose(0, 2, 1, 3).reshape(x.shape)
    np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-5)


@given(batch=st.integers(1, 4), h=st.integers(16, 42), w=st.sampled_from([16, 24, 31, 40]), threads=st.integers(1, 2))
@quick
def test_images(folder: Path, batch: int, h: int, w: int, threads: int) -> None:
    """Bit for bit where the algorithms are the same, else close."""
    y, expected = results(folder, "strict", (batch, 3, h, w), threads)
    np.testing.assert_array_equal(y, expected)
    y, expected = results(folder, "image", (batch, 3, h, w), threads)
    assert np.abs(y - expected).max() <= 1e-5 * np.abs(expected).max()


def test_c_and_python(tmp_path: Path) -> None:
    """The same picks, explanations and messages; the context's memory serves all variants."""
    options = {"variants": TOKENS, "generic": False}
    onnxc.compile(models.tokens(), tmp_path / "picks.o", name="picks", **options)
    onnxc.compile(models.tokens(), tmp_path / "picks.so", name="picks", **options)
    workshop = Workshop(tmp_path)
    flags = ["-g0", "-O1", "-std=c11", *handmade.WARNINGS, "-target", "x86_64-linux-gnu.2.17", "-fno-sanitize=all"]
    source = Path(__file__).with_name("picks.c")
    workshop.zig(["cc", "-c", *flags, "-iquote", handmade.STUB, source, "-o", "main.o"])
    loader = "/lib64/ld-linux-x86-64.so.2"
    workshop.zig(["ld.lld", "-pie", "-dynamic-linker", loader, "-o", "picks", "main.o", "picks.o", libc()])
    shapes = [(5, 16), (1, 1), (1, 7), (2, 4), (5, 7), (6, 13), (1, 16), (5, 16)]
    texts = ["x".join(map(str, (*shape, 48))) for shape in shapes]
    done = subprocess.run([tmp_path / "picks", *texts], capture_output=True, text=True, timeout=600, check=True)
    expected: list[str] = []
    session = InferenceSession(tmp_path / "picks.so", trace=expected.append)
    for shape in shapes:
        try:
            (y,) = session.run(None, {"x": np.zeros((*shape, 48), np.float32)})
        except SessionError as error:
            expected.append(str(error))
            continue
        assert session.variant is not None
        expected.append(f"{session.variant.name} {y.ndim}")
    assert done.stdout.splitlines() == [*expected, "memory used again: 1"]
    assert any("takes batch=6,seq=13; it takes batch=1,seq=1; " in line for line in expected)
