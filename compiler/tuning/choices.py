"""This file answers passes from tuning records: the choice for a signature, or the known one that is most like it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from onnxc.passes.choices import Choices

if TYPE_CHECKING:
    from onnxc.tuning.records import Record

NUMBER = re.compile(r"(?<![\w.])\d+(?![\w.])")


class RecordedChoices(Choices):
    """The records of one target. Of several for one signature, those for `threads` threads come first (None: those for
    the most threads), then the better one."""

    def __init__(self, records: Iterable[Record], target: str, threads: int | None = None) -> None:
        self.target = target
        self.others = 0  # records of other targets
        self._found: dict[tuple[str, str], Record] = {}
        self._known: dict[str, dict[str, list[str]]] | None = None  # kind → without sizes → signatures
        for record in records:
            if record.target != target:
                self.others += 1
                continue
            signature, _, _, what = record.key
            known = self._found.get((signature, what))
            if known is None or _preference(record, threads) > _preference(known, threads):
                self._found[signature, what] = record

    def __len__(self) -> int:
        return len(self._found)

    def schedule(self, signature: str) -> Mapping[str, int | str] | None:
        return self._choice(signature, "schedule")

    def algorithm(self, signature: str) -> str | None:
        return self._choice(signature, "algorithm")

    def fusion(self, signature: str) -> Sequence[int] | None:
        return self._choice(signature, "fusion")

    def turns(self, signature: str) -> Sequence[int] | None:
        return self._choice(signature, "turns")

    def _choice(self, signature: str, what: str) -> Any:
        found = self._found.get((signature, what))
        return None if found is None else found.choice[what]

    def times(self, signature: str) -> Mapping[str, float]:
        found = self._found.get((signature, "algorithm"))
        return {} if found is None else {**found.times, found.choice["algorithm"]: found.ns}

    def gain(self, signature: str) -> float | None:
        found = self._found.get((signature, "algorithm"))
        return None if found is None else found.gain

    def origin(self, signature: str, what: str) -> str:
        found = self._found.get((signature, what))
        return super().origin(signature, what) if found is None or not found.origin else found.origin

    def nearest(self, signature: str) -> str | None:
        """Of those of the same kind: one that differs in sizes only, the closest; else the one closest in length."""
        kind, shape = _kind(signature), NUMBER.sub("#", signature)
        if self._known is None:
            self._known = {}
            for known in sorted({known for known, _ in self._found}):
                self._known.setdefault(_kind(known), {}).setdefault(NUMBER.sub("#", known), []).append(known)
        alike = self._known.get(kind, {})
        if shape in alike:
            return min(alike[shape], key=lambda known: _distance(signature, known))
        others = [known for group in alike.values() for known in group]
        return min(others, key=lambda known: abs(len(known) - len(signature)), default=None)


def _kind(signature: str) -> str:
    return signature.split("(")[0]


def _preference(record: Record, threads: int | None) -> tuple:
    return record.threads if threads is None else record.threads == threads, record.rank


def _distance(one: str, other: str) -> float:
    """How far the sizes in two signatures lie apart, as a sum of logarithms of ratios."""
    pairs = zip(NUMBER.findall(one), NUMBER.findall(other), strict=True)
    return sum(abs(math.log((int(a) + 1) / (int(b) + 1))) for a, b in pairs)
