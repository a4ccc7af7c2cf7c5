"""The file of tuning records: what is read, what is warned of, which of several records is used."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onnxc.errors import OnnxcError
from onnxc.targets import target_for
from onnxc.tuning.output_file import OutputFile
from onnxc.tuning.records import Record, Records

TARGET = target_for("x86-64-v3")
SIGNATURE = "matmul(f32[128,768], const f32[768,768]) -> f32[128,768]: MatMul(a0,a1)"
RECORD = Record(SIGNATURE, TARGET.key, {"schedule": {"rows": 6, "vectors": 2}}, ns=80.0, default_ns=100.0, rounds=9)
WINOGRAD = replace(RECORD, signature="kernel.conv(f32[1,8,8,8])", choice={"algorithm": "winograd4"})


def edited(**changes: object) -> bytes:
    """The record's line with other entries; None: without the entry."""
    entries = {**json.loads(RECORD.line()), **changes}
    return json.dumps({k: v for k, v in entries.items() if v is not None}).encode()


def read(path: Path, *lines: bytes) -> tuple[Records, list[str]]:
    path.write_bytes(b"\n".join([*lines, b""]))
    return Records.read(path)


def test_what_is_written_is_read(tmp_path: Path) -> None:
    records = Records([RECORD, WINOGRAD])
    records.write(tmp_path / "r.jsonl")
    again, warnings = Records.read(tmp_path / "r.jsonl")
    assert list(again) == list(records) and not warnings
    choices = again.choices(TARGET)
    assert choices.schedule(SIGNATURE) == {"rows": 6, "vectors": 2} and choices.algorithm(SIGNATURE) is None
    assert choices.algorithm(WINOGRAD.signature) == "winograd4"
    assert choices.origin(WINOGRAD.signature, "algorithm") == f"{tmp_path / 'r.jsonl'}:1"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (RECORD.line().encode()[:-20], "the line is cut off"),
        (b'{"onnxc": "0.1', "the line is cut off"),
        (b"half a {line", "this is no JSON"),
        (b'{"half": a line}', "this is no JSON"),
        (b"\xff\xfe", "this is no text in UTF-8"),
        (b"[1, 2]", "this is no tuning record"),
        (b'{"input": ["v0.2", 1]}', "this is no tuning record"),
        (b"[" * 100000, "this is no JSON that a record could be"),
        (b'{"format": NaN}', "this is no JSON that a record could be"),
        (edited(format=2), "its format 2 is newer than this onnxc reads (1)"),
        (edited(format=10**400), f"its format {10**39} is newer"),
        (edited(target=None), "its 'target' is missing"),
        (edited(ns="fast"), "its 'ns' is 'fast'"),
        (edited(ns=-1.0), "its 'ns' is -1.0"),
        (edited(ns=5e-324, default_ns=1.0), "its 'ns' is 5e-324"),
        (edited(default_ns=1e308), "its 'default_ns' is 1e+308"),
        (edited(ns=10**400), "its 'ns' is 1000"),
        (edited(spread=10**400), "its 'spread' is 1000"),
        (RECORD.line().encode().replace(b'"spread": 0.0', b'"spread": 1e999'), "its 'spread' is inf"),
        (edited(target="\ud800"), "this is no text in UTF-8"),
        (edited(threads=True), "its 'threads' is True"),
        (edited(threads=0), "its 'threads' is 0"),
        (edited(rounds=-1), "its 'rounds' is -1"),
        (edited(choice={"schedule": {"rows": 1.5}}), "its 'schedule' is {\"rows\": 1.5}, not integers and words by names"),
        (edited(choice={"algorithm": "direct", "schedule": {}}), "its 'choice' is none of algorithm, schedule, fusion, turns"),
        (edited(choice={"schedule": {"rows": 1 << 70}}), "its 'schedule' is {"),
        (edited(ns=120.0), "by its own times the heuristic's choice is faster"),
    ],
)  # fmt: skip
def test_a_line_that_is_no_record(tmp_path: Path, line: bytes, why: str) -> None:
    records, (warning,) = read(tmp_path / "r.jsonl", b"", line, WINOGRAD.line().encode())
    assert warning.startswith(f"{tmp_path / 'r.jsonl'}:2: ") and why in warning
    assert list(records) == [WINOGRAD]


@given(st.binary(max_size=80), st.integers(0, 300))
def test_any_bytes_are_survived(tmp_path_factory: pytest.TempPathFactory, noise: bytes, at: int) -> None:
    line = RECORD.line().encode()
    path = tmp_path_factory.getbasetemp() / "noise.jsonl"
    path.write_bytes(line[:at] + noise + line[at + len(noise) :])
    records, warnings = Records.read(path)
    assert len(records) or warnings


def test_a_file_as_some_editors_write_it(tmp_path: Path) -> None:
    records, warnings = read(tmp_path / "r.jsonl", b"\xef\xbb\xbf" + RECORD.line().encode() + b"\r")
    assert list(records) == [RECORD] and not warnings


def test_the_better_record_is_used_whatever_the_order(tmp_path: Path) -> None:
    rivals = [
        RECORD,
        replace(RECORD, choice={"schedule": {"rows": 4, "vectors": 3}}, ns=10.0, verified=False),
        replace(RECORD, choice={"schedule": {"rows": 3, "vectors": 3}}, onnxc="0.0.9", ns=10.0),
        replace(RECORD, choice={"schedule": {"rows": 2, "vectors": 3}}, ns=70.0),
        replace(RECORD, choice={"schedule": {"rows": 1, "vectors": 3}}, date="2026-01-01", ns=90.0),
    ]
    for order in itertools.permutations(rivals):
        assert list(Records(order)) == [rivals[-1]]
        assert list(Records(order[:2]).merge(Records(order[2:]))) == [rivals[-1]]
    _, warnings = read(tmp_path / "r.jsonl", *(r.line().encode() for r in rivals[:2]))
    path = tmp_path / "r.jsonl"
    assert warnings == [f"{path}:2: contradicts {path}:1 on the same problem, which is the better record and is used"]


def test_records_of_as_many_threads_come_first() -> None:
    two = replace(RECORD, threads=2, choice={"schedule": {"rows": 3}})
    records = Records([RECORD, two])
    assert records.choices(TARGET, 1).schedule(SIGNATURE) == RECORD.choice["schedule"]
    assert records.choices(TARGET, 2).schedule(SIGNATURE) == two.choice["schedule"]
    assert records.choices(TARGET).schedule(SIGNATURE) == two.choice["schedule"]
    assert Records([two]).choices(TARGET, 1).schedule(SIGNATURE) == two.choice["schedule"]


def test_the_nearest_record() -> None:
    small, large = (replace(RECORD, signature=SIGNATURE.replace("128", size)) for size in ("64", "1024"))
    choices = Records([small, large, WINOGRAD]).choices(TARGET)
    assert choices.nearest(SIGNATURE) == small.signature
    assert choices.nearest("conv(f32[1,2,2,8])") is None


def test_records_of_newer_versions_stay(tmp_path: Path) -> None:
    """A file that is written again keeps the lines that only others can read; those of another file come along."""
    first, second = edited(format=2), edited(format=3)
    records, warnings = read(tmp_path / "a.jsonl", first, RECORD.line().encode(), first)
    assert len(records) == 1 and len(warnings) == 2
    other, _ = read(tmp_path / "b.jsonl", second, first)
    records.merge(other).write(tmp_path / "a.jsonl")
    assert (tmp_path / "a.jsonl").read_bytes() == b"".join(
        line + b"\n" for line in (RECORD.line().encode(), first, second)
    )
    file = OutputFile(tmp_path / "c.jsonl", records.newer)
    (tmp_path / "c.jsonl").write_bytes(second)  # somebody else's, meanwhile
    file.write(Records([RECORD]))
    file.write(Records([RECORD]))
    assert (tmp_path / "c.jsonl").read_bytes() == (tmp_path / "a.jsonl").read_bytes()


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(OnnxcError, match="tuning records cannot be read") as error:
        Records.read(tmp_path / "none.jsonl")
    assert error.value.exit_code == 2


def test_two_that_write_one_file(tmp_path: Path) -> None:
    """Each keeps what the other has found, and may still drop its own; what was there at the start is replaced."""
    path = tmp_path / "r.jsonl"
    old, a, b, c = (Record(name, "here", {"schedule": {"rows": 1}}, 10.0, 20.0) for name in ("old", "a", "b", "c"))
    Records([old]).write(path)
    one, other = OutputFile(path), OutputFile(path)
    one.write(Records([a]))
    other.write(Records([b]))
    one.write(Records([a, c]))
    assert [record.signature for record in Records.read(path)[0]] == ["a", "b", "c"]
    one.write(Records([a]))
    assert [record.signature for record in Records.read(path)[0]] == ["a", "b"]
    path.unlink()
    one.write(Records([c]))
    assert [record.signature for record in Records.read(path)[0]] == ["b", "c"]
