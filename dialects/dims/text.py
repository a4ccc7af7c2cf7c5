"""This file reads dims from their text: `N`, `2*N+1`, `(H+1)//2`, `min(N,'odd name')`, `n:1..512` (a symbol that is
known to be from 1 to 512); `parse(str(d)) is d`."""

from __future__ import annotations

import re
from functools import lru_cache

from onnxc.dialects.dims.expr import Dim, ranged, symbol
from onnxc.dialects.dims.rounding import broadcast, floordiv, maximum, minimum, mod

_TOKEN = re.compile(r"\s*(?:(\d+)|([A-Za-z_][A-Za-z0-9_.]*)|'((?:[^'\\]|\\.)*)'|(//|\.\.|[-+*%(),:]))")


class DimSyntaxError(ValueError):
    """The text is not a dim expression."""


@lru_cache(maxsize=65536)
def parse(text: str) -> Dim:
    """The dim that `text` spells."""
    reader = _Reader(text)
    value = reader.sum()
    reader.expect("end")
    return value


class _Reader:
    """Recursive descent; `token` is (kind, text), kind one of int, name, quoted, end, or the operator itself."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.advance()

    def advance(self) -> None:
        if not self.text[self.at :].strip():
            self.token = ("end", "")
            return
        match = _TOKEN.match(self.text, self.at)
        if match is None:
            raise DimSyntaxError(f"dim expression {self.text!r}: cannot read {self.text[self.at :]!r}")
        self.at = match.end()
        kind = ("int", "name", "quoted", match[4])[match.lastindex - 1]  # type: ignore[operator]
        self.token = (kind, match[match.lastindex])  # type: ignore[index]

    def take(self, kind: str) -> bool:
        if self.token[0] == kind:
            self.advance()
            return True
        return False

    def expect(self, kind: str) -> None:
        if not self.take(kind):
            raise DimSyntaxError(f"dim expression {self.text!r}: expected {kind}, got {self.token[1] or 'the end'}")

    def sum(self) -> Dim:
        value = -self.product() if self.take("-") else self.product()
        while self.token[0] in ("+", "-"):
            minus = self.token[0] == "-"
            self.advance()
            term = self.product()
            value = value - term if minus else value + term
        return value

    def product(self) -> Dim:
        value = self.factor()
        while self.token[0] in ("*", "//", "%"):
            op = self.token[0]
            self.advance()
            factor = self.factor()
            value = value * factor if op == "*" else (floordiv if op == "//" else mod)(value, factor)
        return value

    def factor(self) -> Dim:
        text = self.token[1]
        if self.take("-"):
            return -self.factor()
        if self.take("("):
            value = self.sum()
            self.expect(")")
            return value
        if self.take("int"):
            return int(text)
        if self.take("quoted"):
            return self.symbol(re.sub(r"\\(.)", r"\1", text))
        self.expect("name")
        if self.token[0] == "(" and text in ("min", "max", "broadcast"):
            return self.call(text)
        return self.symbol(text)

    def symbol(self, name: str) -> Dim:
        """The symbol `name` with the range that may follow: `:low..` or `:low..high`."""
        if not self.take(":"):
            return symbol(name)
        low = self.token[1]
        self.expect("int")
        self.expect("..")
        high = self.token[1]
        return ranged(name, int(low), int(high) if self.take("int") else None)

    def call(self, function: str) -> Dim:
        self.expect("(")
        arguments = [self.sum()]
        while self.take(","):
            arguments.append(self.sum())
        self.expect(")")
        if function == "broadcast":
            value = arguments[0]
            for argument in arguments[1:]:
                value = broadcast(value, argument)
            return value
        return (minimum if function == "min" else maximum)(*arguments)
