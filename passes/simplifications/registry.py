"""This file is the table of simplification rules: by op name, in the order in which they are tried."""

from __future__ import annotations

from collections.abc import Callable

from onnxc.passes.rewriting import Rule

RULES: dict[str, list[Rule]] = {}


def simplifies(*names: str) -> Callable[[Rule], Rule]:
    """Registers a rule for these ops: it returns what stands for the op's results, equal bit by bit, or None."""

    def register(rule: Rule) -> Rule:
        for name in names:
            RULES.setdefault(name, []).append(rule)
        return rule

    return register
