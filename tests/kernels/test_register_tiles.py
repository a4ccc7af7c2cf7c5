"""Register tiles stay in registers: no spill in the innermost loops of contractions, whatever the instruction set."""

import re

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import onnxc

SHAPES = {
    "matmul": ("MatMul", (196, 96), (96, 256), (196, 256), {}),
    "conv 3×3": ("Conv", (1, 64, 28, 28), (96, 64, 3, 3), (1, 96, 28, 28), {"pads": [1] * 4}),
    "conv of planes": ("Conv", (1, 64, 28, 28), (48, 64, 1, 1), (1, 48, 28, 28), {}),
    "few channels": ("Conv", (1, 3, 64, 64), (32, 3, 7, 7), (1, 32, 32, 32), {"pads": [3] * 4, "strides": [2, 2]}),
}
TARGETS = {"AVX2": {"mcpu": "x86-64-v3"}, "AVX-512": {"mcpu": "x86-64-v4"}, "NEON": {"target": "aarch64-linux-gnu"}}
X86_STACK = r"\(%rsp\).*%[xyz]mm|%[xyz]mm.*\(%rsp\)"  # with an index it is a patch or a copied panel
ON_STACK = {"AVX2": X86_STACK, "AVX-512": X86_STACK, "NEON": r"\bq\d+,.*\[sp"}


@pytest.mark.parametrize("isa", TARGETS)
@pytest.mark.parametrize("case", SHAPES)
def test_no_spill_in_a_loop_of_products(case, isa, tmp_path):
    op, given, constant, result, attributes = SHAPES[case]
    weights = np.random.default_rng(0).standard_normal(constant, dtype=np.float32)
    node = helper.make_node(op, ["x", "w"], ["y"], **attributes)
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", given), ("y", result))]
    graph = helper.make_graph([node], "g", infos[:1], infos[1:], [numpy_helper.from_array(weights, "w")])
    onnx.save(helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 20)]), tmp_path / "m.onnx")
    onnxc.compile(tmp_path / "m.onnx", tmp_path / "m.s", strict=True, threads=1, **TARGETS[isa])
    loops = innermost_loops((tmp_path / "m.s").read_text())
    products = [loop for loop in loops if len(re.findall(r"\bvfmadd|\bfmla\b", loop)) >= 8]
    assert products
    spilled = [loop for loop in products if re.search(ON_STACK[isa], loop)]
    assert not spilled, spilled[0]


def innermost_loops(assembly: str) -> list[str]:
    """What lies between a label and a branch back to it, with no label between."""
    parts = re.split(r"^(\.L\w+):.*$", assembly, flags=re.M)
    pairs = zip(parts[1::2], parts[2::2], strict=True)
    return [text[: back.start()] for label, text in pairs if (back := re.search(rf"\s{re.escape(label)}$", text, re.M))]
