"""What the user asks of single nodes, by pattern: an algorithm, a schedule, a precision, strictness, fusion, turns."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from onnxc.dialects.errors import UNREADABLE, OnnxcError

if TYPE_CHECKING:
    from onnxc.passes.contract import Program

#: what a node may be asked to compute in; HIGHEST: at least f32, in the plain order, with its own weights
HIGHEST = "highest"
PRECISIONS = ("f64", "f32", HIGHEST)
#: a kernel of its own, or all in one kernel that the heuristic puts there
APART, FUSED = "apart", "fused"
#: whether its kernel takes turns by rows with others
NEVER, ALWAYS = "never", "always"
#: begins what tells nodes of one name apart behind that name (`marked`), which patterns do not see
MARK = "\x1f"
NOWHERE = "it is part of no kernel: a view, or folded into constants or other nodes"


@dataclass(frozen=True)
class Override:
    """What is asked of the nodes whose names match `pattern` (`*`, `?`, `[…]`).

    origin   FILE:LINE, for messages
    """

    pattern: str
    origin: str = "override"
    algorithm: str | None = None
    schedule: Mapping[str, int | str] = field(default_factory=dict)
    precision: str | None = None
    strict: bool = False
    fusion: str | None = None
    turns: str | None = None

    @property
    def plain(self) -> bool:
        """Whether only algorithms that give the plain sum's bits will do."""
        return self.strict or self.precision == HIGHEST

    def matches(self, node: str) -> bool:
        """Whether the node of this name is meant; what has no name is none of the model's."""
        name = node.partition(MARK)[0]
        return bool(name) and fnmatchcase(name, self.pattern)

    def refuse(self, message: str, **details: Any) -> OnnxcError:
        """An error that names the file and the line."""
        return OnnxcError(message, file=self.origin, exit_code=UNREADABLE, **details)


def marked(node: str, number: int) -> str:
    """The node's name, told apart from others."""
    return f"{node}{MARK}{number}"


def overrides(program: Program) -> tuple[Override, ...]:
    return program.options.overrides


def asked(program: Program, node: str, what: str) -> Override | None:
    """The last override that matches the node and asks for `what` (a field's or a property's name)."""
    found = [o for o in overrides(program) if o.matches(node) and getattr(o, what)]
    return found[-1] if found else None


def keeps_its_own(program: Program, node: str) -> bool:
    """Whether nothing may be folded into the node, nor the node into another."""
    override = asked(program, node, "precision")
    return override is not None and override.precision == HIGHEST


def warn_of_strangers(program: Program, nodes: Iterable[str]) -> None:
    """Warns of patterns that match none of the model's nodes, with close names.

    `notes["named"]`: of each other, by its origin, a node that it matches."""
    names = sorted(set(nodes) - {""})
    named: dict[str, str] = program.notes.setdefault("named", {})
    for override in overrides(program):
        match = next(filter(override.matches, names), None)
        if match is not None:
            named.setdefault(override.origin, match)
        else:
            close = difflib.get_close_matches(override.pattern, names, n=3, cutoff=0.4)
            hint = f" (close: {', '.join(close)})" if close else ""
            program.warnings.append(f"{override.origin}: no node is named '{override.pattern}'{hint}")
