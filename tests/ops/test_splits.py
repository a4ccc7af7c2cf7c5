"""Kernels over several threads: any split of the work gives the same bits."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np

import onnxc
from tests.ops.oracle import Batch, Const, Sym, f32, ints


def i64(*values: int) -> Const:
    return Const(np.array(values, np.int64))


def large() -> Batch:
    """Nodes with work for many threads each."""
    batch = Batch(tolerance=2e-5, opset=19)
    image, rows = f32(1, 24, 61, 67), f32(301, 517)
    for op in ("Exp", "Relu", "Softmax", "LogSoftmax", "Transpose", "GlobalAveragePool"):
        batch.add(op, [image if op == "GlobalAveragePool" else rows])
    for axes in ((0,), (1,), (0, 1)):
        batch.add("ReduceMax", [rows, i64(*axes)])
        batch.add("ReduceL2", [rows, i64(*axes)])
    batch.add("ReduceMean", [image, i64(1)])
    batch.add("ReduceSum", [image, i64(0, 2)])
    batch.add("Add", [rows, f32(301, 1)])
    batch.add("Concat", [rows, rows], axis=0)
    batch.add("Concat", [rows, rows], axis=1)
    batch.add("Pad", [image, i64(0, 0, 1, 2, 0, 0, 3, 1)])
    batch.add("Pad", [image, i64(0, 0, 1, 2, 0, 0, 3, 1)], mode="reflect")
    batch.add("Slice", [image, i64(1, 2), i64(60, 66), i64(2, 3), i64(2, 1)])
    batch.add("Gather", [rows, ints(700, low=0, high=301)])
    batch.add("LayerNormalization", [rows, f32(517), f32(517)])
    batch.add("InstanceNormalization", [image, f32(24), f32(24)])
    batch.add("LRN", [image], size=3)
    for op in ("MaxPool", "AveragePool"):
        batch.add(op, [image], kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    batch.add("MaxPool", [image], kernel_shape=[3, 3], outputs=2)
    batch.add("Resize", [image, None, Const(np.array([1, 1, 2, 1.5], np.float32))], mode="linear")
    batch.add("Resize", [image, None, Const(np.array([1, 1, 2, 3], np.float32))], mode="nearest")
    batch.add("ArgMax", [rows], axis=1)
    batch.add("ArgMin", [rows], axis=0)
    batch.add("CumSum", [rows, i64(1)])
    batch.add("TopK", [rows, i64(7)], outputs=2)
    for op, gates in (("LSTM", 4), ("GRU", 3)):
        batch.add(
            op,
            [f32(9, 5, 20), Const(f32(2, gates * 200, 20)), Const(f32(2, gates * 200, 200) * 0.2)],
            hidden_size=200,
            outputs=2,
            direction="bidirectional",
        )
    batch.add("Sub", [Sym(("N", "M"), [rows, f32(3, 90001), f32(90001, 3)]), Const(f32(1))], label="symbolic")
    return batch


def test_threads_do_not_change_bits():
    batch = large()
    model = batch.model()
    feeds = {name: runs[0] for name, runs in batch.feeds.items()}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "splits.so"
        onnxc.compile(model, path, mcpu="native")
        alone = onnxc.InferenceSession(path, threads=1).run(None, feeds)
        for threads in (2, 5):
            session = onnxc.InferenceSession(path, threads=threads)
            for _ in range(3):
                together = session.run(None, feeds)
                for output, a, b in zip(model.graph.output, alone, together, strict=True):
                    assert a.tobytes() == b.tobytes(), f"{output.name} {batch.labels[output.name]}, {threads} threads"


def test_large_tensors():
    large().check()
