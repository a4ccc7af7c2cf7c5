"""What messages call sizes: the model's own names, INPUT.AXIS where it has none, whatever a variant makes of them.

A dim without a name is `x_0` in the program, one that a variant makes a multiple of 8 `8*'x_0/8'`, one in a range
`x_0:1..12`. People read `x.0` for each of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from mlir import ir

from onnxc.dialects.types import Tensor
from onnxc.passes.contract import Program
from onnxc.passes.rewriting import main_function


def own_names(program: Program) -> dict[str, str | None]:
    """The model's own names of the program's symbols; None for those of dims that it leaves without a name."""
    attributes = main_function(program.module).attributes
    entries = ir.DictAttr(attributes["dim_names"]) if "dim_names" in attributes else []
    return {entry.name: ir.StringAttr(entry.attr).value or None for entry in entries}


class PlainDims:
    """Replaces what stands for a dim in a text of the program."""

    def __init__(self, program: Program) -> None:
        shown = {symbol: name or _place(program, symbol) for symbol, name in own_names(program).items()}
        facts = program.facts
        texts: dict[str, str] = {}
        for symbol in facts.names:
            name, multiple = shown.setdefault(symbol, symbol), facts.multiples.get(symbol, 1)
            whole, unit = str(facts.apply_to(symbol)), str(facts.unit_of(symbol))
            texts |= {unit: f"({name}//{multiple})" if multiple > 1 else name, whole: name}
        self._texts: Mapping[str, str] = {**{symbol: name for symbol, name in shown.items() if symbol != name}, **texts}
        longest = sorted(self._texts, key=lambda text: (-len(text), text))
        # no part of a longer name or number: 18*'m/8' is no 8*'m/8'
        self._pattern = re.compile(rf"(?<![\w.'])(?:{'|'.join(map(re.escape, longest))})(?![\w'])") if longest else None

    def plain(self, text: str) -> str:
        """The text in the model's names."""
        return text if self._pattern is None else self._pattern.sub(lambda found: self._texts[found[0]], text)


def _place(program: Program, symbol: str) -> str:
    """INPUT.AXIS of the first input dim that the symbol stands in, with what is known of it or without."""
    main, meant = main_function(program.module), {symbol, str(program.facts.apply_to(symbol))}
    names = [ir.StringAttr(a).value for a in ir.ArrayAttr(main.attributes["input_names"])]
    for name, argument in zip(names, main.regions[0].blocks[0].arguments, strict=False):
        dims = Tensor.of(argument.type).dims if isinstance(argument.type, ir.RankedTensorType) else ()
        for axis, dim in enumerate(dims):
            if str(dim) in meant:
                return f"{name}.{axis}"
    return symbol
