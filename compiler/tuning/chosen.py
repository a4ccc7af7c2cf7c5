"""This file turns what a user names with `--tuning` into the choices that passes ask, with warnings worth telling."""

from __future__ import annotations

from pathlib import Path

from onnxc.passes.choices import Choices
from onnxc.targets import Target
from onnxc.tuning.records import Records

MOST_WARNINGS = 20


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
        why = f"{choices.others} records are for other targets than {target.key}, the first for {first.target}"
        warnings.append(f"{first.origin or 'the records'}: {why}: none is used")
    return choices, warnings


def shortened(warnings: list[str], source: object) -> list[str]:
    """The first of a file's warnings, and how many more there are."""
    rest = len(warnings) - MOST_WARNINGS
    return warnings if rest <= 0 else [*warnings[:MOST_WARNINGS], f"{source}: {rest} more lines cannot be used"]


def _line(origin: str) -> int:
    number = origin.rpartition(":")[2]
    return int(number) if number.isdecimal() else 0
