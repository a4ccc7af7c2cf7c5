"""This file joins records: those of files, and those that the results of bundles come to."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from onnxc.errors import UNREADABLE, OnnxcError
from onnxc.tuning.chosen import shortened
from onnxc.tuning.elsewhere import read_lines
from onnxc.tuning.records import FORMAT, Records, Unusable, parse_record


def merge(parts: Sequence[tuple[Records, list[str]]], output: Path) -> tuple[Records, list[str]]:
    """Writes the better record of each key of several sets; returns them with all warnings."""
    merged, warnings = Records(), []
    for records, told in parts:
        merged, warnings = merged.merge(records), [*warnings, *told]
    merged.write(output)
    return merged, warnings


def read_records(path: Path) -> tuple[Records, list[str]]:
    """The records in a file, or those that a bundle's results come to."""
    if path.suffix != ".json":
        records, warnings = Records.read(path)
        return records, shortened(warnings, path)
    try:
        return read_results(_parsed(path.read_text("utf-8")), path)
    except OSError as error:
        raise OnnxcError(f"cannot be read: {error.strerror}", file=path, exit_code=UNREADABLE) from error
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        why = f"{type(error).__name__}: {error}"
        raise OnnxcError("holds no results of a bundle", file=path, why=why, exit_code=UNREADABLE) from error


def _parsed(text: str) -> dict[str, Any]:
    """What `python -m onnxc.runtime.measure` wrote, or what a program that measures printed."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return read_lines(text)


def read_results(results: dict[str, Any], path: Path) -> tuple[Records, list[str]]:
    """The records that a bundle's results come to, and a warning for each that cannot be used.

    KeyError, TypeError or ValueError where they are no results at all.
    """
    records, warnings = Records(), []
    shared = {"format": FORMAT, **{name: results[name] for name in ("onnxc", "target", "threads")}}
    for number, result in enumerate(results["results"], 1):
        if "error" in result:
            continue
        entries = {name: result[name] for name in ("choice", "ns", "default_ns", "rounds", "spread") if name in result}
        try:
            records.add(parse_record(json.dumps({**shared, "signature": result["name"], **entries}).encode()))
        except Unusable as why:
            warnings.append(f"{path}: result {number}: {why}")
    return records, warnings
