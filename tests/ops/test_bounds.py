"""Tensors without elements, and values that make a node fail at run time: never a read out of bounds."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

from onnxc import OnnxcError
from onnxc.runtime import ModelError, OutOfMemoryError
from tests.ops.oracle import Batch, Const, Sym, f32, run_compiled


def test_sums_without_terms_are_zeros() -> None:
    batch = Batch()
    for kind in ("symbolic", "static"):
        for op in ("MatMul", "Gemm"):
            sizes = [(3, 0, 4), (3, 5, 4), (0, 5, 4), (3, 5, 0)]
            if kind == "symbolic":
                a = Sym(("N", "K"), [f32(n, k) for n, k, _ in sizes])
                b = Sym(("K", "M"), [f32(k, m) for _, k, m in sizes])
                batch.add(op, [a, b], label=f"{op} {kind}")
                batch.add(op, [Sym(("N", "K"), [f32(30 * n, k) for n, k, _ in sizes]), b], label=f"{op} {kind}, rows")
            else:
                for n, k, m in sizes:
                    batch.add(op, [f32(n, k), f32(k, m)], label=f"{op} {n} {k} {m}")
        batch.add("MatMul", [f32(2, 3, 0), Const(np.zeros((0, 7), np.float32))], label=f"{kind} constant")
    batch.check()


@pytest.mark.parametrize(
    ("op", "operands", "attributes", "told"),
    [
        ("Resize", [f32(1, 1, 3, 3), None, np.array([1, 1, -1, 1], np.float32)], {"mode": "nearest"}, "less than 0"),
        (
            "Resize",
            [f32(1, 1, 3, 3), None, np.array([1, 1, np.nan, 1], np.float32)],
            {"mode": "nearest"},
            "less than 0",
        ),
        ("Range", [np.int64(0), np.int64(5), np.int64(0)], {}, "the step"),
        ("Compress", [f32(3, 4), np.ones(5, bool)], {"axis": 0}, "number of conditions"),
        ("Pad", [f32(0), np.array([1, 1])], {"mode": "reflect"}, "repeated"),
        ("Pad", [f32(0), np.array([1, 1])], {"mode": "edge"}, "repeated"),
        ("Pad", [f32(3), np.array([-4, 0])], {}, "less than 0"),
        ("ConstantOfShape", [np.array([-1, 3])], {}, "less than 0"),
        ("Expand", [f32(3, 1), np.array([2, 4])], {}, "broadcast"),
        ("Reshape", [f32(3, 4), np.array([-1, 5])], {}, ""),
        ("Split", [f32(5), np.array([2, 2])], {"outputs": 2}, "the axis"),
        ("TopK", [f32(4), np.array([5])], {"outputs": 2}, "less than"),
        ("Gather", [f32(3, 4), np.array([3])], {}, "index out of range"),
        ("Gather", [f32(0, 4), np.array([0])], {}, "index out of range"),
        ("GatherND", [f32(3, 4), np.array([[1 << 62, 0]])], {}, "index out of range"),
        ("GatherElements", [f32(3, 4), np.array([[-4]])], {}, "index out of range"),
        ("ScatterND", [f32(3, 4), np.array([[-(1 << 63)]]), f32(1, 4)], {}, "index out of range"),
        ("ScatterElements", [f32(3, 4), np.array([[3]]), f32(1, 1)], {}, "index out of range"),
    ],
)
def test_values_that_make_a_node_fail_are_told_with_its_name(op, operands, attributes, told) -> None:
    batch = Batch()
    named = [x if x is None else Sym([f"D{i}" for i in range(np.ndim(x))] if i == 0 and op != "ConstantOfShape" else np.shape(x), [np.asarray(x)])
             for i, x in enumerate(operands)]  # fmt: skip
    batch.add(op, named, **attributes)
    with pytest.raises(ModelError, match=f"node '{op}_0'.*{told}"):
        run_compiled(batch.model(), [{name: runs[0] for name, runs in batch.feeds.items()}])


@pytest.mark.parametrize("shape", [[1 << 62, 4], [1 << 32, 1 << 32], [1 << 40, 1]])
def test_sizes_that_overflow_are_out_of_memory_at_most(shape) -> None:
    batch = Batch()
    batch.add("ConstantOfShape", [np.array(shape)])
    with pytest.raises((ModelError, OutOfMemoryError)):
        run_compiled(batch.model(), [{name: runs[0] for name, runs in batch.feeds.items()}])


@pytest.mark.parametrize("size", ["K", 0, 2])
def test_a_condition_has_one_element(size) -> None:
    value, boolean = helper.make_tensor_value_info, TensorProto.BOOL
    branches = {
        f"{name}_branch": helper.make_graph([helper.make_node(op, ["x"], [op])], name, [], [value(op, 1, ["N"])])
        for name, op in (("then", "Relu"), ("else", "Neg"))
    }
    node = helper.make_node("If", ["c"], ["y"], name="choice", **branches)
    inputs = [value("x", 1, ["N"]), value("c", boolean, [size])]
    model = helper.make_model(helper.make_graph([node], "g", inputs, [value("y", 1, ["N"])]))
    x = f32(3)
    if size == "K":
        assert (run_compiled(model, [{"x": x, "c": np.array([False])}])[0][0] == -x).all()
    for bad in (np.zeros(0, bool), np.ones(2, bool)) if size == "K" else (np.ones(size, bool),):
        with pytest.raises((ModelError, OnnxcError), match="node 'choice'.*condition's elements"):
            run_compiled(model, [{"x": x, "c": bad}])
