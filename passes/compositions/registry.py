"""This file is the table of composite operators: name → the rule that writes one out."""

from __future__ import annotations

from collections.abc import Callable

from onnxc.passes.rewriting import Rule

COMPOSITIONS: dict[str, Rule] = {}


def composes(*names: str) -> Callable[[Rule], Rule]:
    """Registers a rule for these ops: it returns what stands for the op's results. Shapes are inferred already."""

    def register(rule: Rule) -> Rule:
        COMPOSITIONS.update(dict.fromkeys(names, rule))
        return rule

    return register
