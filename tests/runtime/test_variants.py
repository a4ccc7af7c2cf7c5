"""Which variant runs, and what is said when none does."""

from __future__ import annotations

import re

import numpy as np
import pytest

from onnxc import runtime
from onnxc.manifest import Guard, Variant
from onnxc.runtime import InferenceSession
from tests.runtime import handmade
from tests.runtime.handmade import Workshop

GENERIC = handmade.variant("add")


def scaled(name: str, **facts: object) -> Variant:
    return handmade.variant("scale", name, prepare="add", **facts)


def session(workshop: Workshop, name: str, *variants: Variant, **options: object) -> InferenceSession:
    path = workshop.library(handmade.add(name, variants=variants))
    return InferenceSession(path, **options)  # type: ignore[arg-type]


def served(s: InferenceSession, rows: int) -> str | None:
    x = np.ones((rows, 4), np.float32)
    (y,) = s.run(None, {"x": x})
    np.testing.assert_array_equal(y, x + (1 if str(s.variant).startswith("generic") else 100))
    return s.variant.name if s.variant else None


def test_most_specific_first(workshop: Workshop) -> None:
    variants = [
        GENERIC,
        scaled("wide", guards=(Guard(0, 1, 100),)),
        scaled("narrow", guards=(Guard(0, 5, 9),)),
        scaled("eights", guards=(Guard(0, multiple=8),)),
        scaled("sixteens", guards=(Guard(0, multiple=16),)),
        scaled("one", guards=(Guard(0, 1, 1),)),
        scaled("never", guards=(Guard(0, 1, 1), Guard(1, 3, 3))),
    ]
    s = session(workshop, "guarded", *variants)
    assert s.variant is None
    picks = {0: "sixteens", 1: "one", 2: "wide", 5: "narrow", 8: "eights", 16: "sixteens", 101: "generic"}
    for rows, name in picks.items():
        assert served(s, rows) == name
    for rows in (1, 101, 1, 8, 2):  # one context, there and back
        assert served(s, rows) == picks[rows]


def test_instruction_sets(workshop: Workshop) -> None:
    fast = scaled("fast", features=("ssse3",), guards=(Guard(0, 1, 4),))
    fastest = scaled("fastest", features=("ssse3", "sse4.1"), guards=(Guard(0, 1, 4),))
    variants = (fastest, fast, GENERIC)
    s = session(workshop, "dispatched", *variants)
    bits = {name: 1 << bit for bit, name in enumerate(s.library.feature_names)}
    assert served(s, 2) == "fastest"
    assert served(session(workshop, "dispatched", *variants, isa_mask=~bits["sse4.1"]), 2) == "fast"
    assert served(session(workshop, "dispatched", *variants, isa_mask=0), 2) == "generic"


def test_no_variant_lists_the_shapes(workshop: Workshop) -> None:
    s = session(
        workshop,
        "without_generic",
        scaled("one", guards=(Guard(0, 1, 1),)),
        scaled("range", guards=(Guard(0, 4, 8),)),
        scaled("eights", guards=(Guard(0, 0, 64, 8),)),
    )
    message = "no variant of model 'without_generic' takes N=10; it takes N=1; N%8=0,N=0..64; N=4..8"
    with pytest.raises(runtime.InputError, match=re.escape(message)):
        served(s, 10)
    assert served(s, 8) == "eights"


def test_illegal_shape_is_told_by_the_model(workshop: Workshop) -> None:
    s = session(workshop, "legal", GENERIC)
    with pytest.raises(runtime.ModelError, match=re.escape("node 'Add_0' (Add): the batch is too large")):
        s.run(None, {"x": np.zeros((1_000_001, 4), np.float32)})
    assert served(s, 1) == "generic"
