"""What --variant may say, and what is said to it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnxc.errors import OnnxcError
from onnxc.manifest import Guard, Value
from onnxc.options import Options
from onnxc.realisations import realisations, targets_for
from onnxc.variants import Bounds, find_variants, read_spec

INPUTS = (Value("x", 1, ("batch", 3, "h", None)), Value("mask", 1, ("batch", 7)))
DIMS = {"batch": 0, "h": 2, "x.3": 3}


@pytest.mark.parametrize(
    ("text", "name", "guards"),
    [
        ("batch=1", "batch=1", [Guard(0, 1, 1)]),
        ("batch = 1 , h=32", "batch=1,h=32", [Guard(0, 1, 1), Guard(2, 32, 32)]),
        ("x.3=5..9", "x.3=5..9", [Guard(3, 5, 9)]),
        ("x.2%32=0", "h%32=0", [Guard(2, multiple=32)]),
        ("mask.0=4", "batch=4", [Guard(0, 4, 4)]),
        ("h%4=0,h%6=0", "h%12=0", [Guard(2, multiple=12)]),
        ("h=1..100,h%32=0", "h%32=0,h=32..96", [Guard(2, 32, 96, 32)]),
        ("h=1..60,h%32=0", "h=32", [Guard(2, 32, 32)]),
        ("h=8,x.2=1..9,h%4=0", "h=8", [Guard(2, 8, 8)]),
        ("h=7..7", "h=7", [Guard(2, 7, 7)]),
        ("batch=0", "batch=0", [Guard(0, 0, 0)]),
        ("h%140737488355328=0,h=0", "h=0", [Guard(2, 0, 0)]),
        ("x.2%99999999=0,x.2%99999998=0,h=0..9", "h=0", [Guard(2, 0, 0)]),
        (f"h=2..{10**30}", "h=2..140737488355328", [Guard(2, 2, 1 << 47)]),
    ],
)
def test_conditions(text: str, name: str, guards: list[Guard]) -> None:
    (variant,) = find_variants([read_spec(text)], INPUTS)
    assert variant.name == name
    assert list(variant.guards) == guards


def test_a_name_of_two_lines() -> None:
    (variant,) = find_variants([read_spec("a\nb%2=0,a\nb=1..5")], [Value("x", 1, ("a\nb",))])
    assert variant.guards == (Guard(0, 2, 4, 2),)
    (variant,) = find_variants([read_spec("a\nb=3")], [Value("x", 1, ("a\nb",))])
    assert variant.values == {"a\nb": 3}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "a condition is empty"),
        ("batch=1,", "a condition is empty"),
        ("batch", "'batch' is no condition"),
        ("batch=x", "'batch=x' is no condition"),
        ("batch=-1", "'batch=-1' is no condition"),
        ("batch=1..", "'batch=1..' is no condition"),
        (
            "h%32=1",
            "the model has no free dim 'h%32' (hint: conditions are NAME=V, NAME=L..H or NAME%M=0, with commas "
            "between them: a remainder is 0)",
        ),
        ("h%0=0", "says nothing"),
        ("h%1=0", "says nothing"),
        ("h=9..5", "the range 9..5 is empty"),
        ("h=1,h=2", "no size of 'h' meets all its conditions"),
        ("h=1,x.2=2", "no size of 'h' meets all its conditions"),
        ("h=33..63,h%32=0", "no size of 'h' meets all its conditions"),
        ("n=1", "the model has no free dim 'n' (hint: its free dims are batch, h, x.3)"),
        ("x.1=3", "dim 'x.1' is fixed to 3"),
        ("x.4=3", "the model has no free dim 'x.4'"),
        ("h=140737488355328", "'h' would be larger than any memory"),
        (f"h={10**30}..{10**31}", "'h' would be larger than any memory"),
        (f"h%{10**15}=0", "but for 0, 'h' would be larger than any memory (hint: say h=0)"),
        ("h%99999999=0,x.2%99999998=0", "but for 0, 'h' would be larger than any memory"),
        ("h=٣", "is no condition"),
    ],
)
def test_wrong_conditions(text: str, why: str) -> None:
    with pytest.raises(OnnxcError) as caught:
        find_variants([read_spec(text)], INPUTS)
    assert why in str(caught.value) and f"variant '{text}'" in str(caught.value)
    assert caught.value.exit_code == 2


def test_duplicates() -> None:
    specs = [read_spec(text) for text in ("batch=1,h=1..60,h%32=0", "h=32,x.0=1")]
    with pytest.raises(OnnxcError, match=r"takes the same shapes as 'batch=1,h=1\.\.60,h%32=0'"):
        find_variants(specs, INPUTS)


def test_a_name_that_is_a_place() -> None:
    """--dim would bind both."""
    x, z = Value("x", 1, ("z.0",)), Value("z", 1, (None,))
    for inputs in ((x, z), (z, x)):
        with pytest.raises(OnnxcError, match="'z.0' is the name of one dim and the place of another"):
            find_variants([read_spec("x.0=1")], inputs)


def test_no_free_dim() -> None:
    with pytest.raises(OnnxcError, match="all its dims are fixed, by the model or by --dim"):
        find_variants([read_spec("n=1")], (Value("x", 1, (3,)),))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"variants": "batch=1"}, "it is a sequence of texts"),
        ({"variants": ["batch"]}, "'batch' is no condition"),
        ({"generic": False}, "nothing to compile"),
        ({"isa": ("x86-64-v3",), "mcpu": "native"}, "the CPU is named twice"),
        ({"isa": ("x86-64-v3", "")}, "no CPU is named"),
    ],
)
def test_wrong_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(OnnxcError, match=message) as caught:
        Options.of(**options)
    assert caught.value.exit_code == 2


def test_isa_best_first() -> None:
    targets = targets_for(("x86-64-v2", "x86-64-v4", "haswell"), None, "x86_64")
    assert [target.cpu for target in targets] == ["x86-64-v4", "haswell", "x86-64-v2"]


@pytest.mark.parametrize(
    ("isa", "why"),
    [
        (("x86-64-v3", "x86-64-v3"), "'x86-64-v3' would never run: it is named twice"),
        (("haswell", "broadwell"), "'broadwell' would never run: it has the same CPU features as 'haswell'"),
        (("x86-64-v3", "pentium5000"), "unknown CPU 'pentium5000'"),
    ],
)
def test_wrong_isa(isa: tuple[str, ...], why: str) -> None:
    with pytest.raises(OnnxcError, match=why) as caught:
        targets_for(isa, None, "x86_64")
    assert caught.value.exit_code == 2


def test_order_and_symbols() -> None:
    targets = targets_for(("x86-64-v3", "x86-64-v4"), None, "x86_64")
    variants = find_variants([read_spec("batch=1")], INPUTS)
    made = realisations(variants, True, targets)
    expected = [("batch=1", "x86-64-v4"), ("generic", "x86-64-v4"), ("batch=1", "x86-64-v3"), ("generic", "x86-64-v3")]
    assert [(one.variant.name, one.target.cpu) for one in made] == expected
    assert len({one.suffix for one in made}) == 4
    assert [one.suffix for one in realisations([], True, targets[:1])] == [""]


bounds = st.builds(
    lambda low, size, multiple: Bounds(low, low + size) & Bounds(multiple=multiple),
    st.integers(0, 50), st.integers(0, 50), st.integers(1, 12),
).filter(lambda b: b is not None)  # fmt: skip


@given(bounds, bounds)
def test_bounds_meet(a: Bounds, b: Bounds) -> None:
    def within(x: Bounds, d: int) -> bool:
        return x.low <= d <= x.high and d % x.multiple == 0

    both = a & b
    for d in range(110):
        assert (within(a, d) and within(b, d)) == (both is not None and within(both, d))
