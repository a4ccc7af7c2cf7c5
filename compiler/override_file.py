"""This file reads `--override FILE.toml`: a table for each pattern of node names.

["layer4.*/conv2"]
algorithm = "direct"
schedule = { rows = 6, vectors = 4 }

["/head/Softmax"]
precision = "f64"
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from onnxc.errors import UNREADABLE, OnnxcError
from onnxc.passes.overrides import ALWAYS, APART, FUSED, HIGHEST, NEVER, PRECISIONS, Override
from onnxc.tuning.records import LARGEST

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

KINDS: dict[str, type] = {"algorithm": str, "schedule": dict, "precision": str, "strict": bool, "fusion": str,
                          "turns": str}  # fmt: skip
WORDS = {"fusion": (APART, FUSED), "turns": (NEVER, ALWAYS)}
#: what other tools call what a node is to compute in → what it is here
OTHER_NAMES = {
    **dict.fromkeys(("double", "float64", "fp64", "F64"), "f64"),
    **dict.fromkeys(("float", "single", "float32", "fp32", "F32"), "f32"),
    **dict.fromkeys(("strict", "exact", "ieee", "high", "HIGHEST"), HIGHEST),
}


def read_overrides(path: Path) -> tuple[Override, ...]:
    """The overrides of a file, in its order. OnnxcError that names file and line where it cannot be honoured."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
        tables = tomllib.loads(text)
    except OSError as error:
        raise OnnxcError(f"overrides cannot be read: {error.strerror}", file=path, exit_code=UNREADABLE) from error
    except (ValueError, RecursionError) as error:  # also a number of thousands of digits
        raise OnnxcError("this is no TOML", file=path, why=str(error), exit_code=UNREADABLE) from error
    lines = text.splitlines()
    return tuple(_override(pattern, table, f"{path}:{_line(lines, pattern)}") for pattern, table in tables.items())


def _shown(value: Any) -> str:
    """A value in a message; a number may have more digits than Python writes."""
    large = isinstance(value, int) and abs(value) >= LARGEST
    return "a number of that size" if large else f"{value!r:.40}"


def _override(pattern: str, table: Any, origin: str) -> Override:
    def wrong(message: str, hint: str | None = None) -> OnnxcError:
        return OnnxcError(f"table '{pattern}': {message}", file=origin, hint=hint, exit_code=UNREADABLE)

    if not isinstance(table, Mapping):
        raise wrong("this is an entry, not a table", hint='["PATTERN"] begins the table of a pattern of node names')
    for name, value in table.items():
        close = difflib.get_close_matches(name, KINDS, n=1)
        if isinstance(value, Mapping) and name not in KINDS:
            raise wrong(f"there is a table '{name}' inside", hint='put a pattern that has dots into quotes: ["a.b"]')
        if name not in KINDS:
            raise wrong(
                f"'{name}' cannot be overridden", hint=f"{close[0]}?" if close else f"what can be: {', '.join(KINDS)}"
            )
        if not isinstance(value, KINDS[name]):
            raise wrong(f"{name} = {_shown(value)} is not possible", hint=_example(name))
    if table.get("algorithm") == "":
        raise wrong("algorithm = '' is not possible", hint=_example("algorithm"))
    if (precision := table.get("precision", PRECISIONS[0])) not in PRECISIONS:
        meant = OTHER_NAMES.get(precision)
        why = "a node computes in the precision of its tensors, or in a wider one"
        hint = f"one of {', '.join(PRECISIONS)}" if meant is None else f'precision = "{meant}"'
        raise wrong(f"precision = {_shown(precision)} cannot be honoured: {why}", hint=hint)
    for name, words in WORDS.items():
        if table.get(name, words[0]) not in words:
            raise wrong(f"{name} = {_shown(table[name])} is not possible", hint=f"one of {', '.join(words)}")
    if table.get("strict") is False:
        raise wrong("strict = false cannot be honoured: without --strict no node is strict anyhow")
    for name, value in table.get("schedule", {}).items():
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise wrong(f"schedule: {name} = {_shown(value)} is neither an integer nor a word")
        if isinstance(value, int) and abs(value) >= LARGEST:
            raise wrong(f"schedule: {name} is too large a number")
    return Override(pattern, origin, **table)


def _example(name: str) -> str:
    examples = {
        "algorithm": '"direct"', "schedule": "{ rows = 6 }", "precision": '"f64"', "strict": "true",
        "fusion": '"apart"', "turns": '"never"',
    }  # fmt: skip
    return f"for example {name} = {examples[name]}"


def _line(lines: list[str], pattern: str) -> int:
    """Where the table of a pattern begins; TOML's reader does not say."""
    written = pattern.replace("\\", "\\\\").replace('"', '\\"')
    bare = pattern or '""'
    for number, line in enumerate(lines, 1):
        head = line.strip()
        if head.startswith((f'["{written}"', f"['{pattern}'", f"[{pattern}]", f"[{pattern}.", bare, f'"{written}"')):
            return number
    return 1
