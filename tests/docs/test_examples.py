"""The examples of docs/levels.md are what the passes make of its model, and the names in adding-an-op.md are real."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from onnxc.opt import apply_passes

DOCS = Path(__file__).parents[2] / "docs"
TO_TENSOR = ["group_operators"]
TO_KERNELS = [*TO_TENSOR, "outline_kernels", "choose_schedules", "pack_weights", "plan_memory"]


@pytest.mark.parametrize(("block", "passes"), [(1, TO_TENSOR), (2, TO_KERNELS)], ids=["tensor", "kernels"])
def test_levels(block: int, passes: list[str]) -> None:
    """What stands between two … in the page stands so in the output."""
    blocks = re.findall(r"^```mlir\n(.*?)^```", (DOCS / "levels.md").read_text(), re.MULTILINE | re.DOTALL)
    result = apply_passes(blocks[0], passes)
    for line in blocks[block].splitlines():
        for part in line.split("…"):
            assert part.strip() in result


@pytest.mark.parametrize(
    "name",
    [
        "lowering.registry.elementwise", "lowering.registry.moves", "lowering.registry.ELEMENTWISE",
        "lowering.movement.checked_index", "compositions.registry.composes", "kernels.kinds.KINDS", "kernels.kinds.ROOTS",
        "kernels.kinds.READS_ONCE", "kernels.kinds.EPILOGUES", "kernels.kernel_function.FAILURES",
        "kernels.kernel_function.ELEMENT", "kernels.kernel_function.Launch", "kernels.matmul.choose",
        "kernels.matmul.packings", "kernels.packing.Packing",
    ],
)  # fmt: skip
def test_adding_an_op(name: str) -> None:
    module, _, thing = name.rpartition(".")
    assert hasattr(importlib.import_module(f"onnxc.passes.{module}"), thing)
    assert thing in (DOCS / "adding-an-op.md").read_text()
