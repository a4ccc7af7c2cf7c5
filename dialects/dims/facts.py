"""This file says what is known of a model's free sizes before any of them is: ranges and multiples of symbols.

A fact is not looked up, it is what a symbol stands for: where h is a multiple of 32, every `h` becomes `32*'h/32'`, and
so `(h+1)//2` folds to `16*'h/32'`; a symbol in a range carries it (`n:1..512`), and so `min(n:1..512,512)` folds to
`n:1..512`. Nothing that works on dims has to know of facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from onnxc.dialects.dims.bounds import bounds
from onnxc.dialects.dims.emitting import fold, substitute, symbols
from onnxc.dialects.dims.expr import Atom, Dim, of_atom, ranged, symbol
from onnxc.dialects.dims.rounding import floordiv


def usual(value: Dim, size: int) -> int:
    """`value` where every symbol is `size`, or as near to it as what is known of the symbol allows; for estimates."""

    def leaf(atom: Atom) -> int:
        _, _, multiple = atom.args[0].rpartition("/")
        low, high = bounds(of_atom(atom))
        return int(min(max(size // max(1, int(multiple)) if multiple.isdecimal() else size, low), high))

    try:
        return fold(value, leaf)
    except ZeroDivisionError:  # no size that a model could have
        return size


@dataclass(frozen=True)
class Facts:
    """What holds for symbols of the model's inputs: the caller guarantees it, nothing checks it again.

    ranges      symbol → (least, most), both included; most may be None: no bound
    multiples   symbol → m > 1 that divides it
    ValueError where they contradict each other: no size satisfies them.
    """

    ranges: Mapping[str, tuple[int, int | None]] = field(default_factory=dict)
    multiples: Mapping[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in self.names:
            low, high = self._units(name)
            if self.multiples.get(name, 1) < 1 or low < 0 or (high is not None and high < low):
                raise ValueError(f"no size '{name}' satisfies {self.describe(name)}")

    @property
    def names(self) -> list[str]:
        """The symbols that something is known of."""
        return sorted({*self.ranges, *self.multiples})

    def describe(self, name: str) -> str:
        """What is known of a symbol, for people."""
        low, high = self.ranges.get(name, (0, None))
        multiple = self.multiples.get(name, 1)
        parts = [f"{name}={low}..{'' if high is None else high}"] if name in self.ranges else []
        return ", ".join([*parts, *([f"{name}%{multiple}=0"] if multiple != 1 else [])])

    def apply(self, value: Dim) -> Dim:
        """`value` with what its symbols stand for."""
        return substitute(value, {name: self._meaning(name) for name in self.names})

    def apply_to(self, name: str) -> Dim:
        """What a symbol stands for."""
        return self._meaning(name) if name in self.names else symbol(name)

    def unit_of(self, name: str) -> Dim:
        """The symbol that stands for a symbol divided by the largest number that is known to divide it."""
        return ranged(self._unit(name), *self._units(name))

    def restore(self, value: Dim) -> Dim:
        """The same size in the symbols that the model has, for people."""
        back = {self._unit(name): floordiv(symbol(name), self.multiples.get(name, 1)) for name in self.names}
        return value if symbols(value).isdisjoint(back) else substitute(value, back)

    def _meaning(self, name: str) -> Dim:
        return self.multiples.get(name, 1) * self.unit_of(name)

    def _unit(self, name: str) -> str:
        multiple = self.multiples.get(name, 1)
        return name if multiple == 1 else f"{name}/{multiple}"

    def _units(self, name: str) -> tuple[int, int | None]:
        low, high = self.ranges.get(name, (0, None))
        multiple = max(1, self.multiples.get(name, 1))
        return -(-low // multiple), None if high is None else high // multiple
