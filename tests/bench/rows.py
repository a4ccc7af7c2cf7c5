"""Times single operators as whole models, beside other runtimes and beside what limits them on this machine.

Every round measures all sides and the limits, one thread, CPU time; figures are medians over rounds. The limit of a
contraction is the core's multiply-adds (of a convolution by Winograd, too: counted as the direct sum, so it may pass
100 %), of the others the bandwidth of the memory that holds their data: see `LIMITS`.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from statistics import median

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import onnxc
from onnxc.bench import RUNNERS

from .limits import Limits

ROUNDS = 11
BLOCK_SECONDS = 0.02
PEERS = ("onnxruntime", "openvino")
# How each limit is measured, in units of `Row.work`.
LIMITS: dict[str, Callable[[Limits], float]] = {
    "FMA": lambda limits: limits.multiply_adds(),
    "L2 copy": lambda limits: limits.copying(1 << 19),
    "L3 copy": lambda limits: limits.copying(10 << 20),
    "L2 read": lambda limits: limits.reading(1 << 20),
    "L3 read": lambda limits: limits.reading(4 << 20),
    "memory read": lambda limits: limits.reading(64 << 20),
}
rng = np.random.default_rng(0)


def matmul(m: int, k: int, n: int) -> tuple[onnx.ModelProto, dict[str, np.ndarray], float]:
    return *_model("MatMul", (m, k), (m, n), [_numbers(k, n)]), 2.0 * m * k * n


def gemv(m: int, k: int) -> tuple[onnx.ModelProto, dict[str, np.ndarray], float]:
    """A layer of k inputs and outputs for few rows, which reads its weights and does little else."""
    return *_model("Gemm", (m, k), (m, k), [_numbers(k, k), _numbers(k)]), 4.0 * k * k


def conv(side: int, c: int, m: int, window: int, stride: int, group: int = 1):
    out = (side + window // 2 * 2 - window) // stride + 1
    model, feeds = _model(
        "Conv", (1, c, side, side), (1, m, out, out), [_numbers(m, c // group, window, window), _numbers(m)],
        pads=[window // 2] * 4, strides=[stride] * 2, group=group,
    )  # fmt: skip
    if group > 1:
        return model, feeds, 4.0 * (c * side**2 + m * out**2)
    return model, feeds, 2.0 * out * out * m * c * window**2


def rowwise(op: str, shape: Sequence[int], constants: int):
    model, feeds = _model(op, shape, shape, [_numbers(shape[-1]) for _ in range(constants)], axis=-1)
    return model, feeds, 8.0 * np.prod(shape)


ROWS = {
    "matmul 1024³": ("FMA", lambda: matmul(1024, 1024, 1024)),
    "gemv 4096²": ("memory read", lambda: gemv(1, 4096)),
    "gemv 1024²": ("L3 read", lambda: gemv(1, 1024)),
    "gemv 512²": ("L2 read", lambda: gemv(1, 512)),
    "2 × 4096²": ("memory read", lambda: gemv(2, 4096)),
    "8 × 4096²": ("memory read", lambda: gemv(8, 4096)),
    "8 × 1024²": ("L3 read", lambda: gemv(8, 1024)),
    "2 × 512²": ("L2 read", lambda: gemv(2, 512)),
    "8 × 512²": ("FMA", lambda: matmul(8, 512, 512)),
    "conv 3×3": ("FMA", lambda: conv(56, 64, 64, 3, 1)),
    "conv 3×3/2": ("FMA", lambda: conv(56, 128, 128, 3, 2)),
    "conv 1×1": ("FMA", lambda: conv(56, 256, 64, 1, 1)),
    "conv 7×7/2": ("FMA", lambda: conv(224, 3, 64, 7, 2)),
    "depthwise 3×3": ("L3 copy", lambda: conv(112, 96, 96, 3, 1, 96)),
    "softmax": ("L2 copy", lambda: rowwise("Softmax", (12, 128, 128), 0)),
    "layernorm": ("L2 copy", lambda: rowwise("LayerNormalization", (128, 768), 2)),
}


def run(mcpu: str = "native") -> list[dict]:
    """A dict a row, printed as it is found; other runtimes, which use all that the CPU has, only beside `native`."""
    limits, found = Limits(mcpu), []
    for name, (limit, build) in ROWS.items():
        found.append(measure(name, limit, *build(), limits, mcpu))
        beside = "  {ratio:.2f} of {best}" if found[-1]["peer_ms"] else ""
        print(("{name:14s} {ms:8.4f} ms  {share:4.0%} of {limit}" + beside).format(**found[-1]), flush=True)
    return found


def measure(
    name: str, limit: str, model: onnx.ModelProto, feeds: dict, work: float, limits: Limits, mcpu: str = "native"
) -> dict:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "row.onnx"
        onnx.save(model, path)
        onnxc.compile(path, path.with_suffix(".so"), mcpu=mcpu)
        sides = {"onnxc": RUNNERS["onnxc"](path.with_suffix(".so"), 1)}
        peers = [peer for peer in PEERS if mcpu == "native" and find_spec(peer)]
        sides |= {peer: RUNNERS[peer](path, 1) for peer in peers}
        times: dict[str, list[float]] = {side: [] for side in sides}
        rates = []
        for _ in range(ROUNDS):
            rates.append(LIMITS[limit](limits))
            for side, call in sides.items():
                times[side].append(_seconds_a_call(call, feeds))
    own, rate = median(times["onnxc"]), median(rates)
    ratios = {p: median(a / b for a, b in zip(times["onnxc"], times[p], strict=True)) for p in times if p != "onnxc"}
    best = max(ratios, key=ratios.__getitem__, default=None)
    return {"name": name, "ms": own * 1e3, "limit": limit, "limit_rate": rate, "share": work / own / 1e9 / rate,
            "best": best, "ratio": ratios.get(best), "peer_ms": {p: median(times[p]) * 1e3 for p in ratios}}  # fmt: skip


def _seconds_a_call(call: Callable, feeds: dict) -> float:
    """CPU time of the process: some runtimes work in threads of their own."""
    count, start, wall = 0, time.process_time_ns(), time.perf_counter()
    while time.perf_counter() - wall < BLOCK_SECONDS or not count:
        call(feeds)
        count += 1
    return (time.process_time_ns() - start) / count / 1e9


def _numbers(*shape: int) -> np.ndarray:
    return rng.standard_normal(shape, dtype=np.float32)


def _model(op: str, given: Sequence[int], result: Sequence[int], constants: Sequence[np.ndarray], **attributes):
    names = [f"c{i}" for i in range(len(constants))]
    graph = helper.make_graph(
        [helper.make_node(op, ["x", *names], ["y"], **attributes)],
        "row",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, given)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, result)],
        [numpy_helper.from_array(a, n) for a, n in zip(constants, names, strict=True)],
    )
    model = helper.make_model(graph, ir_version=9, opset_imports=[helper.make_opsetid("", 17)])
    return model, {"x": _numbers(*given)}
