"""This file turns what a user names with `--tuning` into the choices that passes ask, with warnings worth telling."""

from __future__ import annotations

from pathlib import Path

from onnxc.passes.choices import Choices
from onnxc.targets import Target
from onnxc.tuning.records import Records

MOST_WARNINGS = 20
MOST_NAMES = 3  # features that are told


def chosen_for(
    source: Path | Records | Choices | None, target: Target, threads: int | None
) -> tuple[Choices | None, list[str]]:
    """The choices in `source` for a target, and warnings, a line each. OnnxcError where a file cannot be read."""
    if source is None or isinstance(source, Choices):
        return source, []
    records, warnings = (source, []) if isinstance(source, Records) else Records.read(source)
    choices, warnings = records.choices(target, threads), shortened(warnings, source)
    if choices.others and not len(choices):
        first = min(records, key=lambda record: (_line(record.origin), record.key))
        told = "1 record is for another target" if choices.others == 1 else f"{choices.others} records are for others"
        why = f"{told} than {target}, {difference(first.target, target.key)}"
        warnings.append(f"{first.origin or 'the records'}: {why}: none is used")
    return choices, warnings


def shortened(warnings: list[str], source: object) -> list[str]:
    """The first of a file's warnings, and how many more there are."""
    rest = len(warnings) - MOST_WARNINGS
    return warnings if rest <= 0 else [*warnings[:MOST_WARNINGS], f"{source}: {rest} more lines cannot be used"]


def difference(theirs: str, ours: str) -> str:
    """What sets a record's target apart from ours, two `Target.key`: `tune=znver4 instead of tune=generic`."""
    parts, own = theirs.split(";"), ours.split(";")
    if len(parts) != len(own) or parts[0] != own[0]:
        return f"{parts[0]:.60} instead of {own[0]}"
    found = [_difference(a, b) for a, b in zip(parts, own, strict=True) if a != b]
    return ", ".join(found)


def _difference(theirs: str, ours: str) -> str:
    """Of one part of a key: a name, or a list of which only what differs is told."""
    they, we = theirs.split(","), ours.split(",")
    features = [name for name in (*they, *we) if name[:1] in "+-"]
    if features:
        more, less = ([n.lstrip("+") for n in one if n not in other] for one, other in ((they, we), (we, they)))
        return " ".join(f"{word} {_some(names)}" for word, names in (("with", more), ("without", less)) if names)
    pairs = [(a, b) for a, b in zip(they, we, strict=False) if a != b] or [(theirs, ours)]
    return ", ".join(f"{a:.40} instead of {b}" for a, b in pairs)


def _some(names: list[str]) -> str:
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return ", ".join(f"{name:.20}" for name in names[:MOST_NAMES]) + more


def _line(origin: str) -> int:
    number = origin.rpartition(":")[2]
    return int(number) if number.isdecimal() else 0
