"""This file tests dims: every operation against plain ints, canonical form, text, proofs."""

import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onnxc.dialects import dims

NAMES = ["N", "H", "W", "odd name", "it's", "s0"]
VALUES = st.fixed_dictionaries({name: st.integers(-4 if name == "s0" else 0, 12) for name in NAMES})


def _combine(children):
    pairs = st.tuples(children, children)
    positive = st.integers(1, 9)
    return st.one_of(
        pairs.map(lambda p: ("add", *p)), pairs.map(lambda p: ("sub", *p)), pairs.map(lambda p: ("mul", *p)),
        pairs.map(lambda p: ("min", *p)), pairs.map(lambda p: ("max", *p)),
        pairs.map(lambda p: ("floordiv", *p)), pairs.map(lambda p: ("mod", *p)),
        st.tuples(children, positive).map(lambda p: ("floordiv", *p)),
        st.tuples(children, positive).map(lambda p: ("mod", *p)),
    )  # fmt: skip


TREES = st.recursive(st.one_of(st.sampled_from(NAMES), st.integers(-6, 12)), _combine, max_leaves=7)
OPERATIONS = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b,
    "floordiv": lambda a, b: a // b, "mod": lambda a, b: a % b, "min": dims.min, "max": dims.max,
}  # fmt: skip
NUMBERS = OPERATIONS | {"min": min, "max": max}


def fold(tree, leaf, operations):
    if isinstance(tree, tuple):
        return operations[tree[0]](*(fold(part, leaf, operations) for part in tree[1:]))
    return leaf(tree) if isinstance(tree, str) else tree


def build(tree):
    return fold(tree, dims.symbol, OPERATIONS)


@settings(max_examples=400)
@given(TREES, VALUES)
def test_every_operation_agrees_with_ints(tree, values):
    try:
        expected = fold(tree, values.__getitem__, NUMBERS)
        built = build(tree)
    except ZeroDivisionError:
        return
    assert dims.evaluate(built, values) == expected
    assert dims.evaluate(dims.substitute(built, {"N": values["N"]}), values) == expected
    low, high = dims.bounds(built)
    assert low <= expected <= high
    if dims.nonnegative(built):
        assert expected >= 0


@settings(max_examples=200)
@given(TREES)
def test_text_round_trips_to_the_same_object(tree):
    try:
        built = build(tree)
    except ZeroDivisionError:
        return
    if isinstance(built, int):
        assert dims.parse(str(built)) == built
    else:
        assert dims.parse(str(built)) is built
        assert pickle.loads(pickle.dumps(built)) is built


@given(st.integers(0, 5), st.integers(0, 5), st.integers(0, 5))
def test_broadcast_is_the_one_that_is_not_one(a, b, c):
    known = {"N": a, "H": b, "W": c}
    n, h, w = map(dims.symbol, known)
    if len({a, b, c} - {1}) <= 1:
        expected = next(iter({a, b, c} - {1}), 1)
        assert dims.evaluate(dims.broadcast(dims.broadcast(n, h), w), known) == expected
        assert dims.broadcast(n, dims.broadcast(h, w)) is dims.broadcast(dims.broadcast(w, n), h)


N, H, W = map(dims.symbol, "NHW")


@pytest.mark.parametrize(
    ("built", "text"),
    [
        (N * 4 // 4, "N"),
        (4 * N // N, "4"),
        (N * (H + 1) * 3 // (N * 3), "H+1"),
        (N * N + 2 * N * H + H * H - (N + H) * (N + H), "0"),
        ((2 * N + 1) // 2, "N"),
        ((2 * N + 1) // 4, "N//2"),
        ((N - 1) // 2 + 1, "(N+1)//2"),
        (((N - 1) // 2 + 1 - 1) // 2 + 1, "(N+3)//4"),
        ((6 * N) % 4, "2*(N%2)"),
        (N // 2 * 2 + 1, "2*(N//2)+1"),
        (-(N // 2), "-(N//2)"),
        (N * H // (N * 2), "H//2"),
        (dims.min(N, N + 1), "N"),
        (dims.max(N // 2, N), "N"),
        (dims.min(dims.min(N, 512), N), "min(N,512)"),
        (dims.max(0, N), "N"),
        (dims.broadcast(N, 1), "N"),
        (dims.broadcast(N, 4), "4"),
        (dims.broadcast(2 * N, H), "2*N"),
        (dims.broadcast(N, H), "broadcast(H,N)"),
        (dims.ceildiv(N, 2), "(N+1)//2"),
        (dims.symbol("batch size"), "'batch size'"),
    ],
)
def test_canonical_form(built, text):
    assert str(built) == text


@pytest.mark.parametrize("text", ["", "N+", "(N", "N N", "2*", "N/2", "min(N", "'N"])
def test_bad_text_is_refused(text):
    with pytest.raises(dims.DimSyntaxError):
        dims.parse(text)


def test_emit_computes_a_shared_atom_once():
    class Recorder:
        def __init__(self):
            self.lines = []

        def const(self, value):
            return str(value)

        def __getattr__(self, op):
            def record(a, b):
                self.lines.append((op, a, b))
                return f"t{len(self.lines)}"

            return record

    ops = Recorder()
    half = (H + 1) // 2
    dims.emit(half * half + half, lambda name: name, ops)
    assert [op for op, *_ in ops.lines] == ["add", "floordiv", "mul", "add"]


FACTS = st.fixed_dictionaries({
    "H": st.tuples(st.integers(0, 9), st.integers(0, 40) | st.none(), st.integers(1, 6)),
    "odd name": st.tuples(st.integers(0, 9), st.integers(0, 40) | st.none(), st.integers(1, 6)),
})  # fmt: skip


@settings(max_examples=400)
@given(TREES, VALUES, FACTS, st.integers(0, 50))
def test_what_facts_make_of_an_expression_is_the_same_size(tree, values, known, pick):
    ranges = {name: (low, None if more is None else low + more) for name, (low, more, _) in known.items()}
    try:
        facts = dims.Facts(ranges, {name: multiple for name, (_, _, multiple) in known.items()})
    except ValueError as error:
        assert "no size" in str(error)
        return
    for name, (low, _, multiple) in known.items():
        legal = [
            v
            for v in range(low, low + 60)
            if v % multiple == 0 and v <= (200 if ranges[name][1] is None else ranges[name][1])
        ]
        values[name] = legal[pick % len(legal)]
        if multiple > 1:
            values[f"{name}/{multiple}"] = values[name] // multiple
    try:
        expected = fold(tree, values.__getitem__, NUMBERS)
        applied = facts.apply(build(tree))
    except ZeroDivisionError:
        return
    assert dims.evaluate(applied, values) == expected
    assert dims.parse(str(applied)) is applied or dims.parse(str(applied)) == applied
    low, high = dims.bounds(applied)
    assert low <= expected <= high
    if dims.nonnegative(applied):
        assert expected >= 0
    assert dims.evaluate(facts.restore(applied), values) == expected


def test_facts_fold_what_follows_from_them():
    facts = dims.Facts({"n": (1, 512), "one": (1, 1)}, {"h": 32})
    known = {text: str(facts.apply(dims.parse(text))) for text in (
        "h%16", "(h+1)//2", "(h+3)//4%8", "h//64", "min(n,512)", "max(n,1)", "n//513", "one*h", "w",
    )}  # fmt: skip
    assert known == {
        "h%16": "0", "(h+1)//2": "16*'h/32'", "(h+3)//4%8": "0", "h//64": "'h/32'//2", "min(n,512)": "n:1..512",
        "max(n,1)": "n:1..512", "n//513": "0", "one*h": "32*'h/32'", "w": "w",
    }  # fmt: skip
    assert str(facts.restore(facts.apply(dims.parse("(h+1)//2*n")))) in ("16*(h//32)*n", "16*n*(h//32)")


def test_facts_that_no_size_satisfies_are_refused():
    with pytest.raises(ValueError, match=r"no size 'h' satisfies h=33..63, h%32=0"):
        dims.Facts({"h": (33, 63)}, {"h": 32})
