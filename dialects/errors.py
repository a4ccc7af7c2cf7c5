"""This file holds the two kinds of errors of onnxc: the user can act (OnnxcError), or we must (CompilerBug).

They live here because passes and dialects raise them and may not import the compiler; their public place is
`onnxc.errors`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

#: Exit codes of the command line: a valid model that is refused, an unreadable file or wrong usage, a fault of onnxc.
REFUSED, UNREADABLE, BUG = 1, 2, 101


class OnnxcError(Exception):
    """Something the user can act on. `str()` is one paragraph that names the file, the node, the reason and a hint.

    `exit_code` is 1 for a valid model (or input) that is refused and 2 for a file or an argument that cannot be read.
    """

    def __init__(
        self,
        message: str,
        *,
        file: object = None,
        node: str | None = None,
        op: str | None = None,
        types: object = None,
        why: str | None = None,
        hint: str | None = None,
        exit_code: int = REFUSED,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.file = None if file is None else str(file)
        self.node = node
        self.op = op
        self.types = types if types is None or isinstance(types, str) else ", ".join(str(t) for t in _listed(types))
        self.why = why
        self.hint = hint
        self.exit_code = exit_code

    def at(self, **where: Any) -> OnnxcError:
        """The same error with the places that were not known where it was raised (file=, node=, op=, types=)."""
        for name, value in where.items():
            if getattr(self, name) is None and value is not None:
                setattr(self, name, str(value))
        return self

    def __str__(self) -> str:
        text = self.message
        if self.why:
            text += f": {self.why}"
        place = _place(self.node, self.op, self.types)
        parts = [part for part in (self.file, place, text) if part]
        return ": ".join(parts) + (f" (hint: {self.hint})" if self.hint else "")

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, self.__dict__)


class Refusals(OnnxcError):
    """All nodes of a model that cannot be compiled, told at once; `errors` holds one OnnxcError a node."""

    def __init__(self, errors: Iterable[OnnxcError]) -> None:
        self.errors = list(errors)
        count = len(self.errors)
        super().__init__(f"{count} node{'s' if count != 1 else ''} cannot be compiled")
        self.exit_code = max((error.exit_code for error in self.errors), default=REFUSED)

    def at(self, **where: Any) -> Refusals:
        for error in self.errors:
            error.at(**where)
        return self

    def __str__(self) -> str:
        return "\n".join(str(error) for error in self.errors) or self.message


class CompilerBug(Exception):
    """Something only onnxc's developers can mend: names the pass, and the node when it is known."""

    exit_code = BUG

    def __init__(
        self, pass_name: str, message: str = "", *, node: str | None = None, op: str | None = None, types: object = None
    ) -> None:
        super().__init__(pass_name, message)
        self.pass_name = pass_name
        self.message = message
        self.node = node
        self.op = op
        self.types = None if types is None else str(types)

    def __str__(self) -> str:
        parts = [f"fault in {self.pass_name}", _place(self.node, self.op, self.types), self.message]
        return ": ".join(part for part in parts if part)

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.args, self.__dict__)


def _listed(types: object) -> Iterable[object]:
    return types if isinstance(types, Iterable) else (types,)


def _place(node: str | None, op: str | None, types: str | None) -> str:
    """`node 'conv1' (Conv on tensor<1x3xf32>)`, or as much of it as is known."""
    detail = " on ".join(part for part in (op, types) if part)
    if node is None:
        return detail
    return f"node '{node}'" + (f" ({detail})" if detail else "")


def _rebuild(kind: type[Exception], args: tuple[Any, ...], state: dict[str, Any]) -> Exception:
    """Errors cross process borders; exceptions with keyword-only arguments need this to be pickled."""
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error
