"""The script that docs/decisions/0002 quotes runs: both ways give LLVM IR for each of its kernels."""

from __future__ import annotations

import pytest

from onnxc.build_kernel import kernel_llvm_ir
from onnxc.targets import target_for

from .lowering_times import LINALG, MAPS, OURS, kernel_text, upstream


@pytest.mark.parametrize("name", OURS)
def test_both_ways_lead_to_llvm_ir(name: str) -> None:
    assert "define void @k_" in kernel_llvm_ir(kernel_text(OURS[name]), target_for())
    assert "define" in upstream(MAPS + LINALG[name])
