"""This file reads, writes and merges tuning records: JSON lines, one measured choice each.

    {"onnxc": "0.1.0", "format": 1, "signature": "matmul(f32[128,768], …", "target": "x86_64-…", "threads": 1,
     "choice": {"schedule": {"rows": 6, …}}, "ns": 81234.0, "default_ns": 93210.0, "rounds": 15, "spread": 0.01}

A line that cannot be used costs a warning, never the compilation. The order of lines does not matter: of several
records of one key the better one stays, by `Record.rank`.
"""

from __future__ import annotations

import codecs
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from onnxc import __version__
from onnxc.errors import UNREADABLE, OnnxcError
from onnxc.link import write_output
from onnxc.tuning.choices import RecordedChoices

FORMAT = 1
SLOWER = 1.02  # a winner that is slower than the default by more than noise contradicts itself
SHORTEST, LONGEST = 1e-3, 1e18  # nanoseconds that something may take
LARGEST = 1 << 31  # entries of a schedule are small
Key = tuple[str, str, int, str]


@dataclass(frozen=True)
class Record:
    """One measured choice for a signature on a target: `{"algorithm": NAME}`, `{"schedule": {…}}`, `{"fusion": [NUMBER,
    …]}`, the operators after which a kernel falls apart, or `{"turns": …}`, the kernels after which a chain does.

    ns, default_ns   medians of the winner, and of the heuristic's choice measured beside it
    rounds, spread   how often both were measured, and how far the rounds' ratios lie apart
    times            of an algorithm: median nanoseconds of each that was measured beside the winner
    verified         whether the result was compared with the reference's
    date             when, ISO 8601; "" where nobody noted it
    origin           FILE:LINE that it was read from
    """

    signature: str
    target: str
    choice: Mapping[str, Any] = field(hash=False)
    ns: float
    default_ns: float
    threads: int = 1
    rounds: int = 0
    spread: float = 0.0
    times: Mapping[str, float] = field(default_factory=dict, hash=False)
    verified: bool = True
    date: str = ""
    onnxc: str = __version__
    origin: str = field(default="", compare=False)

    @property
    def key(self) -> Key:
        """Two records of one key are rivals."""
        signature, what = self.problem
        return signature, self.target, self.threads, what

    @property
    def problem(self) -> tuple[str, str]:
        """Signature and what is chosen, as a task's (tasks.py)."""
        return self.signature, next(iter(self.choice))

    @property
    def gain(self) -> float:
        """How many times the default's time is the winner's."""
        return self.default_ns / self.ns

    @property
    def rank(self) -> tuple:
        """The greater, the better: verified, of a newer version, measured later, more often, with more gain."""
        return self.verified, _version(self.onnxc), self.date, self.rounds, self.gain, self.line()

    def given_up_for(self, usual: Mapping[str, Any]) -> Record:
        """The record of the heuristic's choice, in place of this one's; itself where they are the same."""
        if self.choice == usual:
            return self
        return replace(self, choice=usual, ns=self.default_ns, rounds=0, spread=0.0)

    def line(self) -> str:
        """The record as its line, without the line's end."""
        entries = {"onnxc": self.onnxc, "format": FORMAT, "signature": self.signature, "target": self.target}
        entries |= {"threads": self.threads, "choice": _sorted(self.choice), "ns": self.ns}
        entries |= {"default_ns": self.default_ns, "rounds": self.rounds, "spread": self.spread}
        entries |= {"times": _sorted(self.times)} if self.times else {}
        entries |= {} if self.verified else {"verified": False}
        entries |= {"date": self.date} if self.date else {}
        return json.dumps(entries, ensure_ascii=False)


class Records:
    """The best record of each key, and lines of `newer` versions, which stay as they are."""

    def __init__(self, records: Iterable[Record] = (), newer: Iterable[str] = ()) -> None:
        self._best: dict[Key, Record] = {}
        self.newer = sorted(set(newer))
        for record in records:
            self.add(record)

    def __iter__(self) -> Iterator[Record]:
        """In the order of their keys."""
        return iter(record for _, record in sorted(self._best.items()))

    def __len__(self) -> int:
        return len(self._best)

    def add(self, record: Record) -> Record | None:
        """Keeps the better one of `record` and its rival, which it returns."""
        rival = self._best.get(record.key)
        if rival is None or record.rank > rival.rank:
            self._best[record.key] = record
        return rival

    def merge(self, other: Records) -> Records:
        """A new set with the better record of each key."""
        return Records([*self, *other], [*self.newer, *other.newer])

    @classmethod
    def read(cls, path: Path) -> tuple[Records, list[str]]:
        """The records of a file, and a warning, FILE:LINE and why, for each line that cannot be used.

        OnnxcError where the file cannot be read.
        """
        try:
            data = Path(path).read_bytes()
        except OSError as error:
            message = f"tuning records cannot be read: {error.strerror}"
            raise OnnxcError(message, file=path, exit_code=UNREADABLE) from error
        records, warnings, newer = cls(), [], set()
        for number, line in enumerate(data.removeprefix(codecs.BOM_UTF8).split(b"\n"), 1):
            if not line.strip():
                continue
            origin = f"{path}:{number}"
            try:
                record = parse_record(line, origin)
            except Unusable as why:
                warnings.append(f"{origin}: {why}")
                if isinstance(why, Newer):
                    newer.add(line.decode().strip())
                continue
            rival = records.add(record)
            if rival is not None and rival.choice != record.choice:
                warnings.append(_contradiction(records._best[record.key], record, rival))
        records.newer = sorted(newer)
        return records, warnings

    def write(self, path: Path) -> None:
        """The file appears whole or not at all; the same records give the same bytes."""
        lines = [*(record.line() for record in self), *self.newer]
        write_output(Path(path), "".join(f"{line}\n" for line in lines).encode())

    def choices(self, target: object, threads: int | None = None) -> RecordedChoices:
        """What the records say for a target (a Target, or its key), and for `threads` where they were measured so."""
        return RecordedChoices(self, str(getattr(target, "key", target)), threads)


class Unusable(Exception):
    """Why a line is no record that can be used."""


class Newer(Unusable):
    """It is a record of a version to come."""


def parse_record(line: bytes, origin: str = "") -> Record:
    """The record in a line, all of whose fields are checked."""
    entries = _entries(line)
    if "format" not in entries or "signature" not in entries:
        raise Unusable("this is no tuning record")
    format_ = _get(entries, "format", int)
    if format_ > FORMAT:
        raise Newer(f"its format {format_!r:.40} is newer than this onnxc reads ({FORMAT})")
    times = _get(entries, "times", dict, {})
    record = Record(
        signature=_get(entries, "signature", str),
        target=_get(entries, "target", str),
        choice=_choice(_get(entries, "choice", dict)),
        ns=_positive(entries, "ns"),
        default_ns=_positive(entries, "default_ns"),
        threads=_count(entries, "threads", 1),
        rounds=_count(entries, "rounds", 0, 0),
        spread=_finite(entries, "spread", 0.0),
        times={name: _positive(times, name) for name in times},
        verified=_get(entries, "verified", bool, True),
        date=_get(entries, "date", str, ""),
        onnxc=_get(entries, "onnxc", str),
        origin=origin,
    )
    if record.ns > SLOWER * record.default_ns:
        raise Unusable("by its own times the heuristic's choice is faster")
    return record


def _entries(line: bytes) -> dict[str, Any]:
    try:
        entries = json.loads(line.decode("utf-8"), parse_constant=_no_number)
        if b"\\u" in line:
            json.dumps(entries, ensure_ascii=False).encode()  # half a surrogate pair in an escape is no text
    except UnicodeError:
        raise Unusable("this is no text in UTF-8") from None
    except json.JSONDecodeError as error:
        text = error.doc.strip()
        cut = text.startswith("{") and not text.endswith("}")
        raise Unusable("the line is cut off" if cut else f"this is no JSON: {error.msg}") from None
    except (ValueError, RecursionError):
        raise Unusable("this is no JSON that a record could be") from None
    if not isinstance(entries, dict):
        raise Unusable("this is no tuning record")
    return entries


def _no_number(name: str) -> float:
    raise ValueError(name)


def _get(entries: Mapping[str, Any], name: str, kind: type | tuple[type, ...], default: Any = None) -> Any:
    if name not in entries and default is not None:
        return default
    value = entries.get(name)
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise Unusable(f"its '{name}' is missing" if name not in entries else f"its '{name}' is {value!r:.40}")
    return value


def _count(entries: Mapping[str, Any], name: str, least: int, default: int | None = None) -> int:
    value = _get(entries, name, int, default)
    if not least <= value < LARGEST:
        raise Unusable(f"its '{name}' is {value!r:.40}")
    return value


def _finite(entries: Mapping[str, Any], name: str, default: float | None = None) -> float:
    value = _get(entries, name, (int, float), default)
    if not 0 <= value <= sys.float_info.max:
        raise Unusable(f"its '{name}' is {value!r:.40}")
    return float(value)


def _positive(entries: Mapping[str, Any], name: str) -> float:
    if not SHORTEST <= (value := _finite(entries, name)) <= LONGEST:
        raise Unusable(f"its '{name}' is {value}")
    return value


def _choice(choice: dict[str, Any]) -> Mapping[str, Any]:
    (what, chosen), *more = choice.items() or (("", None),)
    if more or what not in CHOICES:
        raise Unusable(f"its 'choice' is none of {', '.join(CHOICES)}")
    possible, wanted = CHOICES[what]
    if not possible(chosen):
        raise Unusable(f"its '{what}' is {json.dumps(chosen):.40}, not {wanted}")
    return choice


def _is_name(chosen: object) -> bool:
    return isinstance(chosen, str)


def _is_schedule(chosen: object) -> bool:
    return isinstance(chosen, dict) and all(map(_small, chosen.values()))


def _are_numbers(chosen: object) -> bool:
    return isinstance(chosen, list) and all(map(_number, chosen))


def _small(entry: object) -> bool:
    return isinstance(entry, str) or _number(entry)


def _number(entry: object) -> bool:
    return isinstance(entry, int) and not isinstance(entry, bool) and abs(entry) < LARGEST


#: what a record may choose, whether a choice of it is possible, and what would be
CHOICES: dict[str, tuple[Callable[[object], bool], str]] = {
    "algorithm": (_is_name, "a name"),
    "schedule": (_is_schedule, "integers and words by names"),
    "fusion": (_are_numbers, "a list of operators' numbers"),
    "turns": (_are_numbers, "a list of kernels' numbers"),
}


def _contradiction(kept: Record, one: Record, other: Record) -> str:
    left = other if kept is one else one
    return f"{left.origin}: contradicts {kept.origin} on the same problem, which is the better record and is used"


def _sorted(choice: Mapping[str, Any]) -> dict[str, Any]:
    return {k: dict(sorted(v.items())) if isinstance(v, Mapping) else v for k, v in choice.items()}


def _version(text: str) -> tuple[int, ...]:
    """`0.10.2` → (0, 10, 2); what is no number counts as 0."""
    return tuple(int(part) if part.isdecimal() and len(part) < 10 else 0 for part in text.split("."))
